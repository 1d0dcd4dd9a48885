"""`redraft run --batch`: many briefs, resumable, with a table of how they ended."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.app.cli_calls import call, one_line, start, until

LOOP = """
import asyncio
from pathlib import Path
from redraft.actors import Critique, PermanentError, Workflow, critic, generator, publisher, refiner, score

HERE = Path(__file__).parent
under_way = 0

@generator
async def write(brief):
    global under_way
    under_way += 1
    with (HERE / "most.txt").open("a") as file:
        file.write(f"{under_way}\\n")
    await asyncio.sleep(0)
    while (HERE / "hold").exists() and "wait" in brief.text:
        await asyncio.sleep(0.01)
    under_way -= 1
    if "fail" in brief.text:
        raise PermanentError("as asked")
    return brief.text

@critic
def judge(draft):
    return Critique(0.2 if "bad" in draft.text else 1.0)

@refiner
def improve(draft):
    return draft.text + "!"

@publisher
def save(draft, context):
    with (HERE / "published.txt").open("a") as file:
        file.write(f"{draft.text}\\n")
    print("published")
    return "published.txt"

loop = Workflow("loop").start_with(write)
loop = loop.repeat_until(score >= 1, max_iterations=2, name="L", body=[judge, improve]).finally_(save)
"""


@pytest.fixture(autouse=True)
def folder(home: Path) -> Path:
    (home / "loop.py").write_text(LOOP)
    return home


def briefs(folder: Path, *lines: object) -> str:
    (folder / "briefs.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return "briefs.jsonl"


def published(folder: Path) -> list[str]:
    return sorted((folder / "published.txt").read_text().splitlines())


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ({"source": "Makefile"}, "Makefile: by its name this is neither text"),
        ({"source": "a.py"}, "source a.py: this is no prose; say what to do with the batch: --workflow code"),
        ({"media_type": "application/json"}, "media type 'application/json': this is no prose"),
    ],
)
def test_a_brief_that_is_no_prose_needs_a_workflow(folder: Path, line: dict[str, str], fault: str) -> None:
    file = briefs(folder, {"text": "Fine words.", "source": "a.md"}, {"text": "all:\n\tcc teh.c\n", **line})
    said = call("run", "--batch", file)
    assert (said.code, said.out) == (2, "")
    assert one_line(said).startswith(f"briefs.jsonl:2: {fault}")
    assert not (folder / "store.db").exists()
    assert call("run", "loop.py:loop", "--batch", file).code == 0
    assert call("run", "-w", "loop.py:loop", "--batch", file).code == 0


def test_each_brief_is_a_run_and_a_table_says_how_they_ended(folder: Path) -> None:
    file = briefs(folder, "one", {"text": "two", "id": "second", "tags": ["x"]}, "bad three", "one")
    said = call("run", "--batch", file, "loop.py:loop", "--tag", "night")
    assert said.code == 3, said.err
    head, *rows = [line.split() for line in said.out.splitlines()]
    assert head == ["id", "outcome", "score", "iterations", "run", "brief"]
    assert [(row[0], row[1]) for row in rows] == [
        ("1", "accepted"),
        ("second", "accepted"),
        ("3", "exhausted"),
        ("4", "accepted"),
    ]
    assert said.err.splitlines()[-1] == "redraft: 4 briefs: 3 accepted, 1 exhausted"
    assert published(folder) == ["bad three!!", "one", "one", "two"], "two equal briefs are two runs"
    assert [line["tags"] for line in json.loads(call("list", "--json", "--tag", "x").out)] == [["night", "x"]]


def test_the_same_batch_again_gives_the_same_results_and_does_nothing_twice(folder: Path) -> None:
    file = briefs(folder, "one", "two")
    first = call("run", "--batch", file, "loop.py:loop", "--json")
    briefs(folder, "one", "between", "two")
    again = call("run", "--batch", file, "-w", "loop.py:loop", "--json", "-q")
    assert (first.code, again.code) == (0, 0)
    known = {line["draft"]["text"]: line["run"] for line in map(json.loads, first.out.splitlines())}
    later = {line["draft"]["text"]: line["run"] for line in map(json.loads, again.out.splitlines())}
    assert known.items() <= later.items()
    assert published(folder) == ["between", "one", "two"]


def test_no_more_runs_than_asked_for_go_on_at_once(folder: Path) -> None:
    file = briefs(folder, *(f"brief {number}" for number in range(40)))
    assert call("run", "--batch", file, "loop.py:loop", "--concurrency", "3", "-q").code == 0
    counts = [int(line) for line in (folder / "most.txt").read_text().split()]
    assert len(counts) == 40
    assert max(counts) <= 3
    assert len(published(folder)) == 40


def test_a_run_that_fails_fails_the_batch_and_no_other(folder: Path) -> None:
    said = call("run", "--batch", briefs(folder, "one", "fail", "two"), "loop.py:loop")
    assert said.code == 1
    assert published(folder) == ["one", "two"]
    assert "1/3 " in said.err
    assert said.err.splitlines()[-1] == "redraft: 3 briefs: 2 accepted, 1 failed"


def test_a_run_that_is_set_aside_is_reported_and_the_others_go_on(folder: Path) -> None:
    file = briefs(folder, "one", "wait two", "three")
    (folder / "hold").touch()
    with start("run", "--batch", file, "loop.py:loop", "--concurrency", "1", folder=folder) as process:
        until(lambda: (folder / "most.txt").exists() and len((folder / "most.txt").read_text().split()) == 2)
        (held,) = [each["run"] for each in json.loads(call("list", "--json").out) if each["status"] == "running"]
        assert call("quarantine", held, "--reason", "its brief is wrong").code == 0
        out, err = process.communicate(timeout=30)
    (folder / "hold").unlink()
    assert process.returncode == 1
    assert published(folder) == ["one", "three"]
    assert [line.split()[:3] for line in out.splitlines()[2:3]] == [["2", "set", "aside"]]
    assert f" 2 set aside, run {held}" in err
    told, counts = err.splitlines()[-2:]
    assert told.startswith(f"redraft: briefs.jsonl:2: run {held} was set aside by ")
    assert told.endswith(": its brief is wrong")
    assert counts == "redraft: 3 briefs: 2 accepted, 1 set aside"

    again = call("run", "--batch", file, "loop.py:loop", "--json", "-q")
    assert again.code == 1
    lines = {line["line"]: line for line in map(json.loads, again.out.splitlines())}
    assert [lines[number]["outcome"] for number in (1, 2, 3)] == ["accepted", None, "accepted"]
    assert lines[2].keys() == {"line", "id", "run", "outcome", "error"}
    assert (lines[2]["run"], lines[2]["error"]) == (held, told.partition("briefs.jsonl:2: ")[2])
    assert published(folder) == ["one", "three"]


def test_a_brief_that_is_refused_is_reported_and_the_others_go_on(folder: Path) -> None:
    file = briefs(folder, {"text": "two", "id": "b", "tags": ["x"]})
    assert call("run", "--batch", file, "loop.py:loop").code == 0
    file = briefs(folder, {"text": "two", "id": "b", "tags": ["y"]}, "one", "three")
    said = call("run", "--batch", file, "loop.py:loop", "--concurrency", "1")
    assert said.code == 2
    told, counts = said.err.splitlines()[-2:]
    assert told.startswith("redraft: briefs.jsonl:1: key 'batch/")
    assert "was used for other tags" in told
    assert counts == "redraft: 3 briefs: 2 accepted, 1 refused"
    assert published(folder) == ["one", "three", "two"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_batch_goes_on_where_it_was(folder: Path, how: signal.Signals) -> None:
    file = briefs(folder, "one", "wait two", "three")
    (folder / "hold").touch()
    with start("run", "--batch", file, "loop.py:loop", "--json", folder=folder) as process:
        until(lambda: (folder / "published.txt").exists() and published(folder) == ["one", "three"])
        until(lambda: [each["status"] for each in json.loads(call("list", "--json").out)].count("ended") == 2)
        process.send_signal(how)
        if how == signal.SIGINT:
            (folder / "hold").unlink()
        _, err = process.communicate(timeout=30)
    (folder / "hold").unlink(missing_ok=True)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "interrupted; run the same command again to continue" in err
    assert call("run", "--batch", file, "loop.py:loop", "-q").code == 0
    assert published(folder) == ["one", "three", "wait two"]
    assert len(json.loads(call("list", "--json").out)) == 3


def test_the_file_that_out_names_is_one_for_each_run(folder: Path) -> None:
    (folder / "out").mkdir()
    said = call("run", "--batch", briefs(folder, "The sea rises.", "The sea falls."), "--out", "out/{run}.txt", "-q")
    assert said.code == 0, said.err
    assert sorted(path.read_text() for path in (folder / "out").iterdir()) == ["The sea falls.", "The sea rises."]
    assert "every run would write this file" in one_line(call("run", "--batch", "briefs.jsonl", "--out", "out/a.txt"))


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ('"one"\n{"txt": "two"}\n', "briefs.jsonl:2: Object contains unknown field `txt`"),
        ('"one"\n\n"  "\n', "briefs.jsonl:3: brief: the text is empty"),
        ("one\n", "briefs.jsonl:1: JSON is malformed"),
        ('{"text": "a", "id": "x"}\n{"text": "b", "id": "x"}\n', "briefs.jsonl:2: the id 'x' is that of line 1"),
        ("\n\n", "there is no brief in it"),
        ('{"text": "a", "state": {"x": %s}}' % ("[" * 5_000 + "]" * 5_000), "briefs.jsonl:1: "),
        ('"\udcff"'.encode("utf-8", "surrogateescape").decode("latin-1"), "briefs.jsonl:1: "),
    ],
)
def test_a_wrong_line_is_named_before_anything_runs(folder: Path, lines: str, fault: str) -> None:
    (folder / "briefs.jsonl").write_bytes(lines.encode("latin-1"))
    said = call("run", "--batch", "briefs.jsonl", "loop.py:loop")
    assert said.code == 2
    assert fault in one_line(said)
    assert not (folder / "store.db").exists()


def test_what_does_not_go_with_a_batch_is_refused(folder: Path) -> None:
    file = briefs(folder, "one")
    for arguments, fault in (
        (["loop.py:loop", "a text"], "--batch names the file of sources"),
        (["--resume", "last"], "leave --resume out"),
    ):
        said = call("run", "--batch", file, *arguments)
        assert said.code == 2
        assert fault in one_line(said)
    assert "no such file" in one_line(call("run", "--batch", "nowhere.jsonl")).lower()


def test_a_run_of_a_batch_is_forked_with_the_functions_of_its_file(folder: Path) -> None:
    assert call("run", "--batch", briefs(folder, "one"), "loop.py:loop").code == 0
    forked = call("fork", "last", "--at", "3", "--quiet")
    assert (forked.code, (folder / "published.txt").read_text()) == (0, "one\none\n"), forked.err
