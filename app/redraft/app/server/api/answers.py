"""Answers as JSON, encoded as the command line encodes them; what takes a while is done beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Final, ParamSpec, TypeVar

import msgspec
from litestar import Response

T = TypeVar("T")
P = ParamSpec("P")

JSON: Final = "application/json"
LATER: Final = {202: "It was taken, and is not recorded yet."}
"""The 202 response in the OpenAPI description of operations that may answer before something is recorded."""


def answer(value: object, status: int = 200, **headers: str) -> Response[bytes]:
    """Returns a value as JSON. The underscores in the names of headers stand for hyphens."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Response(msgspec.json.encode(value), status_code=status, media_type=JSON, headers=named)


async def computed(make: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> Response[bytes]:
    """Returns what a function returns as JSON; both the call and the encoding are done on a thread."""
    return Response(await beside(lambda: msgspec.json.encode(make(*args, **kwargs))), media_type=JSON)


async def beside(work: Callable[[], T]) -> T:
    """Returns what a function returns that would block the event loop; it is called on a thread."""
    return await asyncio.to_thread(work)


class Released:
    """Sends what a generator yields, and closes it once nobody is sent anything any more.

    A response leaves it open, with all that it holds, where its reader is cut off while a piece is being sent.
    """

    def __init__(self, pieces: AsyncGenerator[bytes, None]) -> None:
        self._pieces = pieces
        self._closing: asyncio.Task[None] | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        if task := asyncio.current_task():
            task.add_done_callback(self._close)
        return self._pieces

    def _close(self, _: asyncio.Task[object]) -> None:
        self._closing = asyncio.create_task(self._pieces.aclose())
