"""The package that `ragen new-game` writes."""
