"""Whether a refinement repeated an earlier draft or undid a change, for loops that look for it."""

from __future__ import annotations

from typing import Final

import msgspec

from redraft.events.content import Draft, DraftRef

_REMEMBERED: Final = 32
_TOLD: Final = 5
_LONGEST: Final = 20_000


class Version(msgspec.Struct, frozen=True):
    """A draft of a loop, the version that it was made from (0: none), and its lines if they are known."""

    version: int
    before: int
    sha256: str
    lines: frozenset[str] | None


class Swings(msgspec.Struct):
    """What a loop remembers: its latest drafts, whether the last one swung, how often any did."""

    known: tuple[Version, ...] = ()
    swung: bool = False
    count: int = 0

    @property
    def told(self) -> int:
        """Of how many oscillations the next refiner is told."""
        return min(self.count, _TOLD)

    def note(self, draft: Draft | DraftRef, before: int) -> None:
        """Takes in the next draft of the loop."""
        made = Version(draft.version, before, draft.sha256, _lines(draft))
        self.swung = bool(before) and self._swings(made)
        self.count += self.swung
        self.known = (*self.known, made)[-_REMEMBERED:]

    def _swings(self, made: Version) -> bool:
        parent = self._at(made.before)
        if parent is not None and parent.sha256 == made.sha256:
            return False
        if any(each.sha256 == made.sha256 for each in self.known):
            return True
        first = self._at(parent.before) if parent else None
        if parent is None or first is None or None in (first.lines, parent.lines, made.lines):
            return False
        old, middle, new = first.lines or frozenset(), parent.lines or frozenset(), made.lines or frozenset()
        return bool((middle - old) - new) and bool((old - middle) & new)

    def _at(self, version: int) -> Version | None:
        return next((each for each in reversed(self.known) if each.version == version), None)


def _lines(draft: Draft | DraftRef) -> frozenset[str] | None:
    if isinstance(draft, DraftRef):
        return None
    lines = draft.text.splitlines()
    return frozenset(line.strip() for line in lines if line.strip()) if len(lines) <= _LONGEST else None
