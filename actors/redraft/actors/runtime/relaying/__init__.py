"""Follows the log: sends the requests that it names, and announces its events."""
