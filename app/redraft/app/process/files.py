"""Files that people are given, written whole or not at all; and files of others, read with care."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from redraft.events.errors import InputError

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def write_whole(path: Path, content: bytes, option: str, mode: int = 0o666) -> None:
    """Writes a file whole or not at all. Raises InputError, naming the option that it was asked for with."""
    with whole_file(path, option, mode) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path, option: str, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A file to write to, which takes its name when the block has ended without an error.

    Raises InputError, naming the option that it was asked for with, when it cannot be written, or would replace what is
    no plain file.
    """
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}: there is no folder {path.parent}; make it first")
    refuse_special(path, option)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        try:
            with os.fdopen(os.open(temporary, _NEW, mode), "wb") as file:  # less what the umask takes
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
    except OSError as error:
        remedy = "check its folder's permissions and free space, or name another file"
        raise InputError(f"{option} {path}: {error.strerror}; {remedy}") from None


def refuse_special(path: Path, option: str) -> None:
    """Raises InputError where a device, a FIFO, a folder or a link stands, which a new file would replace."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise InputError(f"{option} {path}: this is not a plain file; name another one")


def read_plain(path: Path, largest: int) -> bytes:
    """Returns the bytes of a plain file, at most so many; never waits for a pipe, nor reads a device.

    Raises OSError, ValueError for what is no plain file or is larger.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a plain file")
        content = file.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"it has more than {largest:,} bytes")
    return content


def read_at_most(path: Path, largest: int) -> bytes:
    """Returns the bytes of a file or a pipe, at most so many. Raises OSError, and ValueError where there are more."""
    with path.open("rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"more than {largest:,} bytes")
    return content


LARGEST_KEY: Final = 64 * 1024
"""Bytes of the largest key file that is read."""


def read_key(path: Path, what: str) -> str:
    """The text of a key file; raises InputError, which names the file and never what stands in it."""
    try:
        return read_at_most(path, LARGEST_KEY).decode("ascii")
    except OSError as error:
        raise InputError(f"{what} {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{what} {path} is not a key: it holds other things than plain text") from None
    except ValueError as error:
        raise InputError(f"{what} {path} is not a key: it has {error}") from None


def refuse_present(*paths: Path) -> None:
    """Raises InputError when one of these files is there already."""
    for path in paths:
        if path.exists() or path.is_symlink():
            raise InputError(f"{path} is there already; a key is never written over: name another file")


def write_key(path: Path, text: str, mode: int = 0o600) -> None:
    """Writes a new file with this very mode. Raises InputError when it is there, or cannot be made."""
    refuse_present(path)
    try:
        with os.fdopen(os.open(path, _NEW, mode), "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}; name another file") from None
