"""Tables that fit the terminal: columns of text get narrower, spare columns go, and else each row is a list."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from redraft.app.cli.shared.output import out
from redraft.projections.display import plain

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.table import Table

NARROWEST: Final = 8
"""Characters that a column of text keeps."""

_GAP: Final = 2
"""Blanks between two columns."""


def print_table(
    names: Sequence[str],
    rows: Iterable[Iterable[object]],
    *,
    right: Collection[str] = (),
    whole: Collection[str] = (),
    longest: int = 200,
    cut: bool = False,
    spare: Sequence[str] = (),
) -> None:
    """Prints a table without lines, as wide as the terminal at most; it is not narrowed for a file or a pipe.

    Columns in `right` hold numbers; these, and columns in `whole`, are never made narrower. Cells are cut to `longest`
    characters. Where the terminal is too narrow, columns of text get narrower (their cells are `cut` short, or carried
    over to the next line), then the `spare` columns are left out one after the other, and if that is not enough each
    row is printed as a list of its cells.
    """
    console = out()
    cells = [["" if cell is None else plain(str(cell), longest) for cell in row] for row in rows]
    columns = list(range(len(names)))
    for left_out in range(len(spare) + 1):
        columns = [each for each in columns if names[each] not in spare[:left_out]]
        shown, found = [names[each] for each in columns], [[row[each] for each in columns] for row in cells]
        fitting = _fitted(_widths(shown, found), [name in right or name in whole for name in shown], console.width)
        if fitting is not None:
            console.print(_table(shown, found, right, fitting, cut=cut))
            return
    _print_lists(names, cells, console)


def _widths(names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    """Returns how wide each column would like to be."""
    from rich.cells import cell_len

    return [max(map(cell_len, (name, *(row[at] for row in cells)))) for at, name in enumerate(names)]


def _fitted(widths: Sequence[int], fixed: Sequence[bool], room: int) -> list[int] | None:
    """Returns the widths at which the table fits, the widest columns of text made narrower; None where none do."""
    fitting = list(widths)
    excess = sum(fitting) + _GAP * (len(fitting) - 1) - room
    while excess > 0:
        widest = max((each for each in range(len(fitting)) if not fixed[each]), key=fitting.__getitem__, default=None)
        if widest is None or fitting[widest] <= NARROWEST:
            return None
        fitting[widest] -= 1
        excess -= 1
    return fitting


def _table(
    names: Sequence[str],
    cells: Iterable[Sequence[str]],
    right: Collection[str],
    widths: Sequence[int],
    *,
    cut: bool,
    header: bool = True,
) -> Table:
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold", show_header=header, padding=(0, _GAP, 0, 0))
    for name, width in zip(names, widths, strict=True):
        justify: JustifyMethod = "right" if name in right else "left"
        made.add_column(
            name, justify=justify, width=width, no_wrap=cut or name in right, overflow="ellipsis" if cut else "fold"
        )
    for row in cells:
        made.add_row(*row)
    return made


def _print_lists(names: Sequence[str], cells: Iterable[Sequence[str]], console: Console) -> None:
    width = max(map(len, names))
    widths = (width, max(NARROWEST, console.width - width - _GAP))
    for number, row in enumerate(cells):
        if number:
            console.print()
        given = [(name, cell) for name, cell in zip(names, row, strict=True) if cell]
        console.print(_table(("", ""), given, (), widths, cut=False, header=False))
