"""The projections that a person named: one that ships with Redraft, or those of a Python file."""

from __future__ import annotations

from pathlib import Path

from redraft.app.builtin.options import nearest
from redraft.app.user_file import projections_in
from redraft.events.errors import InputError
from redraft.projections.projection import Projection
from redraft.projections.shipped import SHIPPED


def projections_for(target: str) -> tuple[Projection, ...]:
    """`file.py:name`, `file.py` for all of it, or the name of a shipped one. Raises InputError for anything else."""
    file, colon, name = target.rpartition(":")
    if target.endswith(".py"):
        return projections_in(Path(target))
    if colon and file.endswith(".py"):
        return projections_in(Path(file), name)
    found = tuple(each for each in SHIPPED if each.name == target)
    if not found:
        named = nearest(target, [each.name for each in SHIPPED])
        raise InputError(f"no projection is named {target!r}; {named}, or name one of yours: file.py:name")
    return found
