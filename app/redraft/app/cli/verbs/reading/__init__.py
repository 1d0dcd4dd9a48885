"""Looks at runs: `list`, `show`, `events`, `stats`, `audit`, `whatif` and their kin."""
