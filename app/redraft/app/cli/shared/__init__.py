"""Holds what several verbs share: options, output, exit codes, signals; knows no verb and no view."""
