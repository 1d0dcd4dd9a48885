"""The command line: one file a verb group, and one place where faults become exit codes."""

from __future__ import annotations

from redraft.app.cli.verbs import main

__all__ = ["main"]
