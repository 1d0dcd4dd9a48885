"""Holds the workflow `prose`, which judges and mends English without a model; knows no other built-in actors."""
