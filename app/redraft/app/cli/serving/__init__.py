"""Holds what the verbs that serve share: processes, supervision, health; knows no verb."""
