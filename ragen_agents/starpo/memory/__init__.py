"""How much memory a training run needs, from the model's config and the settings; no weights are loaded."""
