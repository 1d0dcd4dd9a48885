"""Holds gates: critics that pass a draft or hold it back; knows no other built-in actors."""
