"""What the tree of a run is made of: steps, those side by side, loops and their passes."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from redraft.events.domain_events import Outcome, Parent
from redraft.events.plan import Role
from redraft.events.usage import Usage

Status: TypeAlias = Literal["open", "waiting", "done", "failed", "dropped"]
"""`open`: asked, not answered. `waiting`: failed, to be tried again. `failed`: for good. `dropped`: its answer was no
longer needed when the loop or the run went on without it."""


class Leaf(msgspec.Struct, frozen=True, tag="step"):
    """A step. `requested` is when it was first asked for, `finished` when its last answer came (UTC).

    `seconds` lie between them; `attempts` counts the tries; `draft` is the version it made, judged or published;
    `score` (0..1) is a critic's; `error` is what the last failed try said; `usage` is what all its tries used.
    Where a step chose among several, `chosen` is the name of the one that it chose.
    Of an approval, `overruled` says whose veto it overrules.
    An `inherited` one was done in the run that this one is a fork of: what it took and used is told there.
    """

    path: str
    name: str
    role: Role | Literal["approver"]
    actor: str
    status: Status
    attempts: int
    requested: datetime
    finished: datetime | None = None
    seconds: float | None = None
    score: float | None = None
    draft: int | None = None
    error: str = ""
    usage: Usage = Usage()
    inherited: bool = False
    chosen: str = ""
    overruled: str = ""


class Group(msgspec.Struct, frozen=True, tag="parallel"):
    """Steps that were asked for side by side."""

    path: str
    name: str
    children: tuple[Branch, ...]


class Pass(msgspec.Struct, frozen=True, tag="pass"):
    """One pass of a loop's body. `label` is its number (from 1), or `closing`; `started` its time (UTC)."""

    path: str
    label: str
    started: datetime | None
    children: tuple[Branch, ...]


class Loop(msgspec.Struct, frozen=True, tag="loop"):
    """A loop. `outcome` is None while it runs; `closing` says why its critics were asked once more."""

    path: str
    name: str
    passes: tuple[Pass, ...]
    closing: str = ""
    outcome: Outcome | None = None
    reason: str = ""
    draft: int | None = None
    score: float | None = None


Branch: TypeAlias = Leaf | Group | Loop


class Summary(msgspec.Struct, frozen=True):
    """How a run ended. `draft` is the version that it ended with; `iterations` the passes of the outermost loops."""

    outcome: Outcome
    reason: str
    iterations: int
    draft: int | None
    score: float | None
    ended: datetime


class Tree(msgspec.Struct, frozen=True):
    """A run after `version` events. `ended` is None while it runs; times are UTC, `seconds` from its first event on.

    `paused` says by whom and why, while it is; `waiting` whom it waits for to decide on which draft; `quarantined` by
    whom and why the run was set aside. A fork names its `parent`, and up to which of its events it repeats them.
    """

    run: str
    workflow: str
    version: int
    started: datetime | None
    seconds: float
    branches: tuple[Branch, ...]
    ended: Summary | None = None
    parent: Parent | None = None
    usage: Usage = Usage()
    paused: str = ""
    waiting: str = ""
    quarantined: str = ""
