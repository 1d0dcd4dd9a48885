"""Holds conditions as text: read, checked, printed; knows no plans."""
