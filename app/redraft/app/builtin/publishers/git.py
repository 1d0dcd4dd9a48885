"""The publisher `git`: a commit of the draft in a repository, made once however often it is asked for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.context import Context
from redraft.actors.workflow.roles import publisher
from redraft.app.builtin.publishers.files import (
    ContentOptions,
    check_files,
    content_of,
    naming,
    publication_key,
    write_files,
)
from redraft.app.builtin.publishers.git_changes import Changes, find_changes
from redraft.app.builtin.publishers.git_repository import GitRepository
from redraft.app.builtin.support.files import check_path, split_path
from redraft.app.builtin.support.options import RELEASE, read_options
from redraft.events.errors import PermanentError, StepError
from redraft.events.messages.content import Brief, Draft, Receipt
from redraft.events.messages.folders import FOLDER, File

TRAILER: Final = "Redraft-Key"
"""The trailer of a commit's message that holds the publication's idempotency key."""


class GitOptions(ContentOptions, frozen=True):
    """`path`: of the file, or of the folder for a draft of several files, relative to the repository.

    `repository`: its folder, relative to the output folder.
    `message` is the commit's first line, in which `{run}` is the run's id and `{version}` the number of the draft;
    `author` is `Name <address>`.
    """

    path: str = ""
    repository: str = "."
    message: str = "Publish draft {version} of run {run}"
    author: str = "Redraft <redraft@localhost>"


def git_publisher(root: Path) -> Actor:
    """The actor `git`, which commits the draft to a repository below `root`, on the branch that is checked out.

    Options: GitOptions. Only this file is committed, or, of a draft of several, its files in the folder `path` (`.`:
    the repository's own), without those of the brief that it has no more; what else is changed or staged stays as it
    is. A commit with the same key in its history is not made again, and one that would change nothing is not made. It
    does not push. Raises StepError, with nothing written, where uncommitted changes would be lost, and while a merge or
    the like is under way.
    """

    @publisher(name="git", version=RELEASE)
    async def commit(draft: Draft, brief: Brief, context: Context) -> Receipt:
        options = read_options(GitOptions, context.options, "git")
        if not options.path:
            raise PermanentError("git: no path is given; name the file in the repository that the draft is kept in")
        is_folder = draft.media_type == FOLDER and not options.whole
        text = draft.text if is_folder else content_of(draft, context, whole=options.whole)
        git = GitRepository(_repository(root, options.repository), context.timeout)
        line = f"{TRAILER}: {publication_key(draft, context, text)}"
        note = ""
        if not (known := await git.find_commit(line)):
            after, before = _contents(git.folder, options.path, draft, brief, text)
            await git.require_rest()
            changes, left = await find_changes(git, after, before)
            note = "".join(f"; left out, as {why}: {', '.join(paths[:10])}" for why, paths in left.items())
            await asyncio.to_thread(_write, git.folder, changes)
            known = await _commit(git, changes, _message(options, draft, context, line), options.author)
        return Receipt(f"{git.folder}@{known[:12]}:{options.path}", f"commit {known}, version {draft.version}{note}")

    return commit


def _contents(
    folder: Path, path: str, draft: Draft, brief: Brief, text: str
) -> tuple[dict[str, File], dict[str, File]]:
    """Returns the files to publish, by their paths in the repository, and those that the run began with."""
    if draft.media_type != FOLDER:
        with naming("git"):
            name = "/".join(check_path(path))
        executable = os.access(folder / name, os.X_OK)  # a text says nothing of it
        return {name: File(text.encode(), executable)}, {name: File(brief.text.encode())}
    with naming("git"):
        base = "" if path == "." else f"{'/'.join(check_path(path))}/"
    after, before = ({f"{base}{name}": file for name, file in each.files.items()} for each in (draft, brief))
    return after, before


def _write(folder: Path, changes: Changes) -> None:
    """Takes out and writes files, once it is known that all can be written. Raises PermanentError, StepError."""
    gone = [path for path, file in changes.items() if file is None]
    files = {path: file for path, file in changes.items() if file is not None}
    cleared = [path for path in files if _is_cleared(folder, path, set(gone))]
    inside = [path for path in files if any(path.startswith(f"{each}/") for each in gone)]
    check_files("git", folder, [*(path for path in files if path not in {*cleared, *inside}), *gone])
    for path in gone:
        (folder / path).unlink(missing_ok=True)
        _remove_empty(folder, path)
    for path in cleared:
        for above, _, _ in os.walk(folder / path, topdown=False):
            Path(above).rmdir()
    write_files("git", folder, files)


def _is_cleared(folder: Path, path: str, gone: Collection[str]) -> bool:
    """Returns whether a folder stands in a file's place, all of whose files are taken out.

    Raises StepError if there are others.
    """
    if not (folder / path).is_dir() or (folder / path).is_symlink():
        return False
    inside = [each.relative_to(folder).as_posix() for each in (folder / path).rglob("*") if not each.is_dir()]
    if others := [each for each in inside if each not in gone]:
        raise StepError(f"git: {path} is a folder with other files in it ({others[0]}); move them away")
    return bool(inside)


def _remove_empty(folder: Path, path: str) -> None:
    """Removes the folders in which a file was the last one."""
    above = (folder / path).parent
    with suppress(OSError):
        while above != folder:
            above.rmdir()
            above = above.parent


async def _commit(git: GitRepository, changes: Changes, message: str, author: str) -> str:
    """Commits what was written; returns the last commit, also where it has all that already."""
    entries = await git.entries([path for path, file in changes.items() if file is not None], keep=True)
    staged = {path: entries.get(path) for path in changes}
    name, _, address = author.rstrip(">").partition(" <")
    await git.stage(staged)
    return await git.commit(staged, message, name, address or "redraft@localhost")


def _message(options: GitOptions, draft: Draft, context: Context, line: str) -> str:
    subject = options.message.replace("{run}", context.run).replace("{version}", str(draft.version))
    return f"{subject.splitlines()[0] if subject.strip() else 'Publish'}\n\n{line}\n"


def _repository(root: Path, folder: str) -> Path:
    parts = () if folder in ("", ".") else split_path(folder)
    found = root.joinpath(*parts)
    if found.resolve() != root.resolve().joinpath(*parts) or (found / ".git").is_symlink():
        raise PermanentError(f"git: {found} leads elsewhere through a symbolic link; name the repository itself")
    if (found / ".git").exists():
        return found
    top = next((each for each in found.resolve().parents if (each / ".git").exists()), None)
    if top is not None and found.is_dir():
        remedy = "start Redraft there, and name the folder in path"
        raise PermanentError(f"git: {found} lies in the repository {top}; {remedy}")
    remedy = "make one with `git init`, or correct the option repository"
    raise PermanentError(f"git: {found} is not a repository; {remedy}")
