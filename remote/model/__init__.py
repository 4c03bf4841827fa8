"""The model: its folder, its configuration, its classes, and a tiny one of its kind."""
