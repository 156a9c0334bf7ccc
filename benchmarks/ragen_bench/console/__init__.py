"""Print tables, progress and log records in a terminal."""
