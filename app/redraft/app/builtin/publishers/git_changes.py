"""Finds the files that a publication changes in a Git repository; refuses it where uncommitted work would be lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from redraft.app.builtin.publishers.git_repository import EXECUTABLE, PLAIN, SUBMODULE, Entry, GitRepository, Tracked
from redraft.events.errors import PermanentError, StepError
from redraft.events.messages.folders import File

Changes: TypeAlias = dict[str, File | None]
"""The files to write and commit, by path; None for a file that is removed."""


class _Place(msgspec.Struct, frozen=True):
    """A path: its file in the last commit, in the index and in the folder (None for none), and the folder's bytes."""

    committed: Entry | None
    staged: Entry | None
    there: Entry | None
    content: bytes | None

    def is_known(self) -> bool:
        """Returns whether git knows the file."""
        return self.committed is not None or self.staged is not None

    def is_clean(self) -> bool:
        """Returns whether index and folder have what the last commit has."""
        return self.committed == self.staged == self.there

    def is_already(self, file: File | None) -> bool:
        """Returns whether the folder has this file, and None if it has none, and the index no third version."""
        if file is None:
            return self.there is None and self.staged in (self.committed, None)
        mode = EXECUTABLE if file.executable else PLAIN
        same = self.there is not None and (self.content, self.there.mode) == (file.content, mode)
        return same and self.staged in (self.committed, self.there)


async def find_changes(
    git: GitRepository, after: Mapping[str, File], before: Mapping[str, File]
) -> tuple[Changes, dict[str, list[str]]]:
    """Returns the files to write and commit, and the paths of the draft that are left out, by the reason why.

    `after` are the files to publish, `before` those that the run began with: an untracked file may be as it was then.
    Left out is what git ignores, and what belongs to a repository within this one, if it is unchanged. Raises StepError
    for a file whose uncommitted changes would be lost, PermanentError where git ignores all of them.
    """
    tracked = await git.tracked()
    foreign = await asyncio.to_thread(_foreign, git.folder, tracked, {*after, *before})
    left = await asyncio.to_thread(_unchanged_elsewhere, git.folder, after, foreign)
    own = [path for path in sorted(after) if path not in foreign]
    ignored = await git.ignored(path for path in own if path not in tracked.staged)
    wanted: Changes = {path: after[path] for path in own if path not in ignored}
    if not wanted:
        raise PermanentError(f"git: {min(after)} is ignored (.gitignore); name another path, or change that file")
    wanted |= dict.fromkeys(path for path in sorted(before.keys() - after.keys()) if path not in foreign)
    there = await git.entries(list(wanted))
    changes: Changes = {}
    for path, file in wanted.items():
        content = await asyncio.to_thread((git.folder / path).read_bytes) if path in there else None
        place = _Place(tracked.committed.get(path), tracked.staged.get(path), there.get(path), content)
        if path in tracked.marked and await _is_committed(git, place, file):
            continue
        if fault := _why_lost(path, place, file, before.get(path), tracked):
            gone = "" if file is not None else ", which the draft has no more,"
            raise StepError(f"git: {path}{gone} {fault}")
        if file is not None or place.is_known():
            changes[path] = file
    reasons = {"git ignores them": sorted(ignored), "they are of repositories within this one": left}
    return changes, {why: paths for why, paths in reasons.items() if paths}


def _why_lost(path: str, place: _Place, file: File | None, before: File | None, tracked: Tracked) -> str:
    """Returns what would be lost by a change of this path, and the remedy; empty if nothing would be."""
    if path in tracked.conflicted:
        return "has a conflict; resolve it first"
    if path in tracked.marked:
        return f"is marked as unchanged; take that back: git update-index {_UNMARK} {path}"
    if place.is_already(file) or place.is_clean():
        return ""
    if not place.is_known() and (file is None or (before is not None and place.content == before.content)):
        return ""
    if place.is_known() and place.there is None:
        return "was taken out, and that is not committed; commit it first"
    return "has changes that are not committed; commit them first"


_UNMARK: Final = "--no-assume-unchanged --no-skip-worktree"


async def _is_committed(git: GitRepository, place: _Place, file: File | None) -> bool:
    """Returns whether the last commit has this file."""
    if file is None or place.committed is None:
        return False
    mode = EXECUTABLE if file.executable else PLAIN
    return place.committed.mode == mode and await git.content(place.committed) == file.content


def _foreign(folder: Path, tracked: Tracked, paths: Iterable[str]) -> dict[str, str]:
    """Returns the paths that belong to a repository, or a submodule, within this one, each with its folder."""
    tops: dict[str, bool] = {}

    def is_top(inner: str) -> bool:
        known = tracked.staged.get(inner) or tracked.committed.get(inner)
        return (known is not None and known.mode == SUBMODULE) or (folder / inner / ".git").exists()

    found: dict[str, str] = {}
    for path in paths:
        names = path.split("/")
        for inner in ("/".join(names[:count]) for count in range(1, len(names))):
            if inner not in tops:
                tops[inner] = is_top(inner)
            if tops[inner]:
                found[path] = inner
                break
    return found


def _unchanged_elsewhere(folder: Path, after: Mapping[str, File], foreign: Mapping[str, str]) -> list[str]:
    """Returns the files of other repositories that are as they are there. Raises StepError for one that is not."""
    paths = [path for path in sorted(after) if path in foreign]
    for path in paths:
        if not (folder / path).is_file() or (folder / path).read_bytes() != after[path].content:
            raise StepError(f"git: {path} belongs to the repository {foreign[path]}; publish it there")
    return paths
