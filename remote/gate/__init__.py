"""What stands behind the gate's levels from the imports on, and what a verdict rests on."""
