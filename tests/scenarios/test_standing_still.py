"""What stands still while everything around it goes on: a stopped process, and an answer that never comes."""

from __future__ import annotations

import asyncio
import io
import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.app.deployments import DEADLINE, Deployment, deployment
from tests.events.rabbit_server import URL
from tests.proxy import Proxy

from redraft.app.process import health
from redraft.app.process.logs import new_log
from redraft.app.settings.settings import read_settings
from redraft.app.wiring import coordinating
from redraft.app.wiring.coordinating import coordinate
from redraft.app.wiring.deployment import open_client
from redraft.app.workflows.sources import read_source
from redraft.events.backends import open_store
from redraft.events.messages.domain_events import DraftCritiqued, DraftGenerated, DraftPublished, DraftRefined
from redraft.events.postgres import connection as postgres_connection
from redraft.events.rabbit.bus import RabbitBus

pytestmark = pytest.mark.check

PLAIN = {"sslmode": "disable", "gssencmode": "disable"}
"""Nothing is asked before the protocol begins that the proxy speaks."""


@pytest.fixture
def there(tmp_path: Path, postgres_url: str) -> Iterator[Deployment]:
    with deployment(tmp_path, postgres_url) as made:
        yield made


def relay_told(there: Deployment) -> tuple[str, str]:
    [check] = [each for each in there.json("doctor")["checks"] if each["name"] == "relay"]
    return check["level"], check["message"]


async def announced(there: Deployment, last: int) -> list[int]:
    """The positions that one who follows the stream of events sees, up to the last."""
    seen: list[int] = []
    async with (
        asyncio.timeout(DEADLINE),
        RabbitBus(URL, prefix=there.prefix) as bus,
        aclosing(bus.subscribe_stream()) as events,
    ):
        async for event in events:
            seen.append(event.position)
            if event.position >= last:
                break
    return seen


async def head_of(store: str) -> int:
    async with open_store(store) as opened:
        return await opened.head()


def test_a_stopped_coordinator_is_overtaken_and_sends_nothing_out_of_order_when_it_goes_on(there: Deployment) -> None:
    assert relay_told(there) == ("warn", "no coordinator relays events yet; up to date; start `redraft coordinator`")
    first = there.start("first", "coordinator")
    there.until("it relays", lambda: bool(there.said("first", "relaying")))
    there.start("second", "coordinator")
    there.start("worker", "worker", "loop.py")
    there.until("it stands by", lambda: bool(there.said("second", "standing by")))
    [standing] = there.said("second", "standing by")
    assert standing["holder"].startswith(f"process {first.pid} on ")
    assert standing["since"]
    level, told = relay_told(there)
    assert level == "ok"
    assert re.fullmatch(rf"process {first.pid} on .+ since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC; .*", told)
    before = [there.submit() for _ in range(3)]
    first.send_signal(signal.SIGSTOP)
    try:
        after = [there.submit() for _ in range(3)]
        there.until("the other relays", lambda: bool(there.said("second", "relaying")))
        there.ended(*before, *after)
    finally:
        first.send_signal(signal.SIGCONT)
    there.until("the first notices", lambda: len(there.said("first", "standing by")) > 0)
    last = there.submit()
    there.ended(last)
    position = asyncio.run(head_of(there.store))
    assert asyncio.run(announced(there, position)) == list(range(1, position + 1))
    for run in (*before, *after, last):
        told = Counter(type(event.data) for event in there.history(run))
        assert [told[each] for each in (DraftGenerated, DraftCritiqued, DraftRefined, DraftPublished)] == [1, 3, 2, 1]
    assert there.said("second", "interrupted") == [], "it waits for rows that the first held no longer than it must"


async def test_an_append_without_an_answer_shows_in_the_health_file_until_it_has_one(
    there: Deployment, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connection, "SILENCE", 4.0)
    monkeypatch.setattr(health, "LATE", 1.0)
    monkeypatch.setattr(coordinating, "health_file", partial(health.health_file, every=0.05))
    said, file = io.StringIO(), tmp_path / "healthy"

    def told() -> list[tuple[str, str]]:
        lines = [json.loads(line) for line in said.getvalue().splitlines()]
        return [(line["event"], line.get("error", "")) for line in lines if "health" in line["event"]]

    proxy = Proxy(int(str(conninfo_to_dict(postgres_url).get("port") or 5432)), speaks_postgres=True)
    async with asyncio.timeout(DEADLINE), proxy.open():
        store = as_url(make_conninfo(postgres_url, host="127.0.0.1", port=proxy.port, **PLAIN))
        settings = read_settings(store=store, bus=URL, broker_prefix=there.prefix)
        serves, drain = asyncio.Event(), asyncio.Event()
        log = new_log(said, "json", "test")
        async with asyncio.TaskGroup() as group:
            group.create_task(coordinate(settings, serves.set, log, drain=drain, health=file))
            await serves.wait()
            swallowed = proxy.swallow(keep=True, appends=True)
            async with open_client(settings, reads=False) as client:
                run = await client.submit(read_source(f"{tmp_path / 'loop.py'}:loop").plan, "a text")
            await swallowed
            while not told():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            touched = file.stat().st_mtime_ns
            while len(told()) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            [(stuck, why), (well, _)] = told()
            assert (stuck, well) == ("not healthy", "healthy again")
            assert "a message of the inbox has not been settled for " in why
            assert file.stat().st_mtime_ns > touched
            async with open_store(postgres_url) as opened:
                assert [event.name for event in await opened.read(run)][:1] == ["run.started.v1"]
            drain.set()
    assert not file.exists()


def as_url(conninfo: str) -> str:
    rest = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in conninfo_to_dict(conninfo).items())
    return f"postgresql://?{rest}"
