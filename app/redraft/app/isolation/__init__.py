"""Holds actors in processes of their own; knows nothing of runs."""
