"""Adapters of the games for other libraries. Each module needs its library."""
