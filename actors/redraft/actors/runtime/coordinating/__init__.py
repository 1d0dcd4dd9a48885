"""Decides for every run and records it: the coordinator, its share of the inbox, and due times."""
