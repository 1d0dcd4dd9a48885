"""Holds durable subscriptions and the port of where they are kept; knows no database."""
