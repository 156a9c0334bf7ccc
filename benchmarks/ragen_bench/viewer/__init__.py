"""Episodes in a browser: boards, replies and the oracle's judgement, for runs and for the leaderboard."""
