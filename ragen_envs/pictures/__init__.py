"""Pictures of games: drawing, fonts and tiles."""
