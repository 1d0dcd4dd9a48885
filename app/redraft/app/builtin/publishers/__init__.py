"""Holds the publishers that come with Redraft; knows no other built-in actors."""
