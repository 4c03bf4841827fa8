"""Ways to reach a host."""
