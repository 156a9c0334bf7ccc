"""What `make gpu` runs: CUDA tests, training, speed at the paper's scale, and a page of what was found."""
