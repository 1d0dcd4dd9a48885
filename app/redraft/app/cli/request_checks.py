"""The check of `redraft doctor` whether requests can be made: what a relay leaves out or refuses is told of here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from redraft.actors.relay import unanswered
from redraft.actors.trouble import raise_if_general, told
from redraft.app.cli.check import Check
from redraft.app.commands_given import given
from redraft.events.domain_events import RunEnded, StepFailed, StepRequested
from redraft.events.envelope import Recorded
from redraft.events.errors import CodecError, Sealed, Tampered
from redraft.events.store import EventStore
from redraft.projections.plain import counted, plain

UNREADABLE: Final = (CodecError, Sealed, Tampered)
"""What is raised for a run that cannot be read here."""

RELAY: Final = "relay"
"""Who says that a step failed whose request could not be made or sent."""


async def requests_check(store: EventStore, runs: Sequence[str]) -> Check:
    """Whether every open request of these runs can be made, and whether steps failed because theirs could not."""
    left_out: dict[str, str] = {}
    refused: list[str] = []
    for run in runs:
        try:
            events = await store.read(run)
        except UNREADABLE:
            continue  # the check of the runs tells of it
        try:
            refused += [run for event in events if isinstance(event.data, StepFailed) and event.actor == RELAY]
            if not isinstance(events[-1].data, RunEnded):
                await _make_all(store, events)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a run concerns that run alone
            raise_if_general(error)
            left_out[run] = told(error)
    if left_out:
        run, fault = next(iter(left_out.items()))
        said = f"{counted(len(left_out), 'run')} left out, as requests cannot be made: {run}: {plain(fault)}"
        return Check("requests", "fail", said)
    if refused:
        because = "because its request could not be made or sent"
        said = f"{counted(len(refused), 'step')} failed {because}, the last in {refused[0]}; see redraft audit"
        return Check("requests", "warn", said)
    return Check("requests", "ok", "all that is asked for can be made")


async def _make_all(store: EventStore, events: Sequence[Recorded]) -> None:
    for event in unanswered(events):
        if isinstance(event.data, StepRequested):
            await given(events, event.data.path, event.data.attempt, store.read)
