"""Sends messages to queues. While a queue is unusable, its messages wait and everything else goes on.

A queue may exist with other settings, be full, or refuse messages. Only the position of a waiting request is kept: it
is sent again, from the log, once its queue accepts messages, unless it was answered meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from redraft.events.bus.port import BusMessage
from redraft.events.errors import (
    BusError,
    BusUnusable,
    EncryptionKeyMissing,
    InputError,
    MessageTooLarge,
    RedraftError,
    StoreError,
    Tampered,
    UnknownName,
    UnknownRules,
)
from redraft.events.messages.envelope import Recorded

LONGEST: Final = 500
"""The number of characters of an error's message that are reported."""


class Refused(msgspec.Struct, frozen=True):
    """A request that cannot be built or sent: its step fails."""

    run: str
    position: int
    path: str
    fault: str


class LeftOut(msgspec.Struct, frozen=True):
    """An event for which nothing can be sent. `position` is 0 if the whole run cannot be read."""

    run: str
    position: int
    fault: str


class Blocked(msgspec.Struct, frozen=True):
    """A queue is unusable: its messages wait."""

    queue: str
    fault: str


class Freed(msgspec.Struct, frozen=True):
    """No message waits for this queue any more: all were sent, or are no longer needed."""

    queue: str


Trouble: TypeAlias = Refused | LeftOut | Blocked | Freed
OnTrouble: TypeAlias = Callable[[Trouble], None]


class UnusableQueues:
    """Reports each queue once when it cannot be read or used, and once when it can be again."""

    def __init__(self, on_trouble: OnTrouble) -> None:
        self._on_trouble = on_trouble
        self._queues: set[str] = set()

    def block(self, queue: str, fault: str) -> None:
        if queue not in self._queues:
            self._queues.add(queue)
            self._on_trouble(Blocked(queue, fault))

    def free(self, queue: str) -> None:
        if queue in self._queues:
            self._queues.discard(queue)
            self._on_trouble(Freed(queue))


def error_message(error: Exception) -> str:
    """Returns an error in one line; an unexpected one with its type."""
    said = str(error) if isinstance(error, RedraftError) else f"{type(error).__name__}: {error}"
    return " ".join(said.split())[:LONGEST]


def belongs_elsewhere(error: Exception) -> bool:
    """Returns whether the run belongs to a later release or to a process with its key, which may continue it."""
    return isinstance(error, UnknownName | UnknownRules | EncryptionKeyMissing)


def raise_if_short(error: Exception) -> None:
    """Raises StoreError if the error says that this process lacks memory, a thread or a module: no run is at fault."""
    is_thread = isinstance(error, RuntimeError) and "start new thread" in str(error)
    if is_thread or isinstance(error, MemoryError | ImportError):
        raise StoreError(f"this process is short of something: {error_message(error)}") from error


def raise_if_unavailable(error: Exception) -> None:
    """Raises an error that is not about one run: the store, the bus or this process cannot be used."""
    raise_if_short(error)
    if isinstance(error, StoreError | BusError) and not isinstance(error, Tampered | MessageTooLarge):
        raise error


AGAIN: Final = 2.0
"""Seconds between two attempts to use a queue."""

MAX_WAITING: Final = 16_384
"""The number of requests that may wait. Others are left to the deadlines of their steps."""


class OutgoingMessage(msgspec.Struct, frozen=True):
    """A message, the event that it follows from, and the path of the request that it is about, if any."""

    bus_message: BusMessage
    event: Recorded
    path: str


Offer: TypeAlias = Callable[[str, Sequence[BusMessage]], bool]
"""Puts messages into a queue if that needs no waiting; returns False, having put none, if it does."""


class MessagePublisher(Protocol):
    async def publish(self, queue: str, bus_messages: Sequence[BusMessage]) -> None: ...


class ResendRequest(Protocol):
    """Sends the request at a path again if it is unanswered. `anew`: raises BusUnusable or TimeoutError, as `put`."""

    async def __call__(self, run: str, path: str, *, anew: bool) -> object: ...


