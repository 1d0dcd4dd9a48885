"""Files that people are given: written whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from redraft.events.errors import InputError


def write_whole(path: Path, content: bytes, option: str) -> None:
    """Writes a file whole or not at all. Raises InputError, naming the option that it was asked for with."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        remedy = "see to its folder's permissions and free space, or name another file"
        raise InputError(f"{option} {path}: {error.strerror}; {remedy}") from None
