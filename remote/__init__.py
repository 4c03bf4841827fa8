"""The payload: runs on the host, on the standard library alone."""
