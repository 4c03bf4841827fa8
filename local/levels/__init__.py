"""The levels of the gate, in their order."""
