"""Play the missing episodes of a run within its limits, and summarise it."""
