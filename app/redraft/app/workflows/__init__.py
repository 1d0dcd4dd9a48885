"""Holds the way from what a person named to a plan with actors; knows nothing of the command line."""
