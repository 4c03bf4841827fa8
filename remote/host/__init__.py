"""What the host is and what lives on it: cards, disks, packages, processes."""
