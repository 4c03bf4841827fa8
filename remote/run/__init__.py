"""What a run is made of: attempts, budgets, events, the end, what is told of it."""
