"""The controller: runs on the laptop."""
