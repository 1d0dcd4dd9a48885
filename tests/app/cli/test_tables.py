"""Every table fits a terminal of 80 columns, however long the names are, and loses nothing in a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.cli_calls import call, document

from redraft.app.cli.shared.tables import print_table

LONG = "an-uncommonly-long-name-of-an-actor-in-a-workflow-of-words"
FLOWS = f'''
from redraft.actors import Critique, Receipt, Revision, Usage, Workflow, critic, generator, publisher, refiner, score

PAID = Usage(tokens=123_456_789, cost=1234.5678, calls=12, unpriced=3, currency="USD")

@generator(name="g-{LONG}")
def write(brief, context):
    context.used(PAID)
    return brief.text

@critic(name="c-{LONG}")
def judge(draft, context):
    context.used(PAID)
    return Critique(min(1, draft.version / 3), errors=("a long error " * 9,) * 3, suggestions=("so " * 40,))

@refiner(name="r-{LONG}")
def improve(draft): return Revision(draft.text + "!", changes=("changed " * 20,))

@publisher(name="p-{LONG}")
def save(draft): return Receipt("https://example.com/" + "a/long/path/" * 8, "a long note " * 9)

long = Workflow("{LONG}").start_with(write).repeat_until(score >= 1, max_iterations=5, body=[judge, improve])
long = long.finally_(save)
'''
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("tables")
    (folder / "long.py").write_text(FLOWS)
    brief = folder / f"{LONG}.md"
    brief.write_text("Why tides exist, and what the moon has to do with it, in some more words than that. " * 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("REDRAFT_STORE", f"sqlite:///{folder / 'store.db'}")
        for _ in range(2):
            done = call("run", "long.py:long", str(brief))
            assert done.code == 0, done.err
        yield folder


TABLES = (
    "list",
    "stats actors",
    "stats choices",
    "stats critics",
    "stats critics last",
    "stats scores",
    "stats scores last",
    "stats publications",
    "stats issues",
    "stats issues last",
    "stats tree",
    "stats tree last",
    "projections show runs",
    "projections show steps",
    "projections list",
    "events",
    "audit last",
    "doctor",
    "simulate long.yaml --runs 20 --critic noisy(0.1)",
    "whatif --workflow all --until score>=0.5 --until score>=0.9",
    "run --batch briefs.jsonl long.py:long --quiet",
)


@pytest.mark.parametrize("words", TABLES)
@pytest.mark.usefixtures("folder")
def test_a_table_fits_80_columns(words: str, monkeypatch: pytest.MonkeyPatch):
    Path("long.yaml").write_text(call("plan", "long.py:long").out)
    Path("briefs.jsonl").write_text('"One."\n"Two, with a long text that says much more than the first."\n')
    arguments = [LONG if word == "all" else word for word in words.split()]
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    shown = call(*arguments)
    assert (shown.code, shown.out == "") == (0, False), shown.err
    lines = COLOUR.sub("", shown.out).splitlines()
    assert [line for line in lines if len(line.rstrip()) > 80] == []


@pytest.mark.usefixtures("folder")
def test_nothing_is_cut_for_a_file(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = call("list").out.splitlines()
    assert len(lines) == 1 + len(document("list"))
    assert all(LONG[:39] in line for line in lines[1:])
    assert "at least 4938.2712 USD" in lines[-1], "an unknown price is said where the cost is"


def test_columns_go_narrow_then_out_and_then_each_row_is_a_list(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    names, rows = ("name", "number", "more"), [("one two three four", 12345678, "more"), ("two", 2, "x" * 30)]

    def shown(width: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(names, rows, right=("number",), spare=("more",))
        return [COLOUR.sub("", line).rstrip() for line in capsysbinary.readouterr().out.decode().splitlines()]

    assert shown(70) == [
        "name                  number  more",
        "one two three four  12345678  more",
        "two                        2  " + "x" * 30,
    ]
    assert shown(40)[1:3] == ["one two three   12345678  more", "four"], "a cell is carried over"
    assert shown(20) == ["name          number", "one two     12345678", "three four", "two                2"]
    assert shown(17)[:3] == ["name    one two", "        three", "        four"]
    assert shown(17)[3:7] == ["number  12345678", "more    more", "", "name    two"]
