"""Keeps the record: archives, keys, erasure."""
