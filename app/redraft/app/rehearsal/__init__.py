"""Rehearses plans with guessed answers, to estimate outcomes, cost and time without calling any actor.

It knows nothing of wiring and the command line.
"""
