"""Compute intervals, paired tests, mixed effects and power."""
