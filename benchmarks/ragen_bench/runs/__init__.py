"""Keep runs in directories: their config, their environment and every episode."""
