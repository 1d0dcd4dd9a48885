"""Holds what can be asked and what can have happened, as data and as bytes; knows neither bus nor store."""
