"""Refines texts, or rehearses it: `run`, `files`, `simulate`, `plan` and their kin."""
