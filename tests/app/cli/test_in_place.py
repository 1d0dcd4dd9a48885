"""`redraft run SOURCE --out SOURCE`: what a person wrote into the source while it was refined is never lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.app.cli_calls import call

LOOP = """
import json, os
from pathlib import Path
from redraft.actors import Critique, Workflow, critic, refiner, score, step

def meddle():
    for name, text in json.loads(os.environ.get("MEDDLE", "{}")).items():
        path = Path(__file__).parent / name
        path.unlink() if text is None else path.write_text(text)

@critic
def judge(draft):
    return Critique(0.9 if draft.text.count("better") >= int(os.environ.get("NEEDED", "1")) else 0.2)

@refiner
def refine(draft, folder):
    (folder / "a.md").write_text("better\\n")
    (folder / "new.md").write_text("new\\n")
    meddle()
    return folder

@refiner
def lengthen(draft):
    meddle()
    return draft.text + "better\\n"

source, file = step("source", role="generator"), step("file", role="publisher")
folder = Workflow("folder").start_with(source).repeat_until(
    score >= 0.8, max_iterations=3, body=[judge, refine]
).finally_(file)
text = Workflow("text").start_with(source).repeat_until(
    score >= 0.8, max_iterations=3, body=[judge, lengthen]
).finally_(file)
own = Workflow("own").start_with(source).repeat_until(
    score >= 0.8, max_iterations=3, body=[judge, lengthen]
).finally_(step("file", role="publisher", options={"path": "a.md"}))
often = Workflow("often").start_with(source).repeat_until(
    score >= 0.8, max_iterations=4, body=[lengthen, judge, file]
).finally_(file)
"""


def write(folder: Path, files: Mapping[str, str | None]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        if text is None:
            (folder / name).unlink(missing_ok=True)
        else:
            (folder / name).write_text(text)


def texts(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.fixture(autouse=True)
def laid(home: Path) -> None:
    write(home, {"loop.py": LOOP, "a.md": "text\n", "src/a.md": "a\n", "src/b.md": "b\n", "src/c.md": "c\n"})


def test_what_the_run_left_as_it_was_is_not_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDDLE", json.dumps({"src/b.md": "a person", "src/c.md": None}))
    said = call("run", "src", "--workflow", "loop.py:folder", "--out", "src")
    assert said.code == 0, said.err
    assert texts(home / "src") == {"a.md": "better\n", "b.md": "a person", "new.md": "new\n"}


@pytest.mark.parametrize(
    ("meddling", "said"),
    [
        ({"src/a.md": "a person"}, "a.md was changed since the run began, and is left as it is"),
        ({"src/a.md": None}, "a.md was removed since the run began"),
        ({"src/new.md": "a person"}, "new.md was changed since the run began, and is left as it is"),
        ({"src/a.md": "a person", "src/new.md": "x"}, "a.md was changed since the run began, and is left as it is"),
    ],
)
@pytest.mark.parametrize("out", ["src", "./src/", "link/src", "."])
def test_a_folder_in_which_a_person_wrote_is_left_as_it_is(
    home: Path, meddling: dict[str, str | None], said: str, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "link").symlink_to(home)
    if out == ".":
        monkeypatch.chdir(home / "src")
    monkeypatch.setenv("MEDDLE", json.dumps(meddling))
    told = call("run", "." if out == "." else "src", "--workflow", f"{home}/loop.py:folder", "--out", out)
    assert told.code == 1, told
    assert said in told.err
    assert "redraft show " in told.err
    write(home / "expected", {"a.md": "a\n", "b.md": "b\n", "c.md": "c\n"})
    write(home / "expected", {name.removeprefix("src/"): text for name, text in meddling.items()})
    assert texts(home / "src") == texts(home / "expected")


@pytest.mark.parametrize("words", [("text", "--out", "a.md"), ("own",)])
@pytest.mark.parametrize("meddling", ["a person", None])
def test_a_file_in_which_a_person_wrote_is_left_as_it_is(
    home: Path, words: tuple[str, ...], meddling: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDDLE", json.dumps({"a.md": meddling}))
    workflow, *out = words
    said = call("run", "a.md", "--workflow", f"loop.py:{workflow}", *out)
    assert said.code == 1, said
    assert ((home / "a.md").read_text() if (home / "a.md").exists() else None) == meddling
    assert f"a.md was {'changed' if meddling else 'removed'} since the run began" in said.err
    assert call("show", "last", "--text").out == "text\nbetter\n"


def test_a_byte_order_mark_is_no_change(home: Path) -> None:
    (home / "a.md").write_bytes(b"\xef\xbb\xbftext\n")
    assert call("run", "a.md", "--workflow", "loop.py:text", "--out", "a.md").code == 0
    assert (home / "a.md").read_text() == "text\nbetter\n"


def test_what_the_run_itself_published_is_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEEDED", "3")
    said = call("run", "a.md", "--workflow", "loop.py:often", "--out", "a.md")
    assert said.code == 0, said.err
    assert (home / "a.md").read_text() == "text\n" + "better\n" * 3


def test_other_targets_are_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, {"out.md": "old", "out/a.md": "old", "out/b.md": "old"})
    monkeypatch.setenv("MEDDLE", json.dumps({"out.md": "x", "out/b.md": "x", "a.md": "a person"}))
    assert call("run", "a.md", "--workflow", "loop.py:text", "--out", "out.md").code == 0
    assert (home / "out.md").read_text() == "text\nbetter\n"
    assert call("run", "src", "--workflow", "loop.py:folder", "--out", "out").code == 0
    assert texts(home / "out") == {"a.md": "better\n", "b.md": "b\n", "c.md": "c\n", "new.md": "new\n"}
    assert (home / "a.md").read_text() == "a person"


def test_a_fork_writes_over_what_its_parent_published_only_where_out_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("run", "a.md", "--workflow", "loop.py:text", "--out", "a.md").code == 0
    monkeypatch.setenv("NEEDED", "2")
    said = call("fork", "last", "--at", "3")
    assert (said.code, (home / "a.md").read_text()) == (1, "text\nbetter\n")
    assert "a.md was changed since the run began" in said.err
    said = call("fork", "last", "--at", "3", "--out", "a.md")
    assert (said.code, (home / "a.md").read_text()) == (0, "text\nbetter\nbetter\n"), said.err
