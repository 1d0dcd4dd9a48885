"""Finds verdicts that other runs recorded, and proves each by the log before it is taken again.

A read model says where verdicts with a key may be. Whatever it says, what is taken stands in the log: a read model that
lags behind, or is wrong, only means that a critic is asked once more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from redraft.actors.deciding.reusing import Earlier
from redraft.events.errors import CodecError, EncryptionKeyMissing, Tampered
from redraft.events.messages.codec import GENESIS
from redraft.events.messages.content import Critique
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    EventRef,
    RunErased,
    RunQuarantined,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded

Candidates: TypeAlias = Callable[[str], Awaitable[Sequence[EventRef]]]
"""Returns events that may have a verdict with this key, the best first; it may leave some out."""


class RunReader(Protocol):
    """Reads the events of a run."""

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...


async def find_earlier(log: RunReader, candidates: Candidates, key: str) -> Earlier | None:
    """Returns the first of the candidates whose verdict the log proves. Raises StoreError when the log is away."""
    for event in await candidates(key):
        try:
            events = await log.read(event.run)
        except (CodecError, EncryptionKeyMissing, Tampered):  # whatever is wrong with that run, others go on
            continue
        critique = proven_verdict(events, event.version, key)
        if critique is not None:
            return Earlier(event, critique)
    return None


def proven_verdict(events: Sequence[Recorded], version: int, key: str) -> Critique | None:
    """Returns the verdict in an event of a run, given with all its events, if it may be taken again under this key.

    It is its own critic's, who looked at nothing but what it was given and changed no state, in a run that is complete,
    not encrypted, not erased and not set aside.
    """
    if not 0 < version <= len(events) or not _is_usable(events):
        return None
    source = events[version - 1]
    said = source.data
    if not isinstance(said, DraftCritiqued) or said.reused is not None or source.repeats:
        return None
    if not said.hermetic or said.state:
        return None
    if "@" in source.actor:  # so signs a worker whose code is not of the version that the plan, and so the key, names
        return None
    for event in reversed(events[: version - 1]):
        asked = event.data
        if isinstance(asked, StepRequested) and (asked.path, asked.attempt) == (said.path, said.attempt):
            fits = asked.verdict_key == key and asked.draft == said.draft and asked.reused is None
            return said.critique if fits else None
    return None


def _is_usable(events: Sequence[Recorded]) -> bool:
    """Returns whether the events are a chain from the beginning, in plain text, of a run that was not set aside."""
    last = GENESIS
    for number, event in enumerate(events, 1):
        if event.version != number or event.previous != last:
            return False
        if event.encrypted or isinstance(event.data, RunErased | RunQuarantined):
            return False
        last = event.hash
    return True
