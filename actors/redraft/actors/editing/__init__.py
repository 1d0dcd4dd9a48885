"""Holds what ties critiques and revisions to the words of a draft: places of issues, and edits; pure functions."""
