"""Model folders that are made here: converted GGUF files and models from the package index, in a cache."""
