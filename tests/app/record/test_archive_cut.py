"""Archives with a run that was cut off in the middle of a decision: it would wait for nothing, and never end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.actors.deciding.test_rules_golden import FILES, decided_again, events_of
from tests.app.cli.test_reading import LOUD
from tests.app.cli_calls import call, one_line
from tests.app.record.test_archive import Lines, ended, export, kept, lines, rewrite, run

from redraft.actors.deciding.evolve import evolve, fold
from redraft.actors.deciding.state import RunState
from redraft.app.record.waiting import awaits_nothing
from redraft.app.testing.history import history
from redraft.events.backends import open_store
from redraft.events.messages.envelope import Recorded

TARGET = "sqlite:///target.db"


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lines:
    """The lines of an archive of one run, without the last, which is its end."""
    monkeypatch.chdir(tmp_path)
    Path("loud.py").write_text(LOUD)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    run("One")
    export()
    return lines()[:-1]


def begins_decision(event: dict[str, object]) -> bool:
    """Whether an event is the first of those that were recorded together."""
    return str(event["id"]).endswith(".0")


def remove_target() -> None:
    for file in Path().glob("target*"):
        file.unlink()


def test_a_run_that_was_cut_in_a_decision_is_refused_and_any_other_beginning_is_not(whole: Lines) -> None:
    head, *events = whole
    read = [json.loads(line) for line in events]
    refused = 0
    for number in range(1, len(events) + 1):
        rewrite(ended([head, *events[:number]]))
        said = call("import", "archive", "--store", TARGET)
        if number == len(events) or begins_decision(read[number]):
            assert said.code == 0, (number, said.err)
            remove_target()
            continue
        refused += 1
        last, name = read[number - 1], read[number - 1]["run"]
        assert said.code == 2
        assert one_line(said) == (
            f"archive archive: run {name} was cut off after event {number} ({last['name']}): it has not ended, and "
            f"waits for nothing; export the whole run again, or leave it out: redraft export --without {name}"
        )
        assert not list(Path().glob("target*")), "neither a store nor a lease is left"
    assert refused > 5


def test_a_run_that_was_set_aside_wherever_it_stood_is_imported(whole: Lines) -> None:
    _, *events = whole
    cut = next(at for at, line in enumerate(events, 1) if b"draft.generated" in line)
    put_first(events[:cut])
    assert call("quarantine", "last", "--reason", "cut", "--store", TARGET).code == 0
    assert call("export", "-o", "archive", "--store", TARGET).code == 0
    assert call("import", "archive", "--store", "sqlite:///other.db").code == 0
    assert kept("sqlite:///other.db") == kept(TARGET)


def put_first(events: Lines) -> None:
    """Puts rows into the target past the import, as one that was interrupted, or an earlier release, left them."""

    async def put() -> None:
        async with open_store(TARGET) as store:
            rows = await store.copying().after(0, 10**9)
            assert not rows
            await store.copying().put(kept_rows[: len(events)])

    kept_rows = kept("sqlite:///store.db")
    asyncio.run(put())


def test_resuming_such_a_run_says_so_instead_of_waiting_and_a_fork_goes_on(whole: Lines) -> None:
    _, *events = whole
    cut = next(at for at, line in enumerate(events, 1) if b"draft.generated" in line)
    put_first(events[:cut])
    name = json.loads(events[0])["run"]
    said = call("run", "--resume", "last", "--quiet", "--store", TARGET)
    assert said.code == 2
    assert one_line(said) == (
        f"run {name} was cut off after event {cut} (draft.generated.v1): it has not ended, and waits for nothing; "
        f"import an archive that has the whole run, or go on in a new one: redraft fork {name} --at {cut}"
    )
    forked = call("fork", name, "--at", str(cut), "--quiet", "--json", "--store", TARGET)
    assert json.loads(forked.out)["outcome"] == "accepted", forked.err


def by_run(events: Iterable[Recorded]) -> list[list[Recorded]]:
    found: dict[str, list[Recorded]] = {}
    for event in events:
        found.setdefault(event.run, []).append(event)
    return list(found.values())


@pytest.mark.parametrize("seed", range(12))
def test_no_beginning_of_a_run_that_was_recorded_as_a_whole_awaits_nothing(seed: int) -> None:
    for events in by_run(history(seed).events):
        state = RunState()
        for event, after in zip(events, [*events[1:], None], strict=True):
            state = evolve(state, event.data)
            if after is None or after.id.endswith(".0"):
                assert not awaits_nothing(state), (event.run, event.version)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nor_does_any_that_an_earlier_release_decided(path: Path) -> None:
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        events = events_of(line)
        for said in range(len(line["said"]) + 1):
            decided, _ = decided_again({**line, "said": line["said"][:said]})
            assert decided == events[: len(decided)]
            assert not awaits_nothing(fold(decided))
