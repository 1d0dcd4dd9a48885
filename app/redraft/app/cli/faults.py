"""Where whatever goes wrong becomes one line on standard error and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Final

import typer

from redraft.events.errors import RedraftError

FAILED: Final = 1
USAGE: Final = 2
UNACCEPTED: Final = 3
INTERRUPTED: Final = 130
"""As shells have it: 128 and the number of SIGINT."""
PIPE_CLOSED: Final = 141
"""As shells have it: 128 and the number of SIGPIPE."""

_LONGEST: Final = 1_000


def exit_code_of(act: Callable[[], object]) -> int:
    """What a program that does this ends with; every foreseeable fault is told in one line, and no traceback."""
    try:
        code = act()
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        code = _told(error)
        if code is None:
            raise
    return code if isinstance(code, int) else 0


def say(line: str) -> None:
    """One line on standard error, without control characters."""
    from redraft.projections.plain import plain

    print(f"redraft: {plain(line, _LONGEST)}", file=sys.stderr, flush=True)  # noqa: T201


def _told(error: BaseException) -> int | None:
    """The exit code of a fault, once it has been said; None when it is none that could be foreseen."""
    match error:
        case BaseExceptionGroup():
            return next((code for each in error.exceptions if (code := _told(each)) is not None), None)
        case RedraftError():
            say(str(error))
            return error.exit_code
        case typer.TyperException():
            say(f"{_sentence(error.format_message())}; see `{_verb(error)} --help`")
            return USAGE
        case KeyboardInterrupt() | typer.Abort():
            return INTERRUPTED
        case BrokenPipeError() | SystemExit(__context__=BrokenPipeError()):  # typer and rich make the second of it
            _let_go_of_stdout()
            return PIPE_CLOSED
        case OSError(errno=errno.ENOSPC | errno.EFBIG | errno.EIO | errno.EDQUOT):
            _let_go_of_stdout()
            say(f"the output cannot be written: {error.strerror}; free some space")
            return FAILED
        case UnicodeEncodeError():
            say(f"this terminal's encoding, {error.encoding}, has no {error.object[error.start]!r}; set PYTHONUTF8=1")
            return FAILED
        case _:
            return None


def _verb(error: typer.TyperException) -> str:
    """The words that were understood: `redraft parked list`."""
    return str(getattr(getattr(error, "ctx", None), "command_path", "redraft"))


def _sentence(text: str) -> str:
    """A usage error as the start of a line: `No such option: --x.` is `no such option: --x`."""
    plain = " ".join(text.split()).rstrip(".").replace("Value error, ", "")
    return plain[:1].lower() + plain[1:]


def _let_go_of_stdout() -> None:
    """Keeps Python from complaining once more when it flushes what nobody can take."""
    if sys.__stdout__ is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())
