"""Holds what programs do with runs: submit, wait, steer; knows no coordinator."""
