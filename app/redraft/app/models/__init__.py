"""Holds which language model is asked, its prices and its limits; knows nothing of runs."""
