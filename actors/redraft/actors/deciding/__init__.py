"""Holds the pure core, which decides and folds; knows no time, no chance, no files, no servers."""
