"""Holds the actors that ask a language model; of the built-in ones, they alone know pydantic-ai."""
