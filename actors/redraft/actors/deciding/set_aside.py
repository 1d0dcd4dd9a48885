"""The state of a run that was set aside, and of one that was erased. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from redraft.actors.deciding.state import RunState
from redraft.events.messages.domain_events import DomainEvent, RunEnded, RunErased, RunStarted
from redraft.events.messages.redaction import ERASED


def is_erased(happened: Sequence[DomainEvent]) -> bool:
    """Returns whether these are the events of a run that has ended, and whose texts can be read no more."""
    begun = happened[0] if happened else None
    erased = isinstance(begun, RunStarted) and begun.brief.text == ERASED
    return erased and any(isinstance(event, RunEnded) for event in happened)


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
