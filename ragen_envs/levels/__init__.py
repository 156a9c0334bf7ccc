"""Levels: seeds, splits, keys and the frozen packs."""
