"""Pure functions: advantages and losses."""
