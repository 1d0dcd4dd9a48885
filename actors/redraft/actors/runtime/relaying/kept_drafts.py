"""The drafts of a run that requests may need: not all of them, so that a long run takes little memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from redraft.events.messages.content import Draft
from redraft.events.messages.memory import text_memory

KEPT: Final = 8
"""A draft is forgotten once so many newer ones were added since it was added, or since a request last named it."""

KEPT_BYTES: Final = 16 * 1024 * 1024
"""The memory of the drafts of a run from which on all but the two latest are forgotten earlier."""

MAX_TEXTS: Final = 4 * 1024 * 1024
"""The size of the earlier drafts, in bytes of UTF-8, that a request holds at most: the broker has a largest message."""


class KeptDrafts:
    """`newest` is the version of the draft that was added last, `size` the memory of those kept, in bytes."""

    def __init__(self) -> None:
        self.newest = 0
        self.size = 0
        self._drafts: dict[int, Draft] = {}
        self._bytes: dict[int, int] = {}
        self._named_at: dict[int, int] = {}

    def __contains__(self, version: int) -> bool:
        return version in self._drafts

    def __getitem__(self, version: int) -> Draft:
        return self._drafts[version]

    def get(self, version: int) -> Draft | None:
        """Returns the draft of this version; None if it was forgotten, or there is none."""
        return self._drafts.get(version)

    def add(self, draft: Draft) -> None:
        """Adds the next draft."""
        self._drafts[draft.version] = draft
        self._bytes[draft.version] = len(draft.text) if draft.text.isascii() else len(draft.text.encode())
        self.newest = draft.version
        self.size += text_memory(draft.text)

    def name(self, version: int) -> None:
        """Notes that a request names this draft."""
        self._named_at[version] = self.newest

    def forget(self, most: int = KEPT) -> None:
        """Forgets those that were named longest ago: all but `most`, and more of them while they are too large."""
        if self.newest <= most and self.size <= KEPT_BYTES:  # as a rule
            return
        for version in sorted(sorted(self._drafts)[:-2], key=self._last_named):
            if self._last_named(version) > self.newest - most and self.size <= KEPT_BYTES:
                return
            self.size -= text_memory(self._drafts.pop(version).text)
            self._named_at.pop(version, None)

    def within(self, versions: Sequence[int]) -> Sequence[int]:
        """Returns the last of these versions, of at most `MAX_TEXTS` bytes together, in their order."""
        return [*reversed([*self._while_room(reversed(versions))])]

    def _while_room(self, versions: Iterable[int]) -> Iterable[int]:
        room = MAX_TEXTS
        for version in versions:
            room -= self._bytes[version]
            if room < 0:
                return
            yield version

    def _last_named(self, version: int) -> int:
        return self._named_at.get(version, version)
