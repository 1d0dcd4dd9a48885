"""Holds runs of workflows on recorded answers: what actors answered once is answered again, and nobody is asked."""
