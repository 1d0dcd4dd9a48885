"""The publisher `git` with drafts of several files: what it commits, and that no uncommitted work is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.app.builtin.carrying_out import fault_of, folder, receipt_of

from redraft.app.builtin.publishers.files import file_publisher
from redraft.app.builtin.publishers.git import git_publisher
from redraft.events.messages.content import Draft
from redraft.events.messages.folders import File


def git(where: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(where), *arguments], capture_output=True, text=True, check=True).stdout


async def test_a_commit_has_the_files_and_leaves_out_those_that_are_gone(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    publisher = git_publisher(tmp_path)
    before = folder({"a.py": "x = 1\n", "old.py": "x\n"})
    first = await receipt_of(publisher, before, before, path="src")
    draft = folder({"a.py": "x = 2\n", "b/c.py": "y = 1\n"}, 2)
    (tmp_path / "mine").write_text("mine")
    git(tmp_path, "add", "mine")
    second = await receipt_of(publisher, draft, before, path="src")
    assert second != first
    assert await receipt_of(publisher, draft, before, path="src") == second
    assert git(tmp_path, "ls-tree", "-r", "--name-only", "HEAD").split() == ["src/a.py", "src/b/c.py"]
    assert git(tmp_path, "status", "--porcelain") == "A  mine\n"
    (tmp_path / "src" / "a.py").write_text("somebody's")
    gone = folder({"b/c.py": "y = 1\n"}, 3)
    assert "src/a.py, which the draft has no more, has changes" in await fault_of(publisher, gone, draft, path="src")
    assert (tmp_path / "src" / "a.py").read_text() == "somebody's"
    git(tmp_path, "checkout", "-q", "src/a.py")
    (tmp_path / "src" / "new").mkdir()
    there = folder({"new": "x\n", "z.py": "z = 1\n"}, 5)
    assert "new" in await fault_of(publisher, there, draft, path="src")
    assert git(tmp_path, "status", "--porcelain") == "A  mine\n", "nothing was taken out or written"
    (tmp_path / "src" / "new").rmdir()
    await receipt_of(publisher, folder({"z.py": "z = 1\n"}, 4), draft, path=".")
    assert git(tmp_path, "ls-tree", "-r", "--name-only", "HEAD").split() == ["src/a.py", "src/b/c.py", "z.py"]


@pytest.fixture
async def repository(tmp_path: Path) -> Draft:
    """A repository with a package, as a draft."""
    git(tmp_path, "init", "-q")
    before = folder({"a.py": "a = 1\n", "b.py": "b = 1\n"})
    await receipt_of(git_publisher(tmp_path), before, before, path="pkg")
    return before


async def test_no_changes_that_are_not_committed_are_lost(tmp_path: Path, repository: Draft) -> None:
    publisher, file = git_publisher(tmp_path), tmp_path / "pkg" / "a.py"
    file.write_text("a = 1\nm1\n")
    git(tmp_path, "add", "pkg/a.py")
    file.write_text("a = 1\nm1\nm2\n")
    status = git(tmp_path, "status", "--porcelain")
    draft = folder({"a.py": "a = 2\n", "b.py": "b = 2\n"}, 2)
    said = await fault_of(publisher, draft, repository, path="pkg")
    assert said == "git: pkg/a.py has changes that are not committed; commit them first"
    assert (file.read_text(), git(tmp_path, "status", "--porcelain")) == ("a = 1\nm1\nm2\n", status)
    as_it_is = folder({"a.py": "a = 1\nm1\nm2\n", "b.py": "b = 2\n"}, 3)
    assert await fault_of(publisher, as_it_is, repository, path="pkg") == said, "what is staged would be nowhere"
    git(tmp_path, "add", "pkg/a.py")
    await receipt_of(publisher, as_it_is, repository, path="pkg")
    assert git(tmp_path, "show", "HEAD:pkg/a.py") == "a = 1\nm1\nm2\n"
    (tmp_path / "pkg" / "new.py").write_text("theirs\n")
    other = folder({"a.py": "a = 1\nm1\nm2\n", "new.py": "ours\n"}, 4)
    assert "pkg/new.py has changes" in await fault_of(publisher, other, as_it_is, path="pkg")
    began = folder({"a.py": "a = 1\nm1\nm2\n", "new.py": "theirs\n"}, 3)
    await receipt_of(publisher, other, began, path="pkg")
    assert git(tmp_path, "show", "HEAD:pkg/new.py") == "ours\n"


Spoil: TypeAlias = Callable[[Path], object]


def _chmod(top: Path) -> None:
    (top / "pkg" / "b.py").chmod(0o755)


def _mark(top: Path, how: str) -> None:
    git(top, "update-index", how, "pkg/b.py")
    (top / "pkg" / "b.py").write_text("a password\n")


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (partial(_mark, how="--assume-unchanged"), "is marked as unchanged; take that back: git update-index --no"),
        (partial(_mark, how="--skip-worktree"), "is marked as unchanged; take that back: git update-index --no"),
        (_chmod, "has changes that are not committed; commit them first"),
        (lambda top: git(top, "rm", "-q", "pkg/b.py"), "was taken out, and that is not committed"),
        (lambda top: git(top, "rm", "-q", "--cached", "pkg/b.py"), "has changes that are not committed"),
        (lambda top: (top / "pkg" / "b.py").unlink(), "was taken out, and that is not committed; commit it first"),
    ],
    ids=["assume-unchanged", "skip-worktree", "chmod", "rm", "rm cached", "gone"],
)
async def test_what_git_status_does_not_tell_is_not_lost_either(
    tmp_path: Path, repository: Draft, spoil: Spoil, fault: str
) -> None:
    spoil(tmp_path)
    before = state_of(tmp_path)
    draft = folder({"a.py": "a = 2\n", "b.py": "b = 2\n"}, 2)
    assert f"git: pkg/b.py {fault}" in await fault_of(git_publisher(tmp_path), draft, repository, path="pkg")
    assert state_of(tmp_path) == before


def state_of(top: Path) -> tuple[object, ...]:
    """All of a repository that a publication may change."""
    files = {each: (each.read_bytes(), each.stat().st_mode) for each in (top / "pkg").rglob("*") if each.is_file()}
    return files, git(top, "ls-files", "-s"), git(top, "rev-parse", "HEAD")


@pytest.mark.parametrize("how", ["--assume-unchanged", "--skip-worktree"])
async def test_a_marked_file_that_the_draft_left_alone_keeps_what_it_has(tmp_path: Path, repository: Draft, how: str):
    _mark(tmp_path, how)
    draft = folder({"a.py": "a = 2\n", "b.py": "b = 1\n"}, 2)
    await receipt_of(git_publisher(tmp_path), draft, repository, path="pkg")
    assert git(tmp_path, "show", "HEAD:pkg/a.py") == "a = 2\n"
    assert (tmp_path / "pkg" / "b.py").read_text() == "a password\n"


async def test_a_repository_within_the_repository_is_left_alone(tmp_path: Path, repository: Draft):
    inner = tmp_path / "pkg" / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "x.py").write_text("work\n")
    publisher, own = git_publisher(tmp_path), {"a.py": "a = 2\n", "b.py": "b = 1\n"}
    changed = folder({**own, "inner/x.py": "x = 1\n"}, 2)
    said = await fault_of(publisher, changed, repository, path="pkg")
    assert said == "git: pkg/inner/x.py belongs to the repository pkg/inner; publish it there"
    receipt = await receipt_of(publisher, folder({**own, "inner/x.py": "work\n"}, 3), repository, path="pkg")
    assert "left out, as they are of repositories within this one: pkg/inner/x.py" in receipt
    assert (inner / "x.py").read_text() == "work\n"
    assert git(tmp_path, "ls-tree", "-r", "--name-only", "HEAD").split() == ["pkg/a.py", "pkg/b.py"]


async def test_a_file_becomes_a_folder_and_a_folder_a_file(tmp_path: Path, repository: Draft):
    publisher = git_publisher(tmp_path)
    deep = folder({"a.py/k.txt": "k\n", "b.py": "b = 1\n"}, 2)
    await receipt_of(publisher, deep, repository, path="pkg")
    assert git(tmp_path, "ls-tree", "-r", "--name-only", "HEAD").split() == ["pkg/a.py/k.txt", "pkg/b.py"]
    (tmp_path / "pkg" / "a.py" / "theirs").write_text("theirs\n")
    shallow = folder({"a.py": "a = 3\n", "b.py": "b = 1\n"}, 3)
    said = await fault_of(publisher, shallow, deep, path="pkg")
    assert said == "git: pkg/a.py is a folder with other files in it (pkg/a.py/theirs); move them away"
    (tmp_path / "pkg" / "a.py" / "theirs").unlink()
    (tmp_path / "pkg" / "a.py" / "empty").mkdir()
    await receipt_of(publisher, shallow, deep, path="pkg")
    assert git(tmp_path, "show", "HEAD:pkg/a.py") == "a = 3\n"
    assert git(tmp_path, "status", "--porcelain") == ""


async def test_nothing_is_written_while_git_is_in_the_middle_of_something(tmp_path: Path, repository: Draft):
    git(tmp_path, "checkout", "-q", "-b", "other")
    (tmp_path / "pkg" / "a.py").write_text("a = 9\n")
    git(tmp_path, "commit", "-q", "-a", "-m", "theirs")
    git(tmp_path, "checkout", "-q", "-")
    git(tmp_path, "merge", "-q", "--no-commit", "--no-ff", "other")
    before, draft = state_of(tmp_path), folder({"a.py": "a = 9\n", "b.py": "b = 2\n"}, 2)
    said = await fault_of(git_publisher(tmp_path), draft, repository, path="pkg")
    assert said == "git: a merge is under way here; finish it, or abort it"
    assert state_of(tmp_path) == before
    git(tmp_path, "merge", "--abort")
    (tmp_path / ".git" / "index.lock").touch()
    assert "another git works here" in await fault_of(git_publisher(tmp_path), draft, repository, path="pkg")
    (tmp_path / ".git" / "index.lock").unlink()
    inner = git_publisher(tmp_path / "pkg")
    said = await fault_of(inner, draft, repository, path=".")
    assert f"lies in the repository {tmp_path}; start Redraft there" in said


async def test_a_publication_that_was_cut_off_is_made_again(tmp_path: Path, repository: Draft) -> None:
    draft = folder({"a.py": "a = 2\n", "c.py": "c = 1\n"}, 2)
    git(tmp_path, "rm", "-q", "pkg/b.py")
    (tmp_path / "pkg" / "a.py").write_text("a = 2\n")
    git(tmp_path, "add", "pkg/a.py")
    await receipt_of(git_publisher(tmp_path), draft, repository, path="pkg")
    assert git(tmp_path, "ls-tree", "-r", "--name-only", "HEAD").split() == ["pkg/a.py", "pkg/c.py"]
    assert git(tmp_path, "status", "--porcelain") == ""


async def test_what_git_does_not_know_or_ignores_is_not_committed(tmp_path: Path, repository: Draft) -> None:
    publisher = git_publisher(tmp_path)
    (tmp_path / "pkg" / "untracked.py").write_text("u\n")
    began = folder({"a.py": "a = 1\n", "b.py": "b = 1\n", "untracked.py": "u\n"})
    draft = folder({"a.py": "a = 2\n", "b.py": "b = 1\n", "x.log": "l\n"}, 2)
    (tmp_path / ".gitignore").write_text("*.log\n:odd\n")
    assert "left out, as git ignores them: pkg/x.log" in await receipt_of(publisher, draft, began, path="pkg")
    assert git(tmp_path, "ls-tree", "-r", "--name-only", "HEAD").split() == ["pkg/a.py", "pkg/b.py"]
    assert git(tmp_path, "status", "--porcelain") == "?? .gitignore\n?? pkg/untracked.py\n"
    assert not (tmp_path / "pkg" / "x.log").exists()
    said = await fault_of(publisher, folder({"y.log": "l\n"}, 3), draft, path="pkg")
    assert said == "git: pkg/y.log is ignored (.gitignore); name another path, or change that file"
    assert (tmp_path / "pkg" / "a.py").exists()


async def test_a_file_may_be_executed_or_not_as_the_draft_says(tmp_path: Path, repository: Draft) -> None:
    run = File(b"a = 1\n", executable=True)
    await receipt_of(git_publisher(tmp_path), folder({"a.py": run, "b.py": "b = 1\n"}, 2), repository, path="pkg")
    assert git(tmp_path, "ls-files", "-s", "pkg/a.py").startswith("100755")
    (tmp_path / "pkg" / "a.py").chmod(0o750)
    await receipt_of(file_publisher(tmp_path), repository, repository, path="pkg")
    assert (tmp_path / "pkg" / "a.py").stat().st_mode & 0o777 == 0o640
