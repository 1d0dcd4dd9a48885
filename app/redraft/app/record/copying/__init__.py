"""Copies runs out of a log and into one: archives, pairs for training, without names or with texts."""
