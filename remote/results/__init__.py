"""The outputs: one file per sample, the manifest, and whether they are valid."""
