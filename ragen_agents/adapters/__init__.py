"""Adapters of rollouts for other libraries' trainers."""
