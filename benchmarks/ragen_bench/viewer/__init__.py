"""Show episodes in a browser: boards, replies and the oracle's judgement."""
