"""Tests and measurements on a GPU, a process each, and the page of results: ``python -m gpu_check``."""
