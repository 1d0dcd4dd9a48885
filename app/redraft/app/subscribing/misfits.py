"""Folds a run's record for those who read it, and finds the event that decodes and does not follow from the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from redraft.actors.deciding.evolve import evolve, fold
from redraft.actors.deciding.set_aside import is_erased
from redraft.actors.deciding.state import RunState
from redraft.events.errors import CodecError, RedraftError, SetAside, UnknownRules
from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import (
    ApprovalExpired,
    DomainEvent,
    DraftApproved,
    DraftMade,
    DraftRejected,
    RunQuarantined,
    RunStarted,
)
from redraft.events.messages.envelope import Entry, Recorded, Unreadable
from redraft.events.messages.plan import nodes_of
from redraft.projections.display import plain, quoted
from redraft.projections.run_views.narrative import plan_path

NEW: Final = RunState()


class Misfit(Unreadable, frozen=True, gc=False):
    """An event that can be read, and does not follow from those before it in its run: a stranger recorded it."""


def remedy(entry: Unreadable) -> str:
    """Returns what to do about a run that has such an entry."""
    return _remedy(entry.run) if isinstance(entry, Misfit) else "see redraft doctor"


def _remedy(run: str) -> str:
    return (
        f"redraft audit {quoted(run)} --verify says more, "
        f"and redraft quarantine {quoted(run)} --reason … sets the run aside"
    )


def fitting(entries: Sequence[Entry], state: RunState = NEW) -> tuple[tuple[Entry, ...], RunState]:
    """Returns a run's entries, a `Misfit` in place of the first event that does not follow, and the state up to it.

    They are all of a run, or those after the ones that led to `state`. The state is not folded further than to what
    cannot be read, and not at all where the run was erased or follows rules of a later release.
    """
    if is_erased([each.data for each in entries if isinstance(each, Recorded)]):
        return tuple(entries), state
    for number, entry in enumerate(entries):
        if isinstance(entry, Unreadable):
            break
        try:
            state = _follow(state, entry)
        except UnknownRules:
            break
        except _Strange as error:
            return (*entries[:number], error.entry, *entries[number + 1 :]), state
    return tuple(entries), state


def folded(events: Sequence[Recorded]) -> RunState:
    """Returns what `fold` does. Raises CodecError, with the place and the remedy, where an event does not follow."""
    if any(isinstance(event.data, RunQuarantined) for event in events):
        return fold(event.data for event in events)
    entries, state = fitting(events)
    for broken in (each for each in entries if isinstance(each, Misfit)):
        raise CodecError(unread_text(broken))
    return state if state.version == len(events) else fold(event.data for event in events)


@contextmanager
def following_its_plan(run: str) -> Iterator[None]:
    """Raises CodecError, with the remedy, in place of what no more than the events of this run can bring about.

    What is done in the block is pure: it has these events in memory, and asks nobody.
    """
    try:
        yield
    except RedraftError:
        raise
    except Exception as error:
        raise CodecError(f"the record of run {run} does not follow its plan; {_remedy(run)}") from error


def followed(state: RunState, event: Recorded) -> RunState:
    """Returns the state after an event. Raises SetAside where it does not follow, UnknownRules as `fold` does."""
    try:
        return _follow(state, event)
    except _Strange as error:
        raise unread(error.entry) from error


def unread(entry: Unreadable) -> SetAside:
    """Returns the error for a run with a row that cannot be read."""
    return SetAside(unread_text(entry))


def unread_text(entry: Unreadable) -> str:
    """Returns which run cannot be read, from where on and why, and the remedy."""
    return f"run {entry.run} cannot be read from event {entry.version} on: {entry.why}; {remedy(entry)}"


class _Strange(Exception):
    """An event does not follow from those before it."""

    def __init__(self, event: Recorded, why: str) -> None:
        told = f"it does not follow from the events before it{why}"
        self.entry = Misfit(event.run, event.version, event.position, event.name, told, event.hash)


def _follow(state: RunState, recorded: Recorded) -> RunState:
    """Returns the state after an event. Raises _Strange, and UnknownRules as `fold` does."""
    event = recorded.data
    if isinstance(event, RunStarted) != (state.version == 0):
        raise _Strange(recorded, ": a run begins with its start, once")
    made = event.draft.version if isinstance(event, DraftMade) else 0
    named = [getattr(event, "draft", None), getattr(event, "before", None)]
    if made > state.drafts + 1 or any(isinstance(each, DraftRef) and each.version > state.drafts for each in named):
        raise _Strange(recorded, ": it names a draft that there is not")
    if isinstance(event, DraftApproved | DraftRejected | ApprovalExpired) and state.approval is None:
        raise _Strange(recorded, ": nobody was asked to decide")
    try:
        return evolve(state, event)
    except UnknownRules:
        raise
    except Exception as error:
        why = f": {error}" if isinstance(error, RedraftError) else _why_elsewhere(state, event)
        raise _Strange(recorded, why) from error


def _why_elsewhere(state: RunState, event: DomainEvent) -> str:
    """Returns that an event is about no place in its plan; empty where it is about one, or about none."""
    path = getattr(event, "path", "")
    is_known = not path or plan_path(path) in dict(nodes_of(state.plan.steps))
    return "" if is_known else f": its path {plain(path)} names no step of the plan"
