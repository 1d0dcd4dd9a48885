"""The verbs of subscriptions: processes that serve a name, lists of names, and what is parked for them."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.app.cli_calls import Said, call, environment, one_line, spawn
from tests.app.receiver import Answer, receiving
from tests.app.subscribers import DEADLINE, write_run
from tests.forked import Forked, fork

from redraft.events.backends import open_store, open_subscriptions
from redraft.events.messages.filters import EventFilter
from redraft.events.subscriptions.subscriptions import Failing, ParkedEvent, Subscriptions

SIGNING = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HANDLER = """
import asyncio
import threading
from pathlib import Path

from redraft.actors import critic, generator

HERE = Path(__file__).parent

async def note(event):
    if (HERE / "broken").exists() and event.position == 3:
        raise ValueError("the index is away")
    with (HERE / "noted.txt").open("a") as file:
        file.write(f"{event.position} {event.name}\\n")

def hang(event):
    threading.Event().wait()

def noteless(event):
    pass

class Thing: pass
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'log.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "handlers.py").write_text(HANDLER)
    return tmp_path


async def written(url: str, run: str, events: int) -> None:
    async with open_store(url) as store:
        await write_run(store, run, events)


@contextmanager
def process(folder: Path, *arguments: str, **settings: str) -> Iterator[Forked]:
    """The command line as a process that serves; its log is beside it."""
    with (folder / "process.log").open("ab") as log:
        made = fork(
            "redraft", *arguments, folder=folder, environment=environment(folder, settings), stderr=log.fileno()
        )
    try:
        yield made
    finally:
        made.kill()
        made.wait()


async def ended(process: Forked) -> int:
    """The exit code, waited for."""
    return await asyncio.to_thread(process.wait, DEADLINE)


