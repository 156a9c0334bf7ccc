"""Play games as a person, in the terminal or in a browser."""
