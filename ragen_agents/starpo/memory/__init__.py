"""Plan the memory of a training run from the model's config and the settings; no weights are loaded."""
