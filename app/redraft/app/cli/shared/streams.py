"""Standard input, output and error, also where a shell has closed one of them (`>&-`)."""

from __future__ import annotations

import os
import sys
from typing import Final

_CLOSED: Final = ((0, "stdin", os.O_RDONLY, "r"), (1, "stdout", os.O_RDONLY, "w"), (2, "stderr", os.O_WRONLY, "w"))
"""For each stream how the null device stands in for it, and how Python opens that.

A write to a standard output that was closed fails, and that is reported; nobody wants what is written to a closed
standard error.
"""

_stood_in: Final = set[str]()


def open_streams() -> None:
    """Opens what is closed: else the next file or socket gets its number, and what is printed goes there."""
    for number, name, flags, mode in _CLOSED:
        if getattr(sys, name) is None:
            _stand_in(number, flags)
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
            _stood_in.add(name)


def is_stdout_closed() -> bool:
    """Returns whether the process was started without a standard output."""
    return "stdout" in _stood_in


def flush_stdout(code: object) -> None:
    """Writes what is still to be written. Raises OSError, unless `code` says already that something failed."""
    try:
        sys.stdout.flush()
    except OSError:
        if not code:
            raise
        let_go_of_stdout()


def let_go_of_stdout() -> None:
    """Keeps Python from complaining once more when it flushes what nobody can take."""
    if sys.__stdout__ is not None:
        _stand_in(sys.__stdout__.fileno(), os.O_WRONLY)


def _stand_in(number: int, flags: int) -> None:
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)  # programs that are started have it too
