"""Keeps the rows and checkpoints of read models, for any database; knows no single read model."""
