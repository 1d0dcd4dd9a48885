"""Holds events as HTTP posts: address, signature, sender; knows nothing of the command line."""
