"""Being told: what a job file wants done when its run is done, has failed, hangs, or cannot be reached."""
