"""The ports of a client: `MessagePublisher` sends its messages, `RunOwner` takes on the runs that it submits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from redraft.events.bus.port import BusMessage


class MessagePublisher(Protocol):
    """The part of a bus that a client needs to send its messages."""

    async def publish(self, queue: str, bus_messages: Sequence[BusMessage]) -> None: ...


class RunOwner(Protocol):
    """Works in this process on the runs that a client submits."""

    async def adopt(self, run: str, known: bool) -> None:
        """Takes on a run, which may be `known` already. Raises BusError where nobody works."""

    def let_go(self, run: str) -> None:
        """Releases a run that has ended."""
