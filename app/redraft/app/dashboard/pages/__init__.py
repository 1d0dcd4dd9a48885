"""Holds one file for each subject of the pages; `dashboard.routes` puts them together."""
