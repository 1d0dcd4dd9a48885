"""Whether a loop goes to and fro: a draft that was seen before, or a change that was undone. Pure."""

from __future__ import annotations

from sys import getsizeof
from typing import Final

from msgspec.structs import replace

from redraft.actors.run_state import Frame, Made
from redraft.events.content import Draft, DraftRef

REMEMBERED: Final = 32
"""How many of a loop's latest drafts are compared with."""

TOLD: Final = 5
"""Of how many oscillations, the latest, a refiner is told."""

LONGEST: Final = 20_000
"""Lines of a draft above which only whole drafts are compared."""


def watched(frame: Frame) -> bool:
    """Whether the loop of this frame looks for oscillation at all."""
    return frame.node is not None and frame.node.on_oscillation != "ignore"


def noted(frame: Frame, draft: Draft | DraftRef, before: int) -> Frame:
    """The frame after a draft was made from the version `before`, and what it repeats or undoes, if anything.

    One that was written anew (0) repeats nothing, even if it has the text of another.
    """
    lines = _lines(draft)
    made = Made(draft.version, before, draft.sha256, lines, sum(map(getsizeof, lines or ())))
    swing = _swing(frame.made, made) if before else ""
    swings = (*frame.swings, swing)[-TOLD:] if swing else frame.swings
    known = (*frame.made, made)[-REMEMBERED:]
    return replace(frame, made=known, swung=swing, swings=swings, heat=frame.heat + bool(swing))


def _swing(known: tuple[Made, ...], made: Made) -> str:
    by_version = {each.version: each for each in known}
    parent = by_version.get(made.before)
    if parent is not None and parent.sha256 == made.sha256:
        return ""  # nothing was changed, and nothing repeated
    for each in reversed(known):
        if each.sha256 == made.sha256:
            return f"draft {made.version} has the text of draft {each.version} again"
    grandparent = by_version.get(parent.before) if parent else None
    if parent and grandparent and _undone(grandparent, parent, made):
        return f"draft {made.version} undid a change of draft {parent.version}, back to draft {grandparent.version}"
    return ""


def _undone(first: Made, second: Made, third: Made) -> bool:
    """Whether lines that the second put in place of others are those others again."""
    if first.lines is None or second.lines is None or third.lines is None:
        return False
    added, removed = second.lines - first.lines, first.lines - second.lines
    return bool(added - third.lines) and bool(removed & third.lines)


def _lines(draft: Draft | DraftRef) -> frozenset[str] | None:
    if isinstance(draft, DraftRef):
        return None
    lines = draft.text.splitlines()
    return frozenset(line for each in lines if (line := each.strip())) if len(lines) <= LONGEST else None
