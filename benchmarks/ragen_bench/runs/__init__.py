"""Run directories: what was run, on what, and every episode of it."""
