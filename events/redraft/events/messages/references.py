"""References from a run to other runs: the parent of a fork, an event, the item of an Each."""

from __future__ import annotations

import msgspec


class Parent(msgspec.Struct, frozen=True, gc=False):
    """The run that a fork came from, and the version (from 1) up to which the fork repeats its events."""

    run: str
    version: int


class ItemOf(msgspec.Struct, frozen=True, gc=False):
    """The item of another run's Each that a run works on: at this `path` in that `run`, such as `Chapters[3]`."""

    run: str
    path: str


class EventRef(msgspec.Struct, frozen=True, gc=False):
    """An event, by its run and its version (from 1) in it."""

    run: str
    version: int
