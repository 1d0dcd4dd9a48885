"""Runs that came out of an archive: what their plans say is carried out only when a person says so."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.app.cli_calls import call, document, one_line, said

from redraft.app.record.copying.archive import ArchiveWriter
from redraft.events.backends import open_store
from redraft.events.store.raw_rows import RawRow

PLAN = """
name: theirs
steps:
- generate: {{actor: source}}
- critique: {{actor: command, with: {{run: [touch, {mark}]}}}}
- publish: {{actor: file, with: {{path: out.md}}}}
"""


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the store that is imported into, which the environment names."""
    url: str = "sqlite:///target.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    monkeypatch.setenv("REDRAFT_STORE", url)
    monkeypatch.chdir(tmp_path)
    return url


@pytest.fixture
def mark(target: str, tmp_path: Path) -> Path:
    """What the plan of the run in the file `archive` makes. The archive has the run's first two events."""
    mark = tmp_path / "mark"
    (tmp_path / "plan.yaml").write_text(PLAN.format(mark=mark))
    out = str(tmp_path / "elsewhere.md")
    assert call("run", "-w", "plan.yaml", "The sea.", "--out", out, "--store", "sqlite:///theirs.db").code == 0
    mark.unlink()
    _archive(asyncio.run(_first("sqlite:///theirs.db", 2)))
    return mark


async def _first(url: str, events: int) -> list[RawRow]:
    async with open_store(url) as store:
        return list(await store.copying().after(0, events))


def _archive(events: list[RawRow]) -> None:
    with Path("archive").open("wb") as file:
        writer = ArchiveWriter(file, datetime.now(UTC))
        writer.add([*events])
        writer.finish(len(events), 1)


def test_an_imported_run_goes_on_when_a_person_trusts_it(mark: Path) -> None:
    said("import", "archive")
    line = one_line(call("run", "--resume", "last", "--quiet"))
    assert "was imported, and its plan was written by somebody else" in line
    assert f"(generator source, critic command touch {mark}, publisher file {mark.parent} elsewhere.md)" in line
    assert "give --trust" in line
    assert call("run", "--resume", "last", "--quiet").code == 2
    assert not mark.exists()
    assert call("run", "--resume", "last", "--trust", "--quiet").code == 0
    assert mark.exists()
    assert call("run", "--resume", "last", "--quiet").code == 0, "it has ended, and only its result is told"


@pytest.mark.check
def test_forks_of_an_imported_run_are_imported_too_whatever_becomes_of_the_read_models(mark: Path) -> None:
    said("import", "archive")
    refused = call("fork", "last", "--at", "1", "--quiet")
    assert refused.code == 2
    assert "was imported" in one_line(refused)
    said("rebuild")
    assert call("fork", "last", "--at", "1", "--quiet").code == 2
    assert not mark.exists()
    forked = json.loads(said("fork", "last", "--at", "1", "--trust", "--quiet", "--json"))
    mark.unlink()
    again = call("fork", forked["run"], "--at", "1", "--quiet")
    assert again.code == 2
    assert f"run {forked['run']} was imported" in one_line(again)
    assert not mark.exists()
    assert call("fork", forked["run"], "--at", "1", "--trust", "--quiet").code == 0


def test_what_a_store_had_before_is_its_own(target: str) -> None:
    said("run", "The sea is calm.", "--quiet")
    said("export", "-o", "own")
    said("import", "own")
    assert call("fork", "last", "--at", "1", "--quiet").code == 0


def test_a_store_with_imported_runs_is_as_it_should_be(mark: Path) -> None:
    said("import", "archive")
    assert document("audit", "--all", "--verify")["faults"] == []
    assert call("run", "A text.", "--trust").code == 2
