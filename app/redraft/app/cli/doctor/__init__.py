"""Holds the checks of `redraft doctor`; knows no verb."""
