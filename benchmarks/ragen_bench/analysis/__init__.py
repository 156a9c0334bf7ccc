"""Judge decisions by the exact oracle: regret, luck, and the turns that lost episodes."""
