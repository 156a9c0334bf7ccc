"""Agents that play the games, and training for them."""
