"""Holds actors that run programs: commands, pytest, ruff; knows no other built-in actors."""
