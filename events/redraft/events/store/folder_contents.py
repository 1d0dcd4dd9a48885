"""Keeps each content of a draft of several files once within its run: in the event that brought it.

Later events name the content by its SHA-256. What an append may leave out is told by the very event that it builds on,
by version and hash: where that is not the run's last, nothing is recorded, and so no content is ever left out that the
run does not have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
from cachetools import LRUCache
from msgspec.structs import replace

from redraft.events.errors import CodecError
from redraft.events.messages.codec import TextCipher
from redraft.events.messages.content import Brief, Draft
from redraft.events.messages.domain_events import DomainEvent, DraftEdited, DraftGenerated, DraftRefined, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.folders import FOLDER, REFERENCE, contents_in, restore, shorten
from redraft.events.store.append import Append, Encoded, encode

KNOWN: Final = 100_000
"""The number of contents, by their digests, that are remembered of runs that are written to."""

KEPT: Final = 16 * 1024 * 1024
"""Characters of contents that are remembered of runs that are read."""

_HOLDING: Final = (RunStarted, DraftGenerated, DraftRefined, DraftEdited)

HOLDERS: Final = frozenset(EVENT_NAMES[kind] for kind in _HOLDING)
"""The stored names of the events that hold drafts, or a brief."""


def _holder(event: DomainEvent) -> Brief | Draft | None:
    """Returns the draft or brief of several files that an event holds; None if it holds none."""
    if not isinstance(event, _HOLDING):
        return None
    held = event.brief if isinstance(event, RunStarted) else event.draft
    return held if held.media_type == FOLDER else None


def _with_text(event: DomainEvent, text: str) -> DomainEvent:
    """Returns an event that holds a draft or brief, with this text in it."""
    assert isinstance(event, _HOLDING)  # noqa: S101 - only such events are given
    if isinstance(event, RunStarted):
        return replace(event, brief=replace(event.brief, text=text))
    return replace(event, draft=replace(event.draft, text=text))


class _Known(msgspec.Struct, frozen=True):
    """The digests of a run's contents up to its event of this version and hash."""

    version: int
    hash: str
    digests: frozenset[str]


ReadHolders: TypeAlias = Callable[[str, int], Iterable[Recorded]]
"""Reads the events of a run that hold drafts or a brief, as they are stored, up to a version."""

RunInReader: TypeAlias = Callable[[Callable[[], frozenset[str]]], Awaitable[frozenset[str]]]
"""Runs a call in the thread that reads, and returns its result."""


class WrittenContents:
    """Encodes appends; remembers which contents each run has. Not safe between threads: for the event loop alone."""

    def __init__(self, read: ReadHolders, run_in_reader: RunInReader) -> None:
        self._read = read
        self._run_in_reader = run_in_reader
        self._known: LRUCache[str, _Known] = LRUCache(KNOWN, lambda known: len(known.digests) + 1)

    def encode_plain(self, append: Append, seal: TextCipher | None) -> Encoded | None:
        """Encodes an append without drafts of several files, as most are; returns None for one that has any.

        Raises CodecError for an event that could not be read again.
        """
        for event in append.events:
            if _holder(event.data) is not None:
                return None
        encoded = encode(append, seal)
        if append.run in self._known:
            self._note(encoded, self._before(append))
        return encoded

    async def encode(self, append: Append, seal: TextCipher | None) -> Encoded:
        """Encodes an append, with each content of its files left out that its run has already.

        Raises CodecError for an event that could not be read again.
        """
        known = self._before(append)
        if known is None:
            known = await self._run_in_reader(lambda: _digests_in(self._read(append.run, append.expected_version)))
        stored_as, digests = _shortened(append, known)
        encoded = encode(append, seal, stored_as)
        self._note(encoded, digests)
        return encoded

    def _before(self, append: Append) -> frozenset[str] | None:
        """Returns the digests of what the run has before an append; None if the run has to be read for it."""
        if append.expected_version == 0:
            return frozenset()
        known = self._known.get(append.run)
        fits = known is not None and (known.version, known.hash) == (append.expected_version, append.previous)
        return known.digests if known is not None and fits else None

    def _note(self, encoded: Encoded, digests: frozenset[str] | None) -> None:
        """Notes the run's last event, and its digests where they are known."""
        append = encoded.append
        if digests is None or len(digests) >= KNOWN:
            self._known.pop(append.run, None)
        else:
            version = append.expected_version + len(append.events)
            self._known[append.run] = _Known(version, encoded.hash, digests)


def _shortened(append: Append, known: frozenset[str]) -> tuple[Sequence[DomainEvent], frozenset[str]]:
    """Returns the events of an append as they are stored in a run that has these contents, and what it has then."""
    digests = set(known)
    stored: list[DomainEvent] = []
    for event in append.events:
        held = _holder(event.data)
        if held is None:
            stored.append(event.data)
            continue
        if REFERENCE.search(held.text):
            raise CodecError(f"the run {append.run} would have a draft of several files that lacks one of them")
        text, new = shorten(held.text, digests)
        digests.update(new)
        stored.append(_with_text(event.data, text))
    return stored, frozenset(digests)


def _digests_in(events: Iterable[Recorded]) -> frozenset[str]:
    """Returns the digests of all contents that these events, as they are stored, hold."""
    holders = (_holder(event.data) for event in events)
    return frozenset(each for held in holders if held is not None for each in contents_in(held.text))


class ReadContents:
    """Puts contents back into events that are read. Not safe between threads: for the reading one alone."""

    def __init__(self, read: ReadHolders) -> None:
        self._read = read
        self._contents: LRUCache[str, dict[str, str]] = LRUCache(
            KEPT, lambda contents: 1 + sum(map(len, contents.values()))
        )

    def restored(self, recorded: Recorded) -> Recorded:
        """Returns an event as it was recorded, with all contents. Raises CodecError if one of them is nowhere."""
        held = _holder(recorded.data)
        if held is None or not held.text.startswith("=== "):  # it was erased
            return recorded
        named = {found[2] for found in REFERENCE.finditer(held.text)}
        contents = self._contents.pop(recorded.run, {}) | contents_in(held.text)
        if not named <= contents.keys():
            for event in self._read(recorded.run, recorded.version - 1):
                before = _holder(event.data)
                contents |= {} if before is None else contents_in(before.text)
        if missing := named - contents.keys():
            what = f"the content with the SHA-256 {min(missing)}, which no earlier event of the run has"
            raise CodecError(f"event {recorded.version} of run {recorded.run} cannot be read: it names {what}")
        if sum(map(len, contents.values())) < KEPT:
            self._contents[recorded.run] = contents
        return replace(recorded, data=_with_text(recorded.data, restore(held.text, contents)))

    def drop(self, run: str) -> None:
        """Forgets the contents of a run that was erased."""
        self._contents.pop(run, None)
