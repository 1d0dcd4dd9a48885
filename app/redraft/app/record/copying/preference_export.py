"""Writes pairs of drafts for training, of the runs whose owners agreed to it: those that carry a tag."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from hashlib import sha256
from typing import IO, Final

import msgspec

from redraft.app.record.copying.preferences import Preference, preferences
from redraft.events.errors import CodecError, EncryptionKeyMissing, NoSuchRun, Tampered
from redraft.events.messages.domain_events import Parent, RunErased, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.item_ids import is_within
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.tags import check_tags
from redraft.events.store.event_store import EventStore
from redraft.projections.engine.views import Views
from redraft.projections.read_models.runs_query import RunFilter, RunLine, page_of_runs

PAGE: Final = 500
"""Runs that are listed at a time."""


class PreferenceFilter(msgspec.Struct, frozen=True):
    """The pairs to write: those of ended runs that carry the tag `consent`, and that match all else.

    `since` is when something was recorded of a run last. `min_score` (0..1) is what the better draft scored at least,
    `min_gap` by how much more than the other; with `by_people` only pairs that people decided. `names` are written if
    they are wanted.
    """

    consent: str
    workflow: str = ""
    since: datetime | None = None
    runs: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    min_score: float = 0.0
    min_gap: float = 0.0
    by_people: bool = False
    names: bool = False

    def admits(self, pair: Preference) -> bool:
        """Returns whether a pair is to be written. One that people decided needs no gap between its scores."""
        if self.by_people and pair.basis != "person":
            return False
        if self.min_score and (pair.chosen_score is None or pair.chosen_score < self.min_score):
            return False
        return pair.basis == "person" or (pair.gap is not None and pair.gap >= self.min_gap)


class PreferencesWritten(msgspec.Struct, frozen=True):
    """How many pairs of how many runs were written, and how many runs gave none, by the reason."""

    pairs: int
    runs: int
    left_out: dict[str, int] = {}


async def export_preferences(
    store: EventStore, views: Views, wanted: PreferenceFilter, file: IO[bytes]
) -> PreferencesWritten:
    """Writes a line of JSON for each pair. Each run is verified first; one that is faulty, or cannot be opened, is left
    out, and so is what a fork has of a run that does not carry the tag. Raises InputError for a tag that is none.
    """
    (tag,) = check_tags([wanted.consent])
    agreed = {line.run: line.parent async for line in _runs(views, RunFilter(tag=tag, items=True))}
    written, left_out = Counter[str](), Counter[str]()
    seen: set[bytes] = set()
    chosen = RunFilter(status="ended", workflow=wanted.workflow or None, tag=tag, items=True)
    async for line in _runs(views, chosen):
        if not _is_wanted(line, wanted):
            continue
        try:
            events = await _open(store, line.run, tag)
            inherits = await _all_agreed(store, line.parent, agreed)
        except _Closed as error:
            left_out[str(error)] += 1
            continue
        for pair in preferences(events, inherits=inherits, names=wanted.names):
            if wanted.admits(pair) and (digest := _digest(pair)) not in seen:
                seen.add(digest)
                file.write(msgspec.json.encode(pair) + b"\n")
                written[line.run] += 1
    return PreferencesWritten(written.total(), len(written), dict(left_out))


def _digest(pair: Preference) -> bytes:
    """Returns what tells pairs apart: runs of the same texts give each pair once."""
    return sha256(msgspec.json.encode((pair.prompt, pair.chosen, pair.rejected))).digest()


def _is_wanted(line: RunLine, wanted: PreferenceFilter) -> bool:
    if is_within(line.run, wanted.without) or (wanted.runs and not is_within(line.run, wanted.runs)):
        return False
    return wanted.since is None or line.updated >= wanted.since


async def _runs(views: Views, chosen: RunFilter) -> AsyncIterator[RunLine]:
    last: RunLine | None = None
    while page := await page_of_runs(views, chosen, PAGE, last):
        for line in page:
            yield line
        last = page[-1]


class _Closed(Exception):
    """A run gives no pairs; the message says why."""


async def _open(store: EventStore, run: str, tag: str) -> tuple[Recorded, ...]:
    """Returns the events of a run with their texts. Raises _Closed."""
    try:
        await store.verify(run)
        events = await store.read(run)
    except EncryptionKeyMissing:
        raise _Closed("cannot be opened with the encryption key that is given here") from None
    except (Tampered, CodecError, NoSuchRun):
        raise _Closed("is not what was recorded, see redraft audit --verify") from None
    begun = events[0].data if events else None
    if not isinstance(begun, RunStarted) or tag not in begun.tags:
        raise _Closed("does not carry the tag in its record")
    if begun.brief.text == ERASED or any(isinstance(event.data, RunErased) for event in events):
        raise _Closed("was erased")
    return events


async def _all_agreed(store: EventStore, parent: Parent | None, agreed: Mapping[str, Parent | None]) -> bool:
    """Returns whether all runs that a fork repeats carry the tag, and none of them was erased."""
    while parent is not None:
        if parent.run not in agreed:
            return False
        if any(
            isinstance(each, Recorded) and isinstance(each.data, RunErased) for each in await store.entries(parent.run)
        ):
            return False
        parent = agreed[parent.run]
    return True
