"""Make leaderboard entries from runs, check them by replaying, and show them as pages."""
