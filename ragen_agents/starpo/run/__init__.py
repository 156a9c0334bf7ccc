"""A run over time: its directory, checkpoints, metrics and monitor."""
