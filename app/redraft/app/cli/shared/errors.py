"""Turns every error into one line on standard error and an exit code."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import typer

from redraft.app.cli.shared.exit_codes import (
    FAILED,
    INTERRUPTED,
    PIPE_CLOSED,
    UNACCEPTED,
    UNKNOWN_RUN,
    UNREACHABLE,
    USAGE,
)
from redraft.app.cli.shared.streams import is_stdout_closed, let_go_of_stdout
from redraft.events.errors import (
    BusError,
    BusUnusable,
    IncompatibleStore,
    InputError,
    MessageTooLarge,
    NoSuchRun,
    NotAllowed,
    RedraftError,
    RunEndedFirst,
    StoreError,
    Tampered,
)
from redraft.projections.display import in_one_line

_CODES: Final[Sequence[tuple[type[RedraftError], int]]] = (
    (InputError, USAGE),
    (RunEndedFirst, UNACCEPTED),
    (NoSuchRun, UNKNOWN_RUN),
    (IncompatibleStore, USAGE),
    (Tampered, FAILED),
    (StoreError, UNREACHABLE),
    (BusUnusable, USAGE),
    (NotAllowed, USAGE),
    (MessageTooLarge, USAGE),
    (BusError, UNREACHABLE),
)
"""The exit code for each kind of error; the first that fits counts, and all others are FAILED."""

_LONGEST: Final = 1_000


def say(line: str) -> None:
    """One line on standard error, without control characters."""
    with suppress(OSError):  # where standard error cannot be written, nobody can be told
        print(f"redraft: {in_one_line(line, _LONGEST)}", file=sys.stderr, flush=True)  # noqa: T201


def report_error(error: BaseException) -> int | None:
    """Reports an error and returns its exit code; returns None for an unexpected one."""
    match error:
        case BaseExceptionGroup():
            return next((code for each in error.exceptions if (code := report_error(each)) is not None), None)
        case RedraftError():
            say(str(error))
            return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)
        case typer.TyperException():
            say(f"{_sentence(error.format_message())}; see `{_verb(error)} --help`")
            return USAGE
        case KeyboardInterrupt() | typer.Abort():
            return INTERRUPTED
        case BrokenPipeError() | SystemExit(__context__=BrokenPipeError()):  # typer and rich make the second of it
            let_go_of_stdout()
            return PIPE_CLOSED
        case OSError(errno=errno.ENOSPC | errno.EFBIG | errno.EIO | errno.EDQUOT):
            let_go_of_stdout()
            say(f"the output cannot be written: {error.strerror}; free some space")
            return FAILED
        case OSError(errno=errno.EBADF) if is_stdout_closed():
            let_go_of_stdout()
            say("the output cannot be written: standard output is closed; open it, or send it to a file")
            return FAILED
        case OSError(errno=errno.ENAMETOOLONG, filename=str() as name):
            say(f"{name[:60]}…: the name is too long for the file system; give a shorter one")
            return USAGE
        case FileNotFoundError() if not _has_working_directory():
            say("the working directory has been deleted; change to one that is there")
            return USAGE
        case UnicodeEncodeError():
            say(f"this terminal's encoding, {error.encoding}, has no {error.object[error.start]!r}; set PYTHONUTF8=1")
            return FAILED
        case _:
            return None


def _has_working_directory() -> bool:
    try:
        return bool(Path.cwd())
    except FileNotFoundError:
        return False


def _verb(error: typer.TyperException) -> str:
    """Returns the words that typer understood: `redraft dead-letters list`."""
    return str(getattr(getattr(error, "ctx", None), "command_path", "redraft"))


def _sentence(text: str) -> str:
    """A usage error as the start of a line: `No such option: --x.` is `no such option: --x`."""
    from redraft.app.settings.settings import in_our_words

    plain = in_our_words(" ".join(text.split()).rstrip(".").replace("Value error, ", ""))
    return plain[:1].lower() + plain[1:]
