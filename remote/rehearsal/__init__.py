"""The gate's last level: the whole job on a tiny random model of the target's architecture, before the load."""
