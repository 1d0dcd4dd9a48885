"""Following events over HTTP: by filters, through a restart, by a long poll, and however slowly they are read."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from litestar.response.streaming import ASGIStreamingResponse
from tests.app.cli_calls import said, until
from tests.app.server.served import LOOP, Served, served

from redraft.app.server.api import events
from redraft.app.server.api.answers import Released
from redraft.app.server.service import Readers, Service
from redraft.events.backends import open_store
from redraft.events.messages.filters import EVERYTHING


@pytest.fixture
def folder(home: Path) -> Path:
    (home / "loop.py").write_text(LOOP)
    return home


@pytest.fixture
def server(folder: Path) -> Iterator[Served]:
    said("run", "loop.py:loop", "Tides", "--tag", "spring", "-q")
    said("run", "loop.py:loop", "Waves", "-q")
    with served(folder, "--read-only") as running:
        yield running


def logged(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said("events", "--json", *arguments).splitlines()]


class Stream:
    """What a server sends, until as many events as are wanted have come, or it ends."""

    def __init__(self, server: Served, last: int | None = None, **parameters: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.last = last
        self._lines = server.client.stream(
            "GET",
            "/events/stream",
            params=parameters,
            headers={} if last is None else {"Last-Event-ID": str(last)},
            timeout=30,
        )

    def read(self, wanted: int) -> list[dict[str, Any]]:
        """Reads this many events."""
        try:
            with self._lines as answered:
                assert answered.headers["content-type"].startswith("text/event-stream")
                for line in answered.iter_lines():
                    self._note(line)
                    if len(self.events) == wanted:
                        break
        except httpx.RemoteProtocolError:  # the server was killed
            pass
        return self.events

    def _note(self, line: str) -> None:
        name, _, value = line.partition(": ")
        if name == "id":
            self.last = int(value)
        elif name == "event":
            self.notes.append(value)
        elif name == "data" and not self.notes:
            self.events.append(json.loads(value))
            assert self.events[-1]["position"] == self.last


def test_a_stream_has_what_the_command_line_prints(server: Served) -> None:
    for given in ({}, {"type": "draft.critiqued"}, {"tag": "spring"}, {"outcome": "accepted", "workflow": "loop"}):
        known = logged(*(word for name, value in given.items() for word in (f"--{name}", value)))
        assert Stream(server, after=0, **given).read(len(known)) == known
    run = server.get("/runs/last")["run"]
    assert Stream(server, since="1h", run=["last", run]).read(1)[0] == logged("--run", "last")[0]


def test_a_stream_goes_on_after_the_last_event_that_was_seen(server: Served) -> None:
    known = logged()
    first = Stream(server, after=0)
    first.read(7)
    assert Stream(server, last=first.last).read(len(known) - 7) == known[7:]


def test_nothing_is_left_out_or_comes_twice_when_the_server_is_killed(folder: Path) -> None:
    seen: list[dict[str, Any]] = []
    last: int | None = 0
    for number in range(3):
        with served(folder, "loop.py") as running:
            stream = Stream(running, last=last)
            reading = threading.Thread(target=stream.read, args=(-1,))
            reading.start()
            answered = running.client.post("/runs", json={"workflow": "loop", "brief": f"Tides {number}"})
            run = answered.json()["run"]
            until(lambda stream=stream: len(stream.events) > 3)  # type: ignore[misc]
            if number == 2:
                until(lambda stream=stream, run=run: has_ended(stream, run))  # type: ignore[misc]
            running.process.kill()
            reading.join(30)
        seen += stream.events
        last = stream.last
    known = logged()
    assert [each["position"] for each in seen] == [each["position"] for each in known[: len(seen)]]
    assert seen == known[: len(seen)]


def has_ended(stream: Stream, run: str) -> bool:
    return any(each["run"] == run and each["name"] == "run.ended.v1" for each in stream.events)


def test_a_stream_ends_with_a_word_when_the_server_does(server: Served) -> None:
    stream = Stream(server, after=0)
    reading = threading.Thread(target=stream.read, args=(-1,))
    reading.start()
    until(lambda: len(stream.events) == len(logged()))
    assert server.stop() == 0
    reading.join(30)
    assert stream.notes == ["end"]


def test_a_long_poll_waits_for_an_event_that_fits(server: Served) -> None:
    pages, after = [], 0
    while (page := server.get("/events", after=after, limit=5))["events"]:
        pages += page["events"]
        after = page["position"]
    assert pages == logged()
    assert server.get("/events", after=after, wait=0.01) == {"events": [], "position": after}
    found: list[Any] = []
    poll = {"after": after, "wait": 30, "type": "run.ended"}
    waiting = threading.Thread(target=lambda: found.append(server.get("/events", **poll)))
    waiting.start()
    said("run", "loop.py:loop", "Sand", "-q")
    waiting.join(30)
    (page,) = found
    assert [each["name"] for each in page["events"]] == ["run.ended.v1"]
    assert page["events"][0]["position"] <= page["position"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/events?after=99999", 409),
        ("/events/stream?after=99999", 409),
        ("/events?type=nothing", 422),
        ("/events/stream?outcome=nothing", 422),
        ("/events/stream?run=nobody", 404),
        ("/events?wait=61", 400),
        ("/events?after=-1", 400),
    ],
)
def test_what_cannot_be_followed_is_refused(server: Served, path: str, status: int) -> None:
    assert server.client.get(path).status_code == status


@pytest.mark.check
def test_more_readers_than_there_may_be_are_told_to_come_again(folder: Path) -> None:
    said("run", "--text", "A text that is fine.", "-q")
    with served(folder, "--read-only", REDRAFT_HTTP='{"streams": 1}') as running:
        with running.client.stream("GET", "/events/stream", params={"after": 0}) as first:
            lines = first.iter_lines()  # which ends the stream when nobody holds it any more
            assert next(lines)
            refused = running.client.get("/events/stream")
            assert (refused.status_code, refused.json()["type"]) == (503, "urn:redraft:problem:streams")
        until(lambda: _is_free(running))


def _is_free(running: Served) -> bool:
    with running.client.stream("GET", "/events/stream", params={"after": 0}) as again:
        return again.status_code == 200


async def test_a_reader_who_is_cut_off_while_a_piece_is_sent_is_let_go() -> None:
    """The response is still there: nothing waits until it is collected as garbage."""
    readers = Readers()
    sending = asyncio.Event()

    async def pieces() -> AsyncGenerator[bytes, None]:
        with readers.one():
            try:
                yield b"x"
            finally:
                await asyncio.sleep(0)

    async def stall(_: object) -> None:
        sending.set()
        await asyncio.Event().wait()

    async def go_on() -> Any:
        await asyncio.Event().wait()

    response = ASGIStreamingResponse(iterator=Released(pieces()))
    answering = asyncio.create_task(response.send_body(stall, go_on))
    await sending.wait()
    assert readers.count == 1
    answering.cancel()
    await asyncio.wait({answering})
    async with asyncio.timeout(30):
        while readers.count:  # noqa: ASYNC110 - it rings no bell
            await asyncio.sleep(0.001)


def test_a_slow_reader_is_told_how_far_it_is_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said("run", "loop.py:loop", "Tides", "-q")
    asyncio.run(_read_slowly(folder, monkeypatch))


async def _read_slowly(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SLOW", -1.0)  # whoever reads takes longer than that
    monkeypatch.setattr("redraft.app.subscribing.feed.BATCH", 10)
    async with open_store(f"sqlite:///{folder / 'store.db'}") as store:
        head = await store.head()
        known = SimpleNamespace(runtime=SimpleNamespace(store=store), readers=Readers(), closing=asyncio.Event())
        following = events._following(cast("Service", known), EVERYTHING, 0)
        sent = [(await anext(following)).decode() for _ in range(3)]
        assert sent[0].startswith("retry: ")
        assert sent[1].count("data: ") == 10
        assert sent[2] == f'event: behind\ndata: {{"position":10,"head":{head},"events":{head - 10}}}\n\n'
        known.closing.set()
        rest = [part async for part in following]
        assert b"event: end" in rest[-1]
        assert known.readers.count == 0
