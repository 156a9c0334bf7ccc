"""The door in Python: evaluate agents, and read what runs hold. ``import ragen_bench`` exports its names."""
