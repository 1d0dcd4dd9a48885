"""Rates of value added tax, in percent."""

RATES = {"de": 19, "fr": 20, "ch": 8.1}
