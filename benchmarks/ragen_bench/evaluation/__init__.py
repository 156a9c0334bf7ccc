"""Play what a run lacks, within its limits, and summarise it."""