async def until(what: str, condition: Callable[[], bool], folder: Path) -> None:
    for _ in range(int(DEADLINE / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not in time: {what}; {(folder / 'process.log').read_text()}")


def noted(folder: Path) -> list[int]:
    file = folder / "noted.txt"
    return [int(line.split()[0]) for line in file.read_text().splitlines()] if file.exists() else []


def said_as_json(*arguments: str) -> Any:
    said = call(*arguments, "--json")
    assert said.code == 0, said.err
    return json.loads(said.out)


async def told(*arguments: str) -> Any:
    return await asyncio.to_thread(said_as_json, *arguments)


async def listed(url: str, name: str) -> dict[str, Any]:
    (found,) = await told("subscriptions", "list", "--store", url)
    assert found["name"] == name
    return dict(found)


async def test_a_process_serves_a_name_until_it_is_told_to_end_and_the_next_goes_on(url: str, folder: Path) -> None:
    await written(url, "a", 5)
    serve = ("subscribe", "handlers.py:note", "--name", "notes", "--type", "iteration.started", "--store", url)
    with process(folder, *serve) as serving:
        await until("three are noted", lambda: noted(folder) == [2, 4], folder)
        serving.send_signal(signal.SIGTERM)
        assert await ended(serving) == 0
    log = [json.loads(line) for line in (folder / "process.log").read_text().splitlines()]
    assert [line["event"] for line in log] == ["serving", "delivering", "draining", "ended"]
    found = await listed(url, "notes")
    assert (found["position"], found["lag"], found["parked"]) == (5, 0, 0)
    assert (found["wants"], found["target"]) == ({"types": ["iteration.started.v1"]}, "handlers.py:note")
    await written(url, "b", 5)
    assert (await listed(url, "notes"))["lag"] == 5
    with process(folder, *serve):
        await until("the rest is noted", lambda: noted(folder) == [2, 4, 7, 9], folder)


async def test_a_handler_that_hangs_in_its_thread_holds_up_neither_the_others_nor_the_end(
    url: str, folder: Path
) -> None:
    await written(url, "a", 1)
    serve = ("subscribe", "handlers.py:hang", "--name", "n", "--attempts", "1", "--timeout", "0.2", "--store", url)
    with process(folder, *serve) as serving:
        await until("it is parked", lambda: '"parked"' in (folder / "process.log").read_text(), folder)
        await written(url, "b", 1)
        await until("so is the other", lambda: (folder / "process.log").read_text().count('"parked"') == 2, folder)
        serving.send_signal(signal.SIGTERM)
        assert await ended(serving) == 0
    assert (await listed(url, "n"))["parked"] == 2


async def test_one_that_stands_by_takes_over_when_the_other_is_killed(url: str, folder: Path) -> None:
    await written(url, "a", 3)
    serve = ("subscribe", "handlers.py:note", "--name", "notes", "--store", url)
    with process(folder, *serve) as first:
        await until("the first serves", lambda: noted(folder) == [1, 2, 3], folder)
        with process(folder, *serve) as second:
            first.kill()
            await ended(first)
            await written(url, "b", 3)
            await until("the second serves", lambda: {4, 5, 6} <= set(noted(folder)), folder)
            second.send_signal(signal.SIGTERM)
            assert await ended(second) == 0
    assert sorted(set(noted(folder))) == [1, 2, 3, 4, 5, 6]


async def test_what_is_parked_is_listed_and_tried_again(url: str, folder: Path) -> None:
    await written(url, "a", 5)
    (folder / "broken").touch()
    serve = ("subscribe", "handlers.py:note", "--name", "notes", "--attempts", "1", "--store", url)
    with process(folder, *serve):
        await until("the others go on", lambda: noted(folder) == [1, 2, 4, 5], folder)
        (parked,) = await told("subscriptions", "parked", "notes", "--store", url)
        assert (parked["position"], parked["attempts"]) == (3, 1)
        assert parked["error"] == "ValueError: the index is away"
        (folder / "broken").unlink()
        retried = await told("subscriptions", "parked", "notes", "--retry", "3", "--store", url)
        assert retried == {"retried": [parked["id"]]}
        await until("it is noted", lambda: noted(folder) == [1, 2, 4, 5, 3], folder)


async def test_events_are_sent_to_a_url(url: str, folder: Path) -> None:
    await written(url, "a", 2)
    async with receiving() as receiver:
        receiver.answers = [Answer(), Answer(503, (("Retry-After", "1"),)), Answer(), Answer(500)]
        serve = ["webhook", receiver.url(), "--name", "ours", "--from", "beginning", "--allow-private", "--store", url]
        with process(folder, *serve, "--secret-env", "HOOK", "--store", url, HOOK=f"whsec_{SIGNING}") as serving:
            await receiver.until(lambda: receiver.ids == ["a/1", "a/2", "a/2"])
            await written(url, "b", 2)
            await receiver.until(lambda: receiver.ids[3:] == ["b/1", "b/1", "b/2"])
            serving.send_signal(signal.SIGTERM)
            assert await ended(serving) == 0
        assert all("webhook-signature" in each.headers for each in receiver.got)
        found = await listed(url, "ours")
        assert (found["position"], found["target"]) == (4, f"webhook http://127.0.0.1:{receiver.port}")
    kept = (folder / "process.log").read_text() + json.dumps(found)
    assert SIGNING not in kept
    assert "s3cret" not in kept
    assert "not delivered" in kept


async def test_a_webhook_begins_with_what_is_new_and_goes_to_public_addresses_only(url: str, folder: Path) -> None:
    await written(url, "a", 2)
    async with receiving() as receiver:
        serve = ("webhook", receiver.url("localhost"), "--name", "ours", "--attempts", "1", "--store", url)
        with process(folder, *serve):
            log = folder / "process.log"
            await until("it serves", lambda: "serving" in log.read_text(), folder)
            await written(url, "b", 1)
            await until("it is parked", lambda: '"parked"' in log.read_text(), folder)
        assert receiver.connections == 0
    (parked,) = await told("subscriptions", "parked", "ours", "--store", url)
    assert parked["position"] == 3
    assert parked["error"].startswith("localhost has the address ")
    assert "which is not public" in parked["error"]


def arranged(url: str, arrange: Callable[[Subscriptions], Any]) -> None:
    """A log of 9 events, and subscriptions as a test wants them."""

    asyncio.run(written(url, "a", 9))
    asyncio.run(arranged_in(url, arrange))


async def arranged_in(url: str, arrange: Callable[[Subscriptions], Any]) -> None:
    async with open_subscriptions(url) as names:
        await arrange(names)


async def index(names: Subscriptions) -> None:
    """One that is at 4, failing at 6, with two events parked."""
    taken = await names.take("index", '{"types":["iteration.started.v1"]}', "index.py:index", 0)
    for position in (2, 4):
        await names.park(
            taken,
            ParkedEvent(
                "index", position, f"a/{position}", "a", position, "iteration.started.v1", 5, "no", taken.created
            ),
        )
    await names.failed(taken, Failing(6, 2, "ConnectionError: refused", taken.created))


def test_names_are_listed(url: str) -> None:
    arranged(url, index)
    lines = call("subscriptions", "list", "--store", url).out.splitlines()
    assert lines[0] == "index  at 5, 4 behind since 2026-03-01 12:00:00 UTC  2 parked  index.py:index"
    assert lines[1].startswith("    event 6 failed 2 times, again at ")
    assert lines[1].endswith(" UTC: ConnectionError: refused")
    (found,) = said_as_json("subscriptions", "list", "--store", url)
    assert (found["failing"]["position"], found["lag"], found["since"]) == (6, 4, "2026-03-01T12:00:00.125000Z")


def test_doctor_tells_of_them(url: str) -> None:
    async def well(names: Subscriptions) -> None:
        await names.save(await names.take("index", "{}", "index.py:index", 0), 7)

    def checked() -> list[dict[str, Any]]:
        found = json.loads(call("doctor", "--json", "--store", url).out)["checks"]
        return [each for each in found if each["name"] == "subscriptions"]

    asyncio.run(written(url, "a", 9))
    assert checked() == []
    asyncio.run(arranged_in(url, well))
    assert checked() == [{"name": "subscriptions", "level": "ok", "message": "1 name, the last is 2 events behind"}]
    asyncio.run(arranged_in(url, index))
    (found,) = checked()
    assert found["level"] == "warn"
    assert found["message"].startswith("index fails at event 6; 2 events parked for index; see `redraft subscriptions")


def test_a_name_is_reset_and_skipped(url: str) -> None:
    arranged(url, index)
    said = call("subscriptions", "skip", "index", "--store", url)
    assert said.out == "index goes on after position 6; 3 events follow it\n"
    assert said_as_json("subscriptions", "skip", "index", "--store", url)["position"] == 8, "the next that it wants"
    assert said_as_json("subscriptions", "reset", "index", "--to", "2", "--store", url)["lag"] == 7
    assert said_as_json("subscriptions", "reset", "index", "--store", url)["position"] == 0
    assert said_as_json("subscriptions", "skip", "index", "--to-end", "--store", url)["lag"] == 0
    assert said_as_json("subscriptions", "skip", "index", "--store", url)["position"] == 9


def test_parked_events_are_chosen_by_id_or_position(url: str) -> None:
    arranged(url, index)
    text = call("subscriptions", "parked", "index", "--store", url).out
    assert text.splitlines()[0] == "2  a/2  a  iteration.started.v1  failed 5 times  no"
    assert call("subscriptions", "parked", "index", "--retry", "a/2", "--store", url).out == "retried 2 a/2\n"
    assert "(will be tried again)" in call("subscriptions", "parked", "index", "--store", url).out
    assert said_as_json("subscriptions", "parked", "index", "--discard", "2", "--store", url) == {"discarded": ["a/2"]}
    assert said_as_json("subscriptions", "parked", "index", "--discard", "all", "--store", url) == {
        "discarded": ["a/4"]
    }
    assert call("subscriptions", "parked", "index", "--store", url).out == "nothing is parked\n"
    assert (
        call("subscriptions", "parked", "index", "--retry", "all", "--store", url).out == "nothing is parked any more\n"
    )


def test_a_name_is_forgotten(url: str) -> None:
    arranged(url, index)
    assert call("subscriptions", "remove", "index", "--store", url).out == "removed index\n"
    assert call("subscriptions", "list", "--store", url).out == "there are no subscriptions with a name\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("subscriptions", "reset", "other"), "no subscription is named 'other'; `redraft subscriptions list` shows"),
        (("subscriptions", "skip", "other"), "no subscription is named 'other'"),
        (("subscriptions", "parked", "other"), "no subscription is named 'other'"),
        (("subscriptions", "remove", "other"), "no subscription is named 'other'"),
        (("subscriptions", "reset", "index", "--to", "10"), "--to 10: the log ends at 9; give a position from 0 to 9"),
        (("subscriptions", "parked", "index", "--retry", "7"), "no event '7' is parked; `redraft subscriptions parked"),
        (("subscriptions", "parked", "index", "--retry", "2", "--discard", "4"), "give --retry or --discard, not both"),
        (("subscribe", "handlers.py:nothing", "--name", "x"), "there is no function 'nothing' in it; "),
        (("subscribe", "handlers.py:xyz", "--name", "x"), "no function 'xyz' in it; choose from note, hang, noteless"),
        (("subscribe", "handlers.py:Thing", "--name", "x"), "there is no function 'Thing' in it; "),
        (("subscribe", "handlers.py", "--name", "x"), "handlers.py: give file.py:function"),
        (("subscribe", "handlers.py:note", "--name", "a b"), "'a b' cannot be the name of a subscription"),
        (("subscribe", "handlers.py:note", "--name", "x", "--from", "0"), "--from 0: give `beginning`, `now`, or a"),
        (
            ("subscribe", "handlers.py:note", "--name", "x", "--from", "99999999999999999999"),
            "--from 99999999999999999999: give `beginning`, `now`, or a position, 1 to 9223372036854775807",
        ),
        (("subscribe", "handlers.py:note", "--name", "x", "--type", "draft.critiqed"), "did you mean draft.critiqued?"),
        (("subscribe", "handlers.py:note", "--name", "x", "--run", "last"), "--run last: give the whole id of a run"),
        (("webhook", "https://example.com", "--name", "x", "--run", "01m7y"), "--run 01m7y: give the whole id of a"),
        (
            ("webhook", "http://127.0.0.1:1/hook", "--name", "x"),
            "127.0.0.1 is not a public address: events go there only",
        ),
        (("webhook", "http://[::ffff:10.0.0.1]/", "--name", "x"), "is not a public address: events go there only with"),
        (("webhook", "example.com", "--name", "x"), "the URL of the webhook is not understood; give https://"),
        (
            ("webhook", "https://example.com", "--name", "x", "--secret-env", "NOWHERE"),
            "--secret-env NOWHERE: there is",
        ),
    ],
)
def test_wrong_input_is_told_in_one_line(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], says: str
) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    arranged(url, index)
    monkeypatch.chdir(folder)
    said = call(*arguments, "--store", url)
    assert said.code == 2
    assert says in one_line(said)


def test_there_is_no_store_to_look_at(tmp_path: Path) -> None:
    said = call("subscriptions", "list", "--store", f"sqlite:///{tmp_path / 'none.db'}")
    assert said.code == 5
    assert "there is no store" in one_line(said)
    assert list(tmp_path.iterdir()) == []


def test_a_name_needs_a_store_that_keeps_it(folder: Path) -> None:
    said: Said = spawn("subscribe", "handlers.py:note", "--name", "x", "--store", "memory:", folder=folder)
    assert said.code == 2
    assert "no subscription can have a name" in said.err


def test_a_filter_is_kept_as_it_is_read_again() -> None:
    import msgspec

    from redraft.app.subscribing.feed import filter_text
    from redraft.events.messages.filters import event_filter

    wanted = event_filter(types=["draft.critiqued"], workflows=["b", "a"], tags=["x"])
    assert msgspec.json.decode(filter_text(wanted), type=EventFilter) == wanted
