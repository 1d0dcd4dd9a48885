"""Holds the settings, which are read once; knows nothing of what they are for."""
