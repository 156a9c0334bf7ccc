"""Games of several players in the harness: lineups, matches, tables, and their check."""
