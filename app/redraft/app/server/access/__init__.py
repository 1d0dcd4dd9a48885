"""Holds what stands before a request: who asks, what they may do, and how often."""
