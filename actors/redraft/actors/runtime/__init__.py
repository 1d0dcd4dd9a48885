"""Holds coordinator, relay, timekeeper and worker; knows ports alone, neither a broker nor a database."""
