"""Holds feeds of events, positions of subscribers, and delivery; knows nothing of the command line."""
