"""What a connection may do: its head has to end, and a body that nobody reads is read away, up to a bound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from redraft.app.server import timed_heads
from redraft.app.server.access import unread_body
from redraft.app.server.access.gate import Gate
from redraft.app.server.access.sessions import Sessions
from redraft.app.server.listening import listening, open_socket
from redraft.app.settings.settings import HttpSettings

WHOLE = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
BEGUN = b"GET / HTTP/1.1\r\nHost: here\r\nX-A: "


async def answers(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers everything with nothing, and may start and end."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """The port of a server that waits half a second for a head."""
    monkeypatch.setattr(timed_heads, "HEAD", 0.5)
    chosen = HttpSettings(port=0)
    bound = open_socket(chosen)
    async with asyncio.timeout(60), listening(cast("Gate", answers), chosen, bound, asyncio.Event()):
        yield bound.getsockname()[1]


async def trickled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """What is answered to somebody who goes on sending bytes, one at a time, until the connection ends."""
    found = b""
    while not reader.at_eof():
        writer.write(b"a")
        try:
            async with asyncio.timeout(0.05):
                found += await reader.read(1_000)
        except TimeoutError:
            continue
        except ConnectionError:  # reset, or a broken pipe: the connection has ended
            break
    writer.close()
    return found


@pytest.mark.parametrize("before", [b"", WHOLE])
async def test_a_head_that_does_not_end_is_answered_and_its_connection_ends(port: int, before: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    if before:
        writer.write(before)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    writer.write(BEGUN)
    assert (await trickled(reader, writer)).startswith(b"HTTP/1.1 408")


async def test_a_connection_that_says_nothing_ends(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert (await reader.read()).startswith(b"HTTP/1.1 408")
    writer.close()


async def test_a_body_may_take_longer_than_a_head(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    slow, slow_writer = await asyncio.open_connection("127.0.0.1", port)
    slow_writer.write(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\na")
    assert await reader.read()  # the other connection's head took too long
    slow_writer.write(b"b")
    assert (await slow.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    slow_writer.close()
    writer.close()


@pytest.fixture
async def refusing(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """The port of a server that refuses whoever does not say who they are, and reads on for half a second."""
    monkeypatch.setattr(unread_body, "LINGER", 0.5)
    chosen = HttpSettings(port=0, authentication="token")
    bound = open_socket(chosen)
    gate = Gate(answers, chosen, None, Sessions(None, bytes, 0))
    async with asyncio.timeout(60), listening(gate, chosen, bound, asyncio.Event()):
        yield bound.getsockname()[1]


REFUSED = b"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n"


async def test_who_sends_a_body_slowly_has_the_refusal_at_once_and_is_let_go(refusing: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", refusing)
    writer.write(REFUSED + b"Content-Length: 1000000\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in head
    assert b"say who you are" in await trickled(reader, writer)


@pytest.mark.parametrize("framed", [b"Content-Length: 8\r\n\r\n12345678", b"Content-Length: 0\r\n\r\n", b"\r\n"])
async def test_a_body_that_was_sent_does_not_hold_a_refusal_up(refusing: int, framed: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", refusing)
    writer.write(REFUSED + b"Connection: close\r\n" + framed)
    async with asyncio.timeout(0.4):
        assert (await reader.read()).startswith(b"HTTP/1.1 401")
    writer.close()
