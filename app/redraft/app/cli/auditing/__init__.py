"""Holds the tasks of `redraft audit`: telling a run's story, verifying and exporting runs and logs; knows no verb."""
