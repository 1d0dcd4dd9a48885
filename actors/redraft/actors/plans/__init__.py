"""Holds names and paths in a plan and the checks of a plan; knows nothing of runs."""
