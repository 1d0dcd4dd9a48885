"""A Git repository: the files of its last commit, its index and its folder, and a commit of some files in it.

Files are compared by their content, not by `git status`, which passes over files that are marked
(`update-index --assume-unchanged`, `--skip-worktree`) and over repositories within the repository.
"""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from redraft.app.builtin.support.process import Finished, run_process
from redraft.events.errors import StepError

_MOST: Final = 256 * 1024 * 1024
"""The most bytes of a list of files that are read from git."""

_UNDER_WAY: Final = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}
"""The files and folders of `.git` that exist during an unfinished operation, with the name of that operation."""

_LOCKS: Final = ("index.lock", "HEAD.lock")

PLAIN: Final = "100644"
EXECUTABLE: Final = "100755"
SUBMODULE: Final = "160000"


class Entry(msgspec.Struct, frozen=True):
    """A file as git keeps it: its mode, and the id of its content."""

    mode: str
    content: str


class Tracked(msgspec.Struct, frozen=True):
    """The files of the last commit and of the index, by path, and which of the index are marked as unchanged."""

    committed: dict[str, Entry]
    staged: dict[str, Entry]
    marked: frozenset[str]
    conflicted: frozenset[str]


class GitRepository:
    """Calls git in one repository. No hook, editor, prompt or configuration of the user's takes part.

    Each call has `timeout` seconds.
    """

    def __init__(self, folder: Path, timeout: float) -> None:
        self.folder = folder
        self._timeout = timeout
        self._environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_LITERAL_PATHSPECS": "1",
        }

    async def find_commit(self, line: str) -> str:
        """Returns the commit with this line in its message; empty when there is none."""
        grep = ("log", "--format=%H", "--max-count=1", "--fixed-strings", f"--grep={line}")
        return _text(await self.call(*grep, codes=(0, 128))).strip()

    async def require_rest(self) -> None:
        """Raises StepError during an unfinished merge, rebase or the like, and while another git process works here."""
        names = [*_UNDER_WAY, *_LOCKS]
        found = await self.call("rev-parse", *(part for name in names for part in ("--git-path", name)))
        there = [name for name, path in zip(names, _text(found).splitlines(), strict=True) if self._has(path)]
        for name in there:
            if name in _LOCKS:
                raise StepError(f"git: another git works here, or was ended ({name}); wait for it, or remove that file")
            raise StepError(f"git: {_UNDER_WAY[name]} is under way here; finish it, or abort it")

    def _has(self, path: str) -> bool:
        return (self.folder / path).exists()

    async def tracked(self) -> Tracked:
        """Returns the files that git knows."""
        committed = await self.call("ls-tree", "-r", "-z", "--full-tree", "HEAD", codes=(0, 128), limit=_MOST)
        staged = await self.call("ls-files", "--stage", "-z", limit=_MOST)
        tagged = await self.call("ls-files", "-v", "-z", limit=_MOST)
        entries, conflicted = {}, set()
        for head, path in (line.split("\t", 1) for line in _parts(staged)):
            mode, content, stage = head.split(" ")
            entries[path] = Entry(mode, content)
            conflicted.update([path] if stage != "0" else [])
        marked = frozenset(line[2:] for line in _parts(tagged) if line[0] == "S" or line[0].islower())
        return Tracked(dict(map(_committed, _parts(committed))), entries, marked, frozenset(conflicted))

    async def ignored(self, paths: Iterable[str]) -> set[str]:
        """Returns those of the paths that git ignores and does not know."""
        named = "\0".join(f"./{path}" for path in paths)  # a path that begins with a colon would be a pattern
        literal = {"GIT_LITERAL_PATHSPECS": "0"}
        listed = await self.call("check-ignore", "-z", "--stdin", codes=(0, 1), stdin=named, more=literal)
        return {each[2:] for each in _parts(listed)}

    async def entries(self, paths: Sequence[str], *, keep: bool = False) -> dict[str, Entry]:
        """Returns the plain files at these paths in the folder, as git would keep them; `keep`: it does."""
        there = [path for path in paths if (self.folder / path).is_file() and not (self.folder / path).is_symlink()]
        arguments = ("hash-object", *(("-w",) if keep else ()), "--stdin-paths")
        hashed = await self.call(*arguments, stdin="".join(f"{_quoted(path)}\n" for path in there), limit=_MOST)
        modes = await asyncio.to_thread(lambda: [_mode_of(self.folder / path) for path in there])
        return {
            path: Entry(mode, content)
            for path, mode, content in zip(there, modes, _text(hashed).splitlines(), strict=True)
        }

    async def content(self, entry: Entry) -> bytes:
        """Returns what git keeps of a file."""
        return (await self.call("cat-file", "blob", entry.content, limit=_MOST)).stdout

    async def stage(self, changes: Mapping[str, Entry | None]) -> None:
        """Puts these files, and None for those that are gone, into the index."""
        await self._index(changes, {})

    async def commit(self, changes: Mapping[str, Entry | None], message: str, name: str, address: str) -> str:
        """Returns the commit of these changes, and of nothing else that is staged, on top of the last one.

        Where they change nothing it is the last one.
        """
        head = _text(await self.call("rev-parse", "--verify", "--quiet", "HEAD", codes=(0, 1))).strip()
        with tempfile.TemporaryDirectory(prefix="redraft-") as scratch:
            index = {"GIT_INDEX_FILE": str(Path(scratch, "index"))}
            await self.call("read-tree", head or "--empty", more=index)
            await self._index(changes, index)
            tree = _text(await self.call("write-tree", more=index)).strip()
        if head and tree == _text(await self.call("rev-parse", f"{head}^{{tree}}")).strip():
            return head
        people = {f"GIT_{who}_{what}": said for who in ("AUTHOR", "COMMITTER") for what, said in _said(name, address)}
        made = await self.call(
            *("commit-tree", tree, *(("-p", head) if head else ()), "-F", "-"), stdin=message, more=people
        )
        commit = _text(made).strip()
        log = f"commit: {message.splitlines()[0]}"
        await self.call("update-ref", "-m", log, "HEAD", commit, head, more=people)
        return commit

    async def _index(self, changes: Mapping[str, Entry | None], more: Mapping[str, str]) -> None:
        gone = "".join(f"{path}\0" for path, entry in changes.items() if entry is None)
        kept = "".join(f"{each.mode} {each.content}\t{path}\0" for path, each in changes.items() if each is not None)
        if gone:
            await self.call("update-index", "-z", "--force-remove", "--stdin", stdin=gone, more=more)
        if kept:
            await self.call("update-index", "-z", "--index-info", stdin=kept, more=more)

    async def call(
        self,
        *arguments: str,
        codes: tuple[int, ...] = (0,),
        stdin: str = "",
        more: Mapping[str, str] | None = None,
        limit: int = 1024 * 1024,
    ) -> Finished:
        """Returns the output of git, of at most `limit` bytes; `more` is added to its environment.

        Raises StepError when it fails, PermanentError when there is no git.
        """
        off = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "commit.gpgSign=false", "core.safecrlf=false")
        done = await run_process(
            ("git", *(part for each in off for part in ("-c", each)), *arguments),
            timeout=self._timeout,
            cwd=self.folder,
            env={**self._environment, **(more or {})},
            stdin=stdin.encode(errors="surrogateescape"),
            output_limit=limit,
        )
        if done.truncated:
            raise StepError(f"git {arguments[0]}: it printed more than {limit:,} bytes; use a smaller repository")
        if done.timed_out or done.code not in codes:
            raise StepError(f"git {arguments[0]}: {_reason(done)}")
        return done


def _reason(done: Finished) -> str:
    """Returns the line of git's output that says what is wrong; its hints follow that."""
    lines = [line for line in done.stderr.decode(errors="replace").splitlines() if not line.startswith("hint:")]
    said = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return next(iter([*said, *lines]), f"exit code {done.code}").strip()


def _said(name: str, address: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("NAME", name), ("EMAIL", address)


def _text(done: Finished) -> str:
    return done.stdout.decode(errors="surrogateescape")


def _parts(done: Finished) -> list[str]:
    return [part for part in _text(done).split("\0") if part]


def _committed(line: str) -> tuple[str, Entry]:
    head, path = line.split("\t", 1)
    mode, _, content = head.split(" ")
    return path, Entry(mode, content)


def _quoted(path: str) -> str:
    """Returns a path as git reads it from a line."""
    return '"{}"'.format(path.replace('"', '\\"')) if path.startswith('"') else path


def _mode_of(file: Path) -> str:
    return EXECUTABLE if file.stat().st_mode & stat.S_IXUSR else PLAIN
