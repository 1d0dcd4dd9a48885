"""Holds the read models that ship with Redraft, and the queries on them; knows neither SQLite nor PostgreSQL."""
