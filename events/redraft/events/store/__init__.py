"""Holds the event store and the port of what lies under it; knows neither SQLite nor PostgreSQL."""
