"""Who plays the games, and how they learn."""
