"""Lays out pictures, without drawing them: charts, lanes of iterations, plans."""
