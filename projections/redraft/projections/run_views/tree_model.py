"""The parts of a run's tree: steps, parallels, loops and their iterations."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

from redraft.events.messages.domain_events import ItemOf, Outcome, Parent
from redraft.events.messages.plan import Role
from redraft.events.messages.scales import Scale
from redraft.events.messages.usage import Usage

NodeStatus: TypeAlias = Literal["open", "waiting", "done", "failed", "dropped", "skipped"]
"""`open`: requested, not answered. `waiting`: failed, to be retried. `failed`: for good. `dropped`: the loop or the run
went on without its answer. `skipped`: a critic whose condition did not hold, and which was not asked.
"""


class Leaf(msgspec.Struct, frozen=True, tag="step"):
    """A step. `requested` is when it was first requested, `finished` when its last answer came (UTC).

    `seconds` is the time between both; `attempts` counts the tries; `draft` is the version it made, judged or
    published; `score` (0..1) is a critic's, shown on `scale`, with its criteria in `marks`; `error` is the message of
    the last failure; `usage` is the total of all attempts. `chosen` is the name of the arm if the step chose among
    several. `verdict` says in words whether a critic approved its draft, where it said so: not to is a veto. `issues`
    counts those that a critique places in its draft, `edits` those that a refiner made instead of writing the whole
    text, and `saved_tokens` is what that saved, by estimate. `overruled` names the critics whose
    veto an approval overrules. An `inherited` step was done in the parent of this fork, which has its time and
    usage. `reused` is the event whose verdict was taken again, of the run `reused_from` if that is another. `late` is
    a verdict that its panel did not wait for, and which does not count. `changed` are the values of the run's state
    that its last answer changed, in words; `draft` is the one that a step without one of the four roles is asked about.
    Of an item that a run of its own works on, `run` is that run, and `inner` its tree, where it was read. A publisher
    that was at work when its run went on or ended without it `may_have_delivered`.
    """

    path: str
    name: str
    role: Role | Literal["approver"]
    actor: str
    status: NodeStatus
    attempts: int
    requested: datetime
    finished: datetime | None = None
    seconds: float | None = None
    score: float | None = None
    scale: Scale | None = None
    marks: str = ""
    draft: int | None = None
    error: str = ""
    usage: Usage = Usage()
    inherited: bool = False
    chosen: str = ""
    overruled: str = ""
    verdict: str = ""
    issues: int = 0
    edits: int = 0
    saved_tokens: int = 0
    reused: int = 0
    reused_from: str = ""
    late: bool = False
    changed: str = ""
    run: str = ""
    inner: Tree | None = None
    may_have_delivered: bool = False


class Group(msgspec.Struct, frozen=True, tag="parallel"):
    """Steps that were requested in parallel."""

    path: str
    name: str
    children: tuple[Branch, ...]


class Iteration(msgspec.Struct, frozen=True, tag="iteration"):
    """One iteration of a loop's body. `label` is its number (from 1), or `closing`; `started` its time (UTC).

    `seconds` is the time from then to its last answer; None while a step of it is open, and where it was done in the
    parent of this fork.
    """

    path: str
    label: str
    started: datetime | None
    children: tuple[Branch, ...]
    seconds: float | None = None


MAY_HAVE_DELIVERED: Final = "it may have delivered: no answer of it was counted"
"""The words that `show` and the audit page add for a publisher that was at work when its run ended."""

_LOOKS: Final = {"closing": "closing look", "edit": "look at a person's draft"}


def look_name(label: str) -> str:
    """Returns what an iteration of this label is that refines nothing: `closing look`; empty for one that counts."""
    return _LOOKS.get(label.rstrip("0123456789"), "")


NO_SCORE: Final = "no score: the loop ends by its own condition"
"""The line about the score of a loop without critics."""


class Loop(msgspec.Struct, frozen=True, tag="loop"):
    """A loop. `outcome` is None while it runs; `closing` is the reason why its critics were asked once more.

    `unjudged`: no critic in its body judges a draft, so it has no score and ends by its own condition.
    """

    path: str
    name: str
    iterations: tuple[Iteration, ...]
    closing: str = ""
    outcome: Outcome | None = None
    reason: str = ""
    draft: int | None = None
    score: float | None = None
    scale: Scale | None = None
    unjudged: bool = False


Branch: TypeAlias = Leaf | Group | Loop


class Summary(msgspec.Struct, frozen=True):
    """The end of a run. `draft` is the version that it ended with; `iterations` counts those of the outermost loops."""

    outcome: Outcome
    reason: str
    iterations: int
    draft: int | None
    score: float | None
    ended: datetime
    scale: Scale | None = None


class Tree(msgspec.Struct, frozen=True):
    """A run after `version` events. `ended` is None while it runs; times are UTC, `seconds` from its first event on.

    `paused` holds who paused it and why, while it is paused; `waiting` who must decide on which draft; `quarantined`
    who quarantined it and why. A fork names its `parent`, and the version up to which it repeats the parent's events.
    `state` are the values of its state, in words. `of` is the item of another run that it works on, if any.
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
    state: str = ""
    of: ItemOf | None = None
