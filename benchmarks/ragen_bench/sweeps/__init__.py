"""Sweeps of fixed models: the same agents at the points of one or several axes, without training."""
