"""Carries out requests: takes them from a queue, calls an actor, reports what came of it."""
