"""Runs the processes of a deployment, and looks after them."""
