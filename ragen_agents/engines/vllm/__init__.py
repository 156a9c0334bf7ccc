"""vLLM as an engine, in this process or behind a server."""
