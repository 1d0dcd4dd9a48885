"""Keeps read models in SQLite; knows nothing of PostgreSQL."""
