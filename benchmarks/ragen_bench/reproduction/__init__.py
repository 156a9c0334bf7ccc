"""The paper's tables and figures: its numbers beside ours, and what can be said of its claims."""
