"""The static level: what the sources of a host's packages say about code that was written for others."""
