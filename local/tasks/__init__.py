"""The bodies of the fabfile's tasks: each gets a host's Session (or the Screen), calls the rooms, and prints."""
