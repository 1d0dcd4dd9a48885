"""Says that what usually takes a moment takes long, so that nobody waits without a word."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from redraft.app.cli.shared.errors import say

T = TypeVar("T")

SLOW: Final = 10.0
"""Seconds after which a message should long have been confirmed."""


async def say_if_slow(sending: Awaitable[T], after: float = SLOW) -> T:
    """Returns the result of sending a message to the broker; says so once when it takes longer than `after` seconds.

    RabbitMQ confirms nothing while it is short of memory or disk, or while the message's queue is down.
    """
    line = f"the broker has confirmed nothing for {after:g} s; it is tried again: see redraft doctor"
    told = asyncio.get_running_loop().call_later(after, say, line)
    try:
        return await sending
    finally:
        told.cancel()
