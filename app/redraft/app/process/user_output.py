"""Sends what the user's own functions print to standard error, and ignores errors while it is written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, TextIO, cast


class _Unfailing:
    """A stream that drops what cannot be written: on a full disk, or where nobody reads it any more."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - a text stream, or the bytes behind it
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> _Unfailing:
        return _Unfailing(self._stream.buffer)

    def write(self, given: str | bytes) -> int:
        with suppress(OSError):
            self._stream.write(given)
        return len(given)

    def writelines(self, lines: Iterator[str | bytes]) -> None:
        for each in lines:
            self.write(each)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


@contextmanager
def user_output() -> Iterator[None]:
    """Sends what is printed in this block to standard error, so that it does not mix with a result.

    Where standard error cannot be written, what is printed is dropped: a step does not fail because of a `print`.
    """
    stream = cast("TextIO", _Unfailing(sys.stderr))
    with redirect_stdout(stream), redirect_stderr(stream):
        yield
