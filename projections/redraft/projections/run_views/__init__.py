"""Holds views of one run, each a pure fold over its events: tree, sentences, narrative, chart, differences of drafts.

It knows no tables, and nothing of what checks records.
"""
