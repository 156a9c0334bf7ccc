"""Passes of transformers models: generation, fast for small models on CPUs, and training on token trees."""
