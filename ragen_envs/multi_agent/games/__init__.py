"""The games for several players, a folder each."""
