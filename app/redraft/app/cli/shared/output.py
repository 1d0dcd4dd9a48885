"""Prints for the verbs: JSON as bytes that nothing wraps or colours, text by rich without control characters."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from redraft.projections.display import escaped, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDE: Final = 10_000
"""Columns where no terminal sets them: lines are not cut for a file or a pipe."""


_NARROWEST: Final = 20
"""Columns that are left for the text of a line that is carried over, however narrow the terminal."""


def print_json(value: object) -> None:
    """One JSON document in one line, in UTF-8 whatever the terminal's encoding is.

    On a terminal, characters that are not seen are written by their numbers (`\\u202e`), which says the same in JSON.
    """
    encoded = msgspec.json.encode(value)
    if sys.stdout.isatty():
        encoded = escaped(encoded.decode()).encode()
    _write(encoded + b"\n")


def print_text(text: str) -> None:
    """A text, byte for byte, in UTF-8; for a terminal it is made `visible`, and gets a line end if it has none."""
    if sys.stdout.isatty():
        text = visible(text) if text.endswith("\n") else f"{visible(text)}\n"
    _write(text.encode())


def print_line(line: str) -> None:
    """One line, at once, never wrapped, and made `visible`."""
    _write(f"{visible(line)}\n".encode())


def print_wrapped(line: str | Text, indent: int) -> None:
    """One line, at once; on a terminal that is too narrow for it, it goes on below, with so many blanks before it."""
    if not (sys.stdout.isatty() or "FORCE_COLOR" in os.environ):
        print_line(str(line))
        return
    from rich.text import Text

    console = out()
    text = Text(visible(line)) if isinstance(line, str) else line
    if text.cell_len <= console.width:
        console.print(text, soft_wrap=True)
        return
    for number, part in enumerate(text.wrap(console, max(console.width - indent, _NARROWEST))):
        console.print(Text(" " * indent if number else "") + part, soft_wrap=True)


def _write(raw: bytes) -> None:
    """Writes all of it. With PYTHONUNBUFFERED the stream has no buffer, and takes as much as it likes at a time."""
    sys.stdout.flush()
    left = memoryview(raw)
    while left:
        left = left[sys.stdout.buffer.write(left) :]
    sys.stdout.buffer.flush()


def out() -> Console:
    """Standard output for tables and trees; colours on a terminal only, and none where NO_COLOR is set."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, emoji=False, width=WIDE)


def print_result(result: object, lines: Iterable[str], *, json: bool, nothing: str = "") -> None:
    """Prints the result as JSON, or the lines that say it, or, where there are none, what says that."""
    if json:
        print_json(result)
        return
    for line in [*lines] or filter(None, [nothing]):
        print_line(line)
