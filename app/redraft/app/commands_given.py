"""What a worker saw: the very command that it was given for a step, made from the log as the relay made it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Final, TypeAlias

import msgspec

from redraft.actors.material import Material
from redraft.events.commands import WORK_NAMES, Work
from redraft.events.domain_events import RunStarted, StepRequested
from redraft.events.envelope import Recorded
from redraft.events.errors import InputError

_NAMED: Final = 5

Read: TypeAlias = Callable[[str], Awaitable[Sequence[Recorded]]]
"""All events of a run."""


class Given(msgspec.Struct, frozen=True):
    """A command, by its stable name, and where the log asks for it: run, version, time (UTC).

    `run` is that in which the worker was asked: for what a fork repeats, the run that it came from.
    """

    run: str
    version: int
    time: datetime
    name: str
    command: Work


async def given(events: Sequence[Recorded], path: str, attempt: int | None, read: Read) -> Given:
    """The command for a step of a run, its last attempt unless another is named (from 1), as it was first sent.

    Raises InputError for a step or an attempt that was not asked for, CodecError when the log does not hold its texts.
    """
    asked = _asked(events, path, attempt)
    while asked.repeats:
        events = await read(_parent(events))
        asked = events[asked.version - 1]
    if not isinstance(asked.data, StepRequested):
        raise InputError(f"event {asked.version} of run {asked.run} asks for nothing")
    work = Material(events[: asked.version]).command(asked.run, asked.data, at=asked.time)
    return Given(asked.run, asked.version, asked.time, WORK_NAMES[type(work)], work)


def _asked(events: Sequence[Recorded], path: str, attempt: int | None) -> Recorded:
    """The last request for this step, or for this attempt of it."""
    tries: dict[int, Recorded] = {}
    paths: dict[str, None] = {}
    for event in events:
        if isinstance(event.data, StepRequested):
            paths[event.data.path] = None
            if event.data.path == path:
                tries[event.data.attempt] = event
    if not tries:
        raise InputError(f"--step: run {events[0].run} has no step {path!r} {_known(path, list(paths))}")
    number = max(tries) if attempt is None else attempt
    if number not in tries:
        there = ", ".join(map(str, tries))
        raise InputError(f"--attempt {number}: {path} was asked for in attempt {there}; give one of these")
    return tries[number]


def _known(path: str, paths: Sequence[str]) -> str:
    close = get_close_matches(path, paths, n=1, cutoff=0.5)
    if close:
        return f"by then; did you mean {close[0]}?"
    return f"by then; it has {', '.join(paths[:_NAMED])}{', …' if len(paths) > _NAMED else ''}"


def _parent(events: Sequence[Recorded]) -> str:
    begun = events[0].data
    if not isinstance(begun, RunStarted) or begun.parent is None:
        raise InputError(f"run {events[0].run} repeats events, and names no parent")
    return begun.parent.run
