"""Projections that stop: why, where, and that they go on again."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

import msgspec

from redraft.projections.plain import error_text, plain
from redraft.projections.projection import Projection

LONGEST: Final = 500
"""The characters of an error that are kept."""


class Stopped(msgspec.Struct, frozen=True):
    """A projection cannot take the event at the position `failed`, and stays at `position`; the others go on."""

    projection: str
    position: int
    failed: int
    error: str


class SetAside(msgspec.Struct, frozen=True):
    """A run that is not projected from the event `version` on, which cannot be read or taken; everything else is."""

    run: str
    version: int
    position: int
    error: str


class Resumed(msgspec.Struct, frozen=True):
    """A projection that had stopped goes on, and has reached this position."""

    projection: str
    position: int


class Faulty(Exception):
    """Carries the projection that failed, and its error, out of the transaction that is then rolled back."""

    def __init__(self, projection: Projection, error: Exception) -> None:
        super().__init__(projection.name)
        self.projection = projection
        self.error = error


def reason(error: Exception) -> str:
    """An error as one line: its kind, what it says, and the file and line of the projection's own code."""
    said = plain(error_text(error), LONGEST)
    ours = str(Path(__file__).parent)
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(ours)]
    return f"{said} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else said
