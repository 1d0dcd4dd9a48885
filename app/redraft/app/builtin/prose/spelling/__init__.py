"""Finds misspelt words and the words that were meant, by lists of words; knows nothing of scores and actors."""
