"""A file that a plan names: below the folder in which the worker was started, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from redraft.app.builtin.confined import checked_parts
from redraft.events.errors import PermanentError


def own_file(name: str, what: str) -> Path:
    """The path of a file of this name; `what` says in a fault who wants it, such as `sql: option database`.

    Raises PermanentError when the name is absolute, leads up, or leads elsewhere through a symbolic link.
    """
    try:
        path = Path.cwd().joinpath(*checked_parts(name))
    except PermanentError as error:
        raise PermanentError(f"{what}: {error}") from None
    if path.resolve().is_relative_to(Path.cwd().resolve()):
        return path
    raise PermanentError(f"{what}: {name!r} leads elsewhere; name a file below the working folder")


def read_own_file(name: str, what: str, largest: int) -> str:
    """The text of such a file of at most `largest` bytes. Raises PermanentError as well when it cannot be read."""
    path = own_file(name, what)
    try:
        with path.open("rb") as file:
            raw = file.read(largest + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise PermanentError(f"{what}: {name!r} cannot be read: {error.strerror}; mend the path") from None
    except UnicodeDecodeError as error:
        raise PermanentError(f"{what}: {name!r}: byte {error.start + 1} is not UTF-8; save it as UTF-8") from None
    if len(raw) > largest or not text.strip():
        fault = "is empty" if not text.strip() else f"has more than {largest:,} bytes"
        raise PermanentError(f"{what}: {name!r} {fault}; name another file")
    return text
