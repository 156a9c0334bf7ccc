"""Pictures of games: drawing, fonts, tiles and cards."""