class QueuePublisher:
    """Puts messages into queues, and retries for queues that are unusable.

    `resend` sends one request again; `refuse` is called for a message that no queue accepts. A queue that has not
    accepted its messages after `slow` seconds counts as unusable. `offer` is that of a bus in this process: what it
    takes at once needs no timer.
    """

    def __init__(
        self,
        bus: MessagePublisher,
        resend: ResendRequest,
        refuse: Callable[[OutgoingMessage, Exception], Awaitable[None]],
        on_trouble: OnTrouble,
        slow: float,
        offer: Offer | None = None,
    ) -> None:
        self._bus = bus
        self._offer = offer
        self._resend = resend
        self._refuse = refuse
        self._on_trouble = on_trouble
        self._slow = slow
        self._waiting: dict[str, dict[tuple[str, str], int]] = {}
        self._recovering: dict[str, asyncio.Task[None]] = {}

    def oldest_waiting(self, queue: str | None = None) -> int | None:
        """Returns the position of the oldest request that waits, for any queue or this one; None if there is none."""
        if not self._waiting:
            return None
        waiting = self._waiting.values() if queue is None else (self._waiting.get(queue, {}),)
        return min((position for requests in waiting for position in requests.values()), default=None)

    async def put(self, queue: str, messages: Sequence[OutgoingMessage], *, anew: bool = False) -> None:
        """Puts messages into a queue. If it is unusable they wait; one that it never accepts is refused.

        An error that nobody expects counts as one of this queue: all others go on.

        `anew` tries a queue for which others wait, and raises BusUnusable or TimeoutError when it is unusable.
        """
        if queue in self._waiting and not anew:
            self._hold(queue, messages)
            return
        bus_messages = [each.bus_message for each in messages]
        try:
            if self._offer is not None and self._offer(queue, bus_messages):
                return
            async with asyncio.timeout(self._slow):
                await self._bus.publish(queue, bus_messages)
        except (MessageTooLarge, InputError) as error:
            await self._resend_singly(messages, error)
        except (BusUnusable, TimeoutError) as error:
            if anew:
                raise
            self._block(queue, messages, str(error))
        except (BusError, StoreError, OSError):
            raise
        except Exception as error:
            if anew:
                raise BusUnusable(error_message(error)) from error
            self._block(queue, messages, error_message(error))

    def close(self) -> None:
        """Stops retrying."""
        for task in self._recovering.values():
            task.cancel()

    async def _resend_singly(self, messages: Sequence[OutgoingMessage], error: Exception) -> None:
        """Refuses a single message, or sends several again one by one.

        One of them is not accepted, but some may have been put: all are sent again as possible duplicates.
        """
        if len(messages) == 1:
            await self._refuse(messages[0], error)
            return
        for each in messages:
            await self._resend(each.event.run, each.path, anew=False)

    def _block(self, queue: str, messages: Sequence[OutgoingMessage], fault: str) -> None:
        self._hold(queue, messages)
        if queue not in self._recovering:
            slow = f"it took nothing within {self._slow:g} seconds: it is full, bounded, or cannot be reached"
            self._on_trouble(Blocked(queue, fault or slow))
            self._recovering[queue] = asyncio.create_task(self._recover(queue))

    def _hold(self, queue: str, messages: Sequence[OutgoingMessage]) -> None:
        waiting = self._waiting.setdefault(queue, {})
        room = MAX_WAITING - sum(map(len, self._waiting.values()))
        for each in messages:
            key = (each.event.run, each.path)
            if key not in waiting and room < 1:
                fault = f"{MAX_WAITING:,} requests wait for queues already; the deadline of its step will look after it"
                self._on_trouble(LeftOut(each.event.run, each.event.position, fault))
                continue
            room -= key not in waiting
            waiting[key] = each.event.position

    async def _recover(self, queue: str) -> None:
        """Retries the queue with one waiting request after the other, the oldest first, until none waits."""
        waiting = self._waiting[queue]
        await asyncio.sleep(AGAIN)
        while waiting:
            (run, path), position = next(iter(waiting.items()))
            try:
                await self._resend(run, path, anew=True)
            except (BusError, StoreError, OSError):
                await asyncio.sleep(AGAIN)
                waiting[run, path] = waiting.pop((run, path))  # it may be this request, and not its queue
                continue
            if waiting[run, path] == position:
                del waiting[run, path]
        del self._waiting[queue], self._recovering[queue]
        self._on_trouble(Freed(queue))
