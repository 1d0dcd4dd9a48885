"""`redraft files --write` where a person, or another program, does something to a file while it is refined."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import pytest
from tests.app.cli_calls import call

MEDDLING = """
import os
from pathlib import Path
from redraft.actors import Critique, Workflow, critic, refiner, score, step

def _folder(): os.remove("a.md"); os.mkdir("a.md")
def _link(): os.remove("a.md"); os.symlink("other.md", "a.md")
def _pipe(): os.remove("a.md"); os.mkfifo("a.md")

MEDDLE = {
    "changed": lambda: Path("a.md").write_text("first\\na person wrote this"),
    "removed": lambda: os.remove("a.md"),
    "moved": lambda: os.rename("a.md", "other.md"),
    "folder": _folder,
    "link": _link,
    "pipe": _pipe,
    "read-only": lambda: os.chmod("a.md", 0o444),
    "full": lambda: None,
}

@critic
def judge(draft):
    return Critique(0.9 if "better" in draft.text else 0.2)

@refiner
def meddle(draft):
    if draft.text.startswith("first"):
        MEDDLE[os.environ["MEDDLE"]]()
    return draft.text + "better\\n"

meddling = (
    Workflow("meddling")
    .start_with(step("source", role="generator"))
    .repeat_until(score >= 0.8, max_iterations=2, body=[judge, meddle])
)
"""


def lay(path: Path) -> tuple[int, str | bytes | None]:
    """What lies at a path: its kind and mode, and its content or where it leads."""
    if not os.path.lexists(path):
        return 0, None
    mode = path.lstat().st_mode
    if path.is_symlink():
        return mode, str(path.readlink())
    return mode, path.read_bytes() if path.is_file() else None


@pytest.mark.parametrize(
    ("meddle", "why"),
    [
        ("changed", "it was changed while it was refined; call the command again"),
        ("removed", "it was removed while it was refined"),
        ("moved", "it was removed while it was refined"),
        ("folder", "this is not a plain file"),
        ("link", "this is not a plain file"),
        ("pipe", "this is not a plain file"),
        ("read-only", "it is read-only; make it writable"),
        ("full", "No space left on device; check its folder's permissions and free space"),
    ],
)
def test_a_file_that_cannot_be_written_has_a_line_and_the_others_are_written(
    home: Path, meddle: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "meddling.py").write_text(MEDDLING)
    (home / "other.md").write_text("another's\n")
    for name, text in (("a.md", "first\n"), ("b.md", "second\n"), ("c.md", "third\n")):
        (home / name).write_text(text)
    monkeypatch.setenv("MEDDLE", meddle)
    if meddle == "full":
        fsync, left = os.fsync, [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))]

        def sync(file: int) -> None:
            if left:
                raise left.pop()
            fsync(file)

        monkeypatch.setattr("redraft.app.process.files.os.fsync", sync)
    said = call("files", "--write", "--json", "--github", "a.md", "b.md", "c.md", "-w", "meddling.py:meddling")
    assert said.code == 1, said
    assert "Traceback" not in said.err
    written, *notes = said.out.splitlines()
    one, *others = json.loads(written)["files"]
    assert (one["file"], one["outcome"], one["written"], one["is_below"]) == ("a.md", "accepted", False, True)
    assert one["fault"].startswith(why)
    assert notes[0].startswith(f"::error file=a.md,title=Redraft::left as it is: {why}")
    for each, text in zip(others, ("second\n", "third\n"), strict=True):
        assert (each["written"], each["is_below"], each["fault"]) == (True, False, "")
        assert (home / each["file"]).read_text() == f"{text}better\n"
    there = {"changed": "first\na person wrote this", "read-only": "first\n", "full": "first\n"}
    mode, content = lay(home / "a.md")
    assert content == (there[meddle].encode() if meddle in there else {"link": "other.md"}.get(meddle))
    assert mode or meddle in ("removed", "moved")
    assert (home / "other.md").read_text() == ("first\n" if meddle == "moved" else "another's\n")
    assert not list(home.glob(".a.md*"))


def test_files_that_are_left_as_they_are_are_told_of_in_words(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "meddling.py").write_text(MEDDLING)
    for name, text in (("a.md", "first\n"), ("b.md", "second\n")):
        (home / name).write_text(text)
    monkeypatch.setenv("MEDDLE", "changed")
    said = call("files", "--write", "a.md", "b.md", "-w", "meddling.py:meddling", "--min-score", "0.1")
    assert said.code == 1
    first, second = said.out.splitlines()
    assert re.fullmatch(
        r"a\.md: left as it is: it was changed while it was refined; call the command again; "
        r"refined it has 0\.90 \(run \w+\)",
        first,
    )
    assert second.startswith("b.md: score 0.90, written; it was 0.20 (run ")
    assert said.err.endswith("2 files, 0 below 0.1, 1 written, 1 left as it is\n")
