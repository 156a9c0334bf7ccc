"""Export runs to the formats of other harnesses."""
