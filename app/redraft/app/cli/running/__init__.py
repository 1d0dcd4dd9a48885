"""Holds what `run`, `submit` and `fork` share: a request to run, its progress, its result; knows no verb."""
