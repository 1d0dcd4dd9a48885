"""Holds what people write in Python: roles, steps, loops, workflows; knows nothing of what runs them."""
