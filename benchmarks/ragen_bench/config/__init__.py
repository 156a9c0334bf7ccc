"""What is to be run: suites, agents, the configs of runs, YAML."""
