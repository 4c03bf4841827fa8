"""A STAND-IN for speculators.data_generation, for the chaos suite only."""
