"""Generation with transformers models, made fast for small models on CPUs."""
