"""Files that people are given: written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from redraft.events.errors import InputError


def write_whole(path: Path, content: bytes, option: str, mode: int = 0o666) -> None:
    """Writes a file whole or not at all. Raises InputError, naming the option that it was asked for with."""
    with whole_file(path, option, mode) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path, option: str, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A file to write to, which takes its name when the block has ended without an error.

    Raises InputError, naming the option that it was asked for with, when it cannot be written.
    """
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}: there is no folder {path.parent}; make it first")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        try:
            with _opened(temporary, mode) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
    except OSError as error:
        remedy = "see to its folder's permissions and free space, or name another file"
        raise InputError(f"{option} {path}: {error.strerror}; {remedy}") from None


def _opened(path: Path, mode: int) -> IO[bytes]:
    """A new file, with what the umask leaves of the mode."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb")
