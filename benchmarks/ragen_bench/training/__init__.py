"""Training runs: settings, directories, progress, reports."""
