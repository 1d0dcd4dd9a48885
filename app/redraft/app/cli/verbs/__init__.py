"""Holds one file for each verb, or for verbs that belong together; only `cli.verb_list` knows them."""
