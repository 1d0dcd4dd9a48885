"""The exit codes, and what a verb ends with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from redraft.app.cli.shared.streams import flush_stdout

FAILED: Final = 1
USAGE: Final = 2
UNACCEPTED: Final = 3
UNKNOWN_RUN: Final = 4
UNREACHABLE: Final = 5
INTERRUPTED: Final = 130
"""As shells have it: 128 and the number of SIGINT."""
PIPE_CLOSED: Final = 141
"""As shells have it: 128 and the number of SIGPIPE."""


def exit_code_of(act: Callable[[], object]) -> int:
    """Calls `act` and returns the exit code; reports an expected error in one line, without a traceback."""
    try:
        code = act()
        flush_stdout(code)
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        from redraft.app.cli.shared.errors import report_error

        code = report_error(error)
        if code is None:
            raise
    return code if isinstance(code, int) else 0
