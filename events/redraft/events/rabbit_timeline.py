"""Whether the events in the stream are of one log: that of a database which was set back goes on differently.

The stream keeps what was announced, also after the log was restored from a backup. The next events then have positions
and versions that others had before, and follow an event that is not the last that was seen of their run.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeVar

import msgspec

from redraft.events.errors import BusError

REMEMBERED: Final = 4096
"""Of how many positions the hash is remembered, and of how many runs the last event."""

_K = TypeVar("_K")
_V = TypeVar("_V")


class Step(msgspec.Struct, frozen=True, gc=False):
    """What a message says of the place of its event: in the log, and in the chain of its run."""

    run: str
    position: int
    version: int
    hash: str
    previous: str


class Timeline:
    """Follows the events of a stream in the order in which they come, doubles among them."""

    def __init__(self) -> None:
        self._places: OrderedDict[int, str] = OrderedDict()
        self._runs: OrderedDict[str, Step] = OrderedDict()

    def follow(self, step: Step) -> None:
        """Raises BusError for an event that stands where another stood, or does not follow the last of its run."""
        if not step.hash:
            return
        before = self._runs.get(step.run)
        there = self._places.get(step.position, step.hash)
        if there != step.hash or (before and step.version == before.version + 1 and step.previous != before.hash):
            raise BusError(
                f"the log was set back: event {step.version} of run {step.run}, at position {step.position}, is not of "
                "the log that was announced before; what was read from that position on is void"
            )
        _remember(self._places, step.position, step.hash)
        if before is None or step.version > before.version:
            _remember(self._runs, step.run, step)


def _remember(kept: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)
