"""Keeps read models in PostgreSQL; with `events.postgres` it alone imports psycopg; knows nothing of SQLite."""
