"""`redraft export`, `import` and `erase` take the runs of items along."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from tests.app.cli_calls import call, document, one_line, said
from tests.app.itemized import all_runs, items_of, run_book, write_book

from redraft.actors import Workflow, each, generator
from redraft.actors.runtime.relaying.item_runs import ItemRuns
from redraft.app.client.result import planned
from redraft.app.record import erasure
from redraft.app.record.copying.archive import RunKey, read_archive
from redraft.app.settings.settings import read_settings
from redraft.app.wiring.local import open_handler, open_local
from redraft.events.bus.port import BusMessage
from redraft.events.errors import StoreError
from redraft.events.messages.codec import decode_message
from redraft.events.messages.commands import CancelRun, Message, StartRun
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import StepRequested
from redraft.events.messages.envelope import Origin


@generator
def write(brief):
    return brief.text


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.check)])
def place(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the workflow and the name of an empty store."""
    write_book(home)
    url = "sqlite:///store.db" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    monkeypatch.setenv("REDRAFT_STORE", url)
    return home


@pytest.fixture
def sealed(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, its store encrypted."""
    assert call("key", "encryption", "key").code == 0
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "1")
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", "key")
    return place


def runs_in(archive: str) -> set[str]:
    return {item.run for item in read_archive(Path(archive)) if not isinstance(item, RunKey)}


def is_erased(run: str) -> bool:
    lines = said("events", "--run", run, "--json").splitlines()
    return any(json.loads(line)["name"] == "run.erased.v1" for line in lines)


def test_a_run_is_exported_with_those_of_its_items(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, book = run_book(), run_book()
    family = {book, *items_of(book)}
    assert len(family) == 6
    told = document("export", "--run", book, "-o", "whole")
    assert (told["runs"], runs_in("whole")) == (6, family)
    assert document("export", "--without", other, "-o", "rest")["runs"] == 6
    assert runs_in("rest") == family
    chapter = next(run for run in family if run.count("~") == 1)
    assert document("export", "--run", book, "--without", chapter, "-o", "part")["runs"] == len(
        [run for run in family if not run.startswith(chapter)]
    )
    said("export", "--since", "1h", "-o", "recent")
    assert runs_in("recent") == {*all_runs()}
    listed = {run: line for run, line in all_runs().items() if run in family}
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///target.db")
    assert document("import", "whole")["runs"] == 6
    assert {run: (line["outcome"], line["item_of"]) for run, line in all_runs().items()} == {
        run: (line["outcome"], line["item_of"]) for run, line in listed.items()
    }
    assert call("audit", "--all", "--verify").code == 0
    assert document("import", "whole")["added"] == 0


def test_a_run_whose_item_has_an_imported_run_already_fails_and_says_so(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chapter = next(run for run in items_of(run_book("--key", "k")) if run.count("~") == 1)
    said("export", "--run", chapter, "-o", "one")
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///target.db")
    said("import", "one")
    monkeypatch.setattr("redraft.actors.deciding.requests.LOOK_AFTER", timedelta(seconds=1))
    told = call("run", "book.py:book", "Tides", "--json", "--quiet", "--key", "k")
    ended = json.loads(told.out)
    assert (told.code, ended["outcome"]) == (1, "failed")
    assert f"cannot begin: run {chapter} is there already, and another request began it" in ended["reason"]
    assert call("audit", ended["run"], "--verify").code == 0
    assert f"run {ended['run']} did not ask for it" in call("audit", "--all", "--verify").err


def test_the_run_of_an_item_is_exported_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = next(run for run in items_of(run_book()) if run.count("~") == 2)
    said("export", "--run", inside, "-o", "one")
    assert runs_in("one") == {inside}
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///target.db")
    assert document("import", "one")["runs"] == 1
    assert {*all_runs()} == {inside}
    assert said("show", inside, "--text").startswith("Tides on ")
    assert call("audit", inside, "--verify").code == 0
    assert call("audit", "--all", "--verify").code == 0


@pytest.mark.check
def test_an_erasure_takes_the_runs_of_items_along(sealed: Path) -> None:
    other, book = run_book(), run_book()
    family = [book, *items_of(book)]
    told = document("erase", book, "--by", "grace")
    assert (told["run"], sorted(told["items"])) == (book, sorted(family[1:]))
    assert all(is_erased(run) for run in family)
    assert not is_erased(other)
    assert not any(is_erased(run) for run in items_of(other))
    for run in family:
        assert "Tides" not in call("show", run, "--text").out
    assert call("audit", "--all", "--verify").code == 0
    assert "they are equal to the rows" in call("rebuild").out
    again = document("erase", book)
    assert (again["by"], again["time"]) == ("grace", told["time"])


def test_the_run_of_an_item_that_has_not_begun_when_the_run_around_it_is_erased_never_begins(sealed: Path) -> None:
    on_their_way = asyncio.run(cancelled_with_items_on_their_way("book"))
    first = on_their_way[0].run
    asyncio.run(begin(on_their_way[:1]))
    assert [*all_runs()] == [first, "book"]
    asyncio.run(carry_out(CancelRun(first, ""), origin()))
    assert document("erase", "book", "--by", "grace")["items"] == [first]
    for number in (1, 2):
        asyncio.run(begin(on_their_way))
        assert [*all_runs()] == [first, "book"], number
        assert document("erase", "book")["by"] == "grace"
    assert "Tides" not in said("events", "--json")
    assert call("audit", "--all", "--verify").code == 0


async def cancelled_with_items_on_their_way(run: str) -> list[BusMessage]:
    """Records a run with requests for its items, and its end; returns the messages that would begin those."""
    chapters = each("Chapters", over="state.chapters", body=[write])
    book = planned(Workflow("book", state={"chapters": ["ebb", "flood"]}).start_with(chapters))
    async with open_local(read_settings(), ()) as runtime, open_handler(read_settings(), runtime) as handler:
        started = await handler.carry_out(StartRun(run, book, Brief("Tides")), origin())
        items, asked = ItemRuns(runtime.store.read), [each.data for each in started.recorded]
        sent = [
            await items.start(event, request, again=False)
            for event, request in zip(started.recorded, asked, strict=True)
            if isinstance(request, StepRequested)
        ]
        await handler.carry_out(CancelRun(run, ""), origin())
    return [each for each in sent if each is not None]


async def begin(on_their_way: Sequence[BusMessage]) -> None:
    for each_of_them in on_their_way:
        await carry_out(decode_message(each_of_them.name, each_of_them.body), each_of_them.origin)


async def carry_out(message: Message, sent: Origin) -> None:
    async with open_local(read_settings(), ()) as runtime, open_handler(read_settings(), runtime) as handler:
        assert (await handler.carry_out(message, sent)).refused == ""


def origin() -> Origin:
    return Origin(uuid4().hex, "test")


def test_the_run_of_an_item_is_not_erased_before_the_run_around_it(sealed: Path) -> None:
    book = run_book()
    inside = next(run for run in items_of(book) if run.count("~") == 2)
    around = inside.rpartition("~")[0]
    refused = call("erase", inside)
    assert refused.code == 2
    assert one_line(refused) == (
        f"run {inside} is that of an item of run {around}, which holds its draft; "
        f"erase them together: redraft erase {book}"
    )
    assert f"that of an item of run {book}, which holds its draft" in one_line(call("erase", around))
    assert not is_erased(inside)
    assert call("erase", book).code == 0
    assert call("erase", inside).code == 0


def test_an_erasure_that_was_interrupted_is_repeated(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = run_book()
    family = [book, *items_of(book)]
    record, recorded = erasure._record, []

    async def interrupted(runtime, settings, run, by, reason):  # type: ignore[no-untyped-def]
        if len(recorded) == 3:
            raise StoreError("the process was killed")
        recorded.append(run)
        return await record(runtime, settings, run, by, reason)

    with monkeypatch.context() as patched:
        patched.setattr(erasure, "_record", interrupted)
        assert call("erase", book, "--by", "grace").code != 0
    depths = [run.count("~") for run in recorded]
    assert depths == [2, 2, 2]
    assert not is_erased(book)
    assert call("erase", book, "--by", "hopper").code == 0
    assert all(is_erased(run) for run in family)


def test_runs_of_items_in_the_clear_are_told(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = run_book()
    said("export", "--run", book, "-o", "whole")
    monkeypatch.setattr(erasure, "_is_encrypted", lambda runtime, run: asyncio.sleep(0, run == book))
    told = document("erase", book)
    assert told["items"] == []
    assert len(told["leftover"]) == 5
    assert "was recorded in the clear" in told["leftover"][0]
