"""HTTP/1.1 connections whose requests have to begin: uvicorn itself waits for the rest of a head for ever."""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD: Final = 30.0
"""Seconds that the head of a request may take, from its first byte (or the connection's beginning) on."""

_TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class TimedHeads(H11Protocol):
    """A connection that is ended with 408 when the head of a request is not whole in time."""

    _ending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's own
        super().connection_made(transport)
        self._note_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _note_head(self) -> None:
        """Begins to wait for a head where one is awaited, unless that is so already; else ends that."""
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            self._forget()
        elif self._ending is None:
            self._ending = self.loop.call_later(HEAD, self._end)

    def _forget(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _end(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
            self.transport.close()
