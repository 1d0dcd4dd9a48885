"""Holds all that knows SQLite under the event store; knows nothing of PostgreSQL."""
