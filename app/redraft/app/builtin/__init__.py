"""Holds the actors that come with Redraft; knows nothing of runs, wiring and the command line."""
