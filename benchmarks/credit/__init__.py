"""Credit audit: what estimators assign to each turn, beside what the turn was worth."""
