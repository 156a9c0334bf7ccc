"""The same rollouts for other libraries' trainers."""
