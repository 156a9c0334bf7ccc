"""Intervals, paired tests, mixed effects, power."""
