"""What stands before answers that go on: who follows them is asked again once for all of them, and has to read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from redraft.app.server.access import gate
from redraft.app.server.access.gate import Gate
from redraft.app.server.access.sessions import Sessions
from redraft.app.settings.settings import HttpSettings
from redraft.events.tokens import Token, Tokens

STREAMS = 20
HERE = b": here\n\n"


class AskedTokens:
    """The tokens of a store, which tell how many ask for them at the same time."""

    def __init__(self) -> None:
        self.kept: list[Token] = []
        self.rounds = 0
        self.most = 0
        self._asking = 0

    async def all(self) -> list[Token]:
        self._asking += 1
        self.most = max(self.most, self._asking)
        await asyncio.sleep(0)
        self._asking -= 1
        self.rounds += 1
        return self.kept


class Reader:
    """What a server sends one who reads, or takes nothing."""

    def __init__(self, *, takes: bool = True) -> None:
        self.sent = b""
        self._takes = takes

    async def send(self, message: Any) -> None:
        self.sent += message.get("body", b"")
        if not self._takes:
            await asyncio.Event().wait()


async def goes_on(_scope: Any, _receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
    """An application that sends one event, and then has no more."""
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": HERE, "more_body": True})
    await asyncio.Event().wait()


async def nothing() -> Any:
    await asyncio.Event().wait()


def opened(tokens: AskedTokens) -> Gate:
    given = cast("Tokens", tokens)
    return Gate(goes_on, HttpSettings(), given, Sessions(given, bytes, 0))


def scope() -> dict[str, Any]:
    asked = {"type": "http", "method": "GET", "path": "/live/runs", "query_string": b"", "client": ("127.0.0.1", 1)}
    return {**asked, "headers": [(b"host", b"127.0.0.1")]}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what is asked for rings no bell
            await asyncio.sleep(0.005)


async def test_all_streams_of_a_visitor_ask_once_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "REMEMBERED", 0.01)
    tokens, readers = AskedTokens(), [Reader() for _ in range(STREAMS)]
    entrance = opened(tokens)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for each in readers:
            group.create_task(entrance(scope(), nothing, each.send))
        await until(lambda: all(each.sent for each in readers))
        tokens.most, begun = 0, tokens.rounds
        await until(lambda: tokens.rounds >= begun + 3)
        assert tokens.most == 1
        tokens.kept.append(Token("a", "ann", ("read",), datetime.now(UTC)))
    assert all(b"event: error" in each.sent for each in readers)


async def test_what_was_just_found_out_counts_however_long_the_answer_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is remembered for long enough, as on a machine that is busy with something else."""
    monkeypatch.setattr(gate, "REMEMBERED", 0.0)
    reader = Reader()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        answering = group.create_task(opened(AskedTokens())(scope() | {"path": "/runs"}, nothing, reader.send))
        await until(lambda: bool(reader.sent) or answering.done())
        answering.cancel()
    assert reader.sent == HERE


async def test_who_takes_nothing_of_what_goes_on_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "STALLED", 0.02)
    async with asyncio.timeout(60):
        await opened(AskedTokens())(scope(), nothing, Reader(takes=False).send)
