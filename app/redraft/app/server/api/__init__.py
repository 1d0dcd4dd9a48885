"""Holds the paths of the HTTP API: what each takes, asks and answers."""
