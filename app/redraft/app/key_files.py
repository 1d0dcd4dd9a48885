"""Files with keys: made once, readable by their owner alone, never written over."""

from __future__ import annotations

import os
from pathlib import Path

from redraft.events.errors import InputError


def write_private(path: Path, text: str) -> None:
    """Writes a new file that only its owner may read. Raises InputError when it is there, or cannot be made."""
    _write(path, text, 0o600)


def write_public(path: Path, text: str) -> None:
    """Writes a new file that everybody may read. Raises InputError when it is there, or cannot be made."""
    _write(path, text, 0o644)


def read_key(path: Path, what: str) -> str:
    """The text of a key file; raises InputError, which names the file and never what stands in it."""
    try:
        return path.read_text(encoding="ascii")
    except OSError as error:
        raise InputError(f"{what} {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{what} {path} is no key: it holds other than plain text") from None


def refuse_present(*paths: Path) -> None:
    """Raises InputError when one of these files is there already."""
    for path in paths:
        if path.exists() or path.is_symlink():
            raise InputError(f"{path} is there already; a key is never written over: name another file")


def _write(path: Path, text: str, mode: int) -> None:
    refuse_present(path)
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(number, "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}; name another file") from None
