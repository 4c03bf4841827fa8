"""A STAND-IN for speculators, for the chaos suite only."""
