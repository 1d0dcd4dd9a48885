"""Holds the composition root, in which stores, buses and actors meet; knows nothing of the command line."""
