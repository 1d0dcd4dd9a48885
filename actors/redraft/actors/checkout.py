"""Copies of a draft's files on disk: checked out into a new folder, and read back from one."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self

from redraft.events.errors import ContentError, StepError
from redraft.events.messages.folders import MOST_FILES, File, check_paths, path_fault, print_folder

MOST_BYTES: Final = 64 * 1024 * 1024
"""The largest number of bytes that is read of a folder, whatever else limits a draft."""

_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules", "venv", "redraft.toml"})
_LEFT_OUT_ENDS: Final = (".pyc", ".pyo", ".git", ".egg-info", "~")

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def is_left_out(name: str) -> bool:
    """Returns whether a file or folder of this name is no part of a draft: hidden, made by programs, or settings."""
    return name.startswith(".") or name in _LEFT_OUT or name.endswith(_LEFT_OUT_ENDS)


def folder_text(folder: Path | str, limit: int = MOST_BYTES) -> str:
    """Returns the text of a draft of the files in a folder.

    What is hidden is left out, and so is what programs leave behind (`__pycache__`, `node_modules`, `venv`, `*.pyc`,
    `*.egg-info`). Raises ContentError, naming the file, for a symbolic link and whatever else is no plain file, a path
    that no draft can have, a file that cannot be read, and more than `limit` bytes.
    """
    files: dict[str, File] = {}
    left = limit
    try:
        if Path(folder).is_symlink():
            raise ContentError(f"{folder}: this is a symbolic link; name the folder itself")
        for path, handle in _plain_files(Path(folder)):
            with os.fdopen(handle, "rb") as file:
                if len(files) == MOST_FILES:
                    raise ContentError(f"{folder}: more than {MOST_FILES:,} files; name a smaller folder")
                content = file.read(left + 1)
                left -= len(content)
                if left < 0:
                    raise ContentError(
                        f"{folder}: more than {limit:,} bytes; name a smaller one, or raise REDRAFT_MAX_DRAFT_BYTES"
                    )
                files[path] = File(content, bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR))
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else folder
        raise ContentError(f"{where}: {error.strerror}; check the files and their permissions") from None
    if not files:
        raise ContentError(f"{folder}: there is no file in it that could be part of a draft; name another folder")
    return print_folder(files)


def _plain_files(folder: Path) -> Iterator[tuple[str, int]]:
    """Yields the path and an open handle of each file. Raises ContentError for what is no plain file."""
    for above, folders, names, here in os.fwalk(folder, onerror=_raise, follow_symlinks=False):
        inner = Path(above).relative_to(folder)
        folders[:] = sorted(name for name in folders if not is_left_out(name))
        for name in (*folders, *names):
            if not is_left_out(name) and stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
                raise ContentError(f"{folder / inner / name}: this is a symbolic link; put the file itself there")
        for name in sorted(name for name in names if not is_left_out(name)):
            path = (inner / name).as_posix()
            if fault := path_fault(path):
                raise ContentError(f"{folder / inner}: the path {path!r} {fault}")
            handle = os.open(name, _READ, dir_fd=here)
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                os.close(handle)
                raise ContentError(f"{folder / path}: this is no plain file; take it out of the folder")
            yield path, handle


def _raise(error: OSError) -> None:
    raise error


def check_out(files: Mapping[str, File], folder: Path) -> None:
    """Writes the files of a draft into a folder, which is made where it is not there.

    Nothing that is there is written to or followed. Raises ContentError for paths that no draft can have, OSError where
    a file cannot be written.
    """
    check_paths(files)
    for path, file in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(target, _NEW, 0o777 if file.executable else 0o666)
        with os.fdopen(handle, "wb") as written:
            written.write(file.content)


class TemporaryCopy:
    """A new temporary folder for the files of a draft, which is removed at the end of the block."""

    def __init__(self) -> None:
        self.folder = Path()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def check_out(self, files: Mapping[str, File]) -> None:
        """Makes the folder, with these files in it. Raises StepError where it cannot."""
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="redraft-")).resolve() / "draft"
            check_out(files, self.folder)
        except OSError as error:
            raise StepError(
                f"the draft cannot be checked out: {error.strerror}; free some space or set TMPDIR"
            ) from None

    def read_returned(self, returned: object) -> object:
        """Returns what a function returned; the text of the files in the folder if it returned that folder."""
        if not isinstance(returned, os.PathLike) or Path(returned) != self.folder:
            return returned
        try:
            return folder_text(self.folder)
        except ContentError as error:  # the path of a temporary folder says nothing to anybody
            fault = str(error).replace(f"{self.folder}/", "").replace(str(self.folder), "the folder")
            raise ContentError(fault) from None

    def remove(self) -> None:
        """Removes the folder, whatever is in it."""
        if self.folder != Path():
            shutil.rmtree(self.folder.parent, ignore_errors=True)
            self.folder = Path()
