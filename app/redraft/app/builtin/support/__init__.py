"""Holds what several built-in actors share: options, confined files, programs, their output; knows none of them."""
