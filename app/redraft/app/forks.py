"""How a fork is asked for: from another run's history, and from what is to be different."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from redraft.actors.evolve import fold
from redraft.actors.forking import unfit
from redraft.actors.pinning import pinned, unpinned
from redraft.actors.run_state import RunState
from redraft.actors.workflow import Workflow
from redraft.events.commands import StartRun
from redraft.events.content import Brief
from redraft.events.domain_events import Parent, RunStarted
from redraft.events.envelope import Recorded
from redraft.events.errors import InputError
from redraft.events.plan import Plan
from redraft.events.tags import checked_tags


class Change(msgspec.Struct, frozen=True):
    """What a fork has otherwise than its parent at that event; None: as it was."""

    plan: Workflow | Plan | None = None
    brief: Brief | str | None = None
    tags: Iterable[str] | None = None


def fork_of(past: Sequence[Recorded], at: int, run: str, key: str, change: Change) -> StartRun:
    """What asks for the run `run` as a fork, at event `at`, of the one that `past` is all of.

    Raises InputError when there is no such event, the run had ended by it, or the fork cannot begin like this.
    """
    before = stand(past, at)
    begun = past[0].data
    tags = begun.tags if change.tags is None and isinstance(begun, RunStarted) else change.tags or ()
    plan = unpinned(before.plan) if change.plan is None else planned(change.plan)
    brief = before.brief if change.brief is None else as_brief(change.brief)
    start = StartRun(run, plan, brief, key, checked_tags(tags), Parent(past[0].run, at))
    if fault := unfit(start, past[:at]):
        raise InputError(f"it cannot be forked: {fault}")
    return start


def stand(past: Sequence[Recorded], at: int) -> RunState:
    """Where a run stood at an event, if it can be forked there; else InputError."""
    run = past[0].run
    if not 1 <= at <= len(past):
        raise InputError(f"run {run} has {len(past)} events, and none is number {at}; give 1 to {len(past)}")
    state = fold(event.data for event in past[:at])
    if state.status != "running" or state.cancelled is not None or state.refused:
        raise InputError(f"run {run} had ended by event {at}: nothing is left to do; fork at an earlier one")
    return state


def planned(workflow: Workflow | Plan) -> Plan:
    """The plan of a workflow, with the versions of the actors that it was built with; a plan as it is."""
    return pinned(workflow.plan, workflow.actors.values()) if isinstance(workflow, Workflow) else workflow


def as_brief(brief: Brief | str) -> Brief:
    return Brief(brief) if isinstance(brief, str) else brief
