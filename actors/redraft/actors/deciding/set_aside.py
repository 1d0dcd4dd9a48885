"""The state of a run that was set aside. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from redraft.actors.deciding.state import RunState
from redraft.events.messages.domain_events import DomainEvent, RunErased, RunStarted


def set_aside(state: RunState, happened: Iterable[DomainEvent] = ()) -> RunState:
    """Returns the state of a run that is decided on no more, whatever else these events contain."""
    for event in happened:
        match event:
            case RunStarted(plan, brief, at):
                state = replace(state, plan=plan, brief=brief, started=at)
            case RunErased():
                state = replace(state, erased=True)
            case _:
                pass
    return replace(state, status="quarantined", open={}, frames=(), approval=None, late={}, picks=(), failure=None)
