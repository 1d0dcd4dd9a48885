"""What verbs print: JSON as bytes that nothing wraps or colours, text through rich. No text steers a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rich.console import Console
    from rich.table import Table

WIDE: Final = 10_000
"""Columns where no terminal sets them: lines are not cut for a file or a pipe."""


def print_json(value: object) -> None:
    """One JSON document in one line, in UTF-8 whatever the terminal's encoding is.

    On a terminal, characters that are not seen are written by their numbers (`\\u202e`), which says the same in JSON.
    """
    import msgspec

    encoded = msgspec.json.encode(value)
    if sys.stdout.isatty():
        from redraft.projections.plain import escaped

        encoded = escaped(encoded.decode()).encode()
    _write(encoded + b"\n")


def print_text(text: str) -> None:
    """A text, byte for byte, in UTF-8; for a terminal it is made `visible`, and gets a line end if it has none."""
    if sys.stdout.isatty():
        from redraft.projections.plain import visible

        text = visible(text) if text.endswith("\n") else f"{visible(text)}\n"
    _write(text.encode())


def print_line(line: str) -> None:
    """One line, at once, never wrapped, and made `visible`."""
    from redraft.projections.plain import visible

    _write(f"{visible(line)}\n".encode())


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


def table_of(
    names: Iterable[str], rows: Iterable[Iterable[object]], right: Collection[str] = (), longest: int = 200
) -> Table:
    """Returns a table without lines: columns named in `right` are for numbers, and a cell has so many characters."""
    from rich.table import Table

    from redraft.projections.plain import plain

    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        if name in right:
            made.add_column(name, justify="right", no_wrap=True)
        else:
            made.add_column(name, overflow="fold")
    for row in rows:
        made.add_row(*("" if cell is None else plain(str(cell), longest) for cell in row))
    return made
