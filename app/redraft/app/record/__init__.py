"""Turns a log into documents and back (audit pages, archives, signed checkpoints) and erases the texts of runs.

It alone knows jinja2 and markupsafe, and it knows nothing of the command line.
"""
