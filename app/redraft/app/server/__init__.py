"""Holds the HTTP API: what `redraft serve` answers; knows nothing of the command line."""
