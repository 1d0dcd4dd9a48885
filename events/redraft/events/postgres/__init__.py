"""Holds all that knows PostgreSQL under the event store; with `projections.postgres` it alone imports psycopg."""
