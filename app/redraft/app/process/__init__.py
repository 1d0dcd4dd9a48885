"""Holds what any process of ours needs: event loop, logs, health, files, ids; knows nothing of runs."""
