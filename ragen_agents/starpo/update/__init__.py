"""From trajectories to changed weights."""
