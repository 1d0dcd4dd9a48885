"""Holds the command line: one file a verb group, and one place where faults become exit codes.

It alone knows typer and rich. An import inside a function is there for start-up time, never for a cycle.
"""

from __future__ import annotations

from redraft.app.cli.main import main

__all__ = ["main"]
