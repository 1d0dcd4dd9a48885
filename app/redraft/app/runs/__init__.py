"""Holds whole runs from a program: refine, batch, steering; knows nothing of the command line."""
