"""Reproduce the paper's tables and figures: its numbers beside ours, and verdicts on its claims."""
