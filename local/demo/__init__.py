"""The loopback host, the CPU stack, the tiny model: everything that the demo needs."""
