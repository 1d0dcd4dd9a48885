"""Functions that work on a copy of a draft's files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from redraft.actors.checkout import folder_text
from redraft.actors.runtime.working.call import Call
from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.roles import critic, generator, refiner
from redraft.events.messages.commands import (
    Critiqued,
    CritiqueDraft,
    Failed,
    Generate,
    Generated,
    Refine,
    Refined,
    Request,
)
from redraft.events.messages.content import Brief, Critique, Draft, Edit, Revision, new_draft
from redraft.events.messages.folders import FOLDER, print_folder, read_folder

TEXT = print_folder({"a.py": "x = 1\n", "b.py": "x = 1\ny = 2\n", "c.bin": b"\0"})
DRAFT = new_draft(1, TEXT, FOLDER)
BRIEF = Brief(TEXT, FOLDER)


async def outcome_of(actor: Actor, draft: Draft = DRAFT) -> object:
    request = Request("r/p#1", "r", "p", actor.name, 1, 20.0, BRIEF)
    work = {
        "critic": lambda: CritiqueDraft(request, draft),
        "refiner": lambda: Refine(request, draft, Critique(0.5)),
        "generator": lambda: Generate(request),
    }[actor.role]()
    ended = asyncio.Event()
    call = Call(actor, work, ended.set)
    await ended.wait()
    return call.outcome()


async def changed(function: Callable[..., object], draft: Draft = DRAFT) -> Refined | Failed:
    outcome = await outcome_of(refiner(name="mend")(function), draft)
    assert isinstance(outcome, Refined | Failed)
    return outcome


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_refiner_changes_its_own_copy_and_gives_it_back(is_async: bool) -> None:
    seen: list[Path] = []

    def change(folder: Path) -> Path:
        seen.append(folder)
        assert (folder / "c.bin").read_bytes() == b"\0"
        (folder / "a.py").write_text("x = 3\n")
        (folder / "b.py").unlink()
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__" / "a.pyc").write_bytes(b"\0")
        (folder / "new").mkdir()
        (folder / "new" / "d.py").write_text("z = 1")
        return folder

    async def change_async(draft: Draft, folder: Path) -> Path:
        return change(folder)

    def change_sync(draft: Draft, folder: Path) -> Path:
        return change(folder)

    outcome = await changed(change_async if is_async else change_sync)
    assert isinstance(outcome, Refined)
    assert outcome.text == print_folder({"a.py": "x = 3\n", "c.bin": b"\0", "new/d.py": "z = 1"})
    end = time.monotonic() + 60
    while seen[0].parent.exists() and time.monotonic() < end:  # noqa: ASYNC110 - a thread removes it
        await asyncio.sleep(0.01)
    assert not seen[0].parent.exists()


async def test_a_critic_judges_its_own_copy() -> None:
    @critic
    def count(draft: Draft, folder: Path) -> Critique:
        (folder / "a.py").unlink()
        return Critique(1.0, details={"files": len(draft.files), "left": len([*folder.iterdir()])})

    outcome = await outcome_of(count)
    assert isinstance(outcome, Critiqued)
    assert outcome.critique.details == {"files": 3, "left": 2}


async def test_a_folder_with_words_about_it_is_a_revision() -> None:
    def mend(draft: Draft, folder: Path) -> Revision:
        (folder / "a.py").write_text("x = 4\n")
        return Revision(folder_text(folder), changes=("mended a",))

    outcome = await changed(mend)
    assert isinstance(outcome, Refined)
    assert (read_folder(outcome.text)["a.py"].text, outcome.changes) == ("x = 4\n", ("mended a",))


async def test_a_link_in_the_copy_is_no_draft() -> None:
    def link(draft: Draft, folder: Path) -> Path:
        (folder / "secret").symlink_to("/etc/passwd")
        return folder

    outcome = await changed(link)
    assert isinstance(outcome, Failed)
    assert outcome.message == "mend secret: this is a symbolic link; put the file itself there"


async def test_of_a_draft_that_is_one_text_there_is_no_copy() -> None:
    outcome = await changed(lambda draft, folder: folder, new_draft(1, "text"))
    assert isinstance(outcome, Failed)
    assert outcome.message == "mend takes a folder, and the draft is not one of several files"
    assert not outcome.retryable


async def test_an_edit_names_its_file() -> None:
    outcome = await changed(lambda draft: Revision(edits=(Edit("x = 1", "x = 5", file="b.py"),)))
    assert isinstance(outcome, Refined)
    assert read_folder(outcome.text)["b.py"].text == "x = 5\ny = 2\n"
    assert read_folder(outcome.text)["a.py"].text == "x = 1\n"
    assert outcome.edits == (Edit("x = 1", "x = 5", file="b.py"),)


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (Edit("x = 1", "x = 5"), "in the draft more than once"),
        (Edit("x = 1", "x = 5", file="c.py"), "'c.py', which is no file of the draft"),
        (Edit("y = 2", "x = 5", file="a.py"), "not in a.py"),
        (Edit("b.py\nx = 1", "x = 5", file="a.py"), "not in a.py"),
        (Edit("x = 1", "x = 5\n=== z.py\nevil", file="a.py"), "begins a line with `=== `"),
        (Edit("x = 1\n", "x = 5", file="a.py"), "takes its last line end"),
        (Edit("\n", "", file="a.py"), "takes its last line end"),
        (Edit("=== a.py\n", "=== ../../a.py\n"), "leads elsewhere"),
        (Edit("=== a.py\n", "=== .git/config\n"), "hidden"),
        (Edit("=== a.py\n", ""), "begins with a line such as"),
    ],
)
async def test_an_edit_that_does_not_apply_or_makes_no_folder_fails(edit: Edit, fault: str) -> None:
    outcome = await changed(lambda draft: Revision(edits=(edit,)))
    assert isinstance(outcome, Failed)
    assert fault in outcome.message


@pytest.mark.parametrize(
    "edits",
    [
        (Edit("\\===", "===", file="a.md"),),
        (Edit("\\", "", file="a.md"),),
        (Edit("two", "=", file="a.md"),),
        (Edit("two", "=", file="a.md"), Edit("== three", "== c", file="a.md")),
        (Edit("one\n", "one\n=", file="a.md"), Edit("\\", "", file="a.md")),
    ],
)
async def test_no_edit_of_one_file_begins_another(edits: tuple[Edit, ...]) -> None:
    draft = new_draft(1, print_folder({"a.md": "one\n=== b.md\ntwo== three\n", "z.md": "z\n"}), FOLDER)
    outcome = await changed(lambda draft: Revision(edits=edits), draft)
    if isinstance(outcome, Refined):
        assert [*read_folder(outcome.text)] == ["a.md", "z.md"]
    else:
        assert "begin" in outcome.message


async def test_a_file_that_an_edit_renames_goes_to_its_place() -> None:
    outcome = await changed(lambda draft: Revision(edits=(Edit("=== a.py\n", "=== z.py\n"),)))
    assert isinstance(outcome, Refined)
    assert [*read_folder(outcome.text)] == ["b.py", "c.bin", "z.py"]
    assert outcome.edits == ()


async def test_what_a_generator_writes_is_put_in_order_or_refused() -> None:
    @generator
    def write(brief: Brief) -> str:
        return "=== b.py\ny = 2\n=== a.py\nx = 1"

    @generator(name="write")
    def plain(brief: Brief) -> str:
        return "x = 1\n"

    good, bad = await outcome_of(write), await outcome_of(plain)
    assert isinstance(good, Generated)
    assert good.text == print_folder({"a.py": "x = 1\n", "b.py": "y = 2\n"})
    assert isinstance(bad, Failed)
    assert "returned no draft of several files" in bad.message
