"""Holds the keys of runs and the cipher for their texts; knows no database."""
