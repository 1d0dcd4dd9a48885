"""Holds the dashboard: pages that `redraft serve` renders from the read models and the log, live while they are open.

It may import everything but the command line and the integrations. Pages call the functions that the HTTP API calls.
"""
