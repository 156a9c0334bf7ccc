"""Describe what to run: suites, agents, the configs of runs."""
