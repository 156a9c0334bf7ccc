"""Sweeps of training: cells of settings, each trained with several seeds and tested on the frozen levels."""
