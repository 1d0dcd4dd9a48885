"""The log of a process that serves: one line an event on standard error, for people or as JSON.

Lines name runs, paths, actors and numbers, never a draft's text; a password in a URL is masked wherever it stands.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, Literal, TextIO, cast

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from redraft.app.libraries import heard
from redraft.app.settings import redacted
from redraft.projections.plain import error_text, plain

Form = Literal["auto", "text", "json"]

SILENCE: Final = 60.0
"""Seconds in which a library is not heard again with what it said already, were it with other details."""

REMEMBERED: Final = 1000
"""How many different things that libraries said are remembered."""

_LONGEST: Final = 500
"""How many characters of one value are logged."""


class _Stream:
    """Writes lines. When nobody reads them any more, work goes on without."""

    def __init__(self, stream: TextIO, prefix: str) -> None:
        self._stream = stream
        self._prefix = prefix

    def msg(self, line: str) -> None:
        try:
            self._stream.write(f"{self._prefix}{line}\n")
            self._stream.flush()
        except (BrokenPipeError, ValueError):
            return

    debug = info = warning = error = critical = msg


def is_text(stream: TextIO, form: Form) -> bool:
    """Whether lines on this stream are text: for `text`, and for `auto` on a terminal; otherwise they are JSON."""
    return form == "text" or (form == "auto" and stream.isatty())


def new_log(stream: TextIO, form: Form, process: str, prefix: str = "") -> FilteringBoundLogger:
    """A log on a stream, one line an event. JSON names the `process` in each line; text has the `prefix` before it."""
    terminal = stream.isatty()
    text = is_text(stream, form)
    writer: Any = (
        structlog.dev.ConsoleRenderer(colors=terminal, pad_event_to=0, sort_keys=False)
        if text
        else structlog.processors.JSONRenderer(serializer=_json)
    )
    log = structlog.wrap_logger(
        _Stream(stream, prefix if text else ""),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(
                fmt="%H:%M:%S" if terminal and text else "iso", utc=not (terminal and text)
            ),
            _without_secrets,
            writer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    return cast("FilteringBoundLogger", log.bind() if text else log.bind(process=process))


def library_log() -> FilteringBoundLogger:
    """A log for programs that use Redraft: through Python's own `logging`, as the logger `redraft`."""
    log = structlog.wrap_logger(
        logging.getLogger("redraft"),
        processors=[_without_secrets, structlog.processors.KeyValueRenderer(key_order=["event"])],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    return cast("FilteringBoundLogger", log.bind())


@contextmanager
def libraries(log: FilteringBoundLogger | None = None) -> Iterator[None]:
    """What libraries log goes into this log while the block lasts, from warnings up; nowhere without one."""
    with heard(logging.NullHandler() if log is None else _Forward(log)):
        yield


class _Forward(logging.Handler):
    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log
        self._said: dict[tuple[str, object], float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if self._is_repeated(record):
            return
        error = record.exc_info[1] if record.exc_info else None
        told = {"exception": error_text(error)} if error else {}
        self._log.log(record.levelno, record.getMessage(), library=record.name, **told)

    def _is_repeated(self, record: logging.LogRecord) -> bool:
        """Whether the same was said a moment ago, but for its details: a library may say it at every try."""
        key = (record.name, record.msg if isinstance(record.msg, str) else "")
        said, self._said[key] = self._said.get(key, -SILENCE), record.created
        if len(self._said) > REMEMBERED:
            self._said.clear()
        return record.created - said < SILENCE


def _without_secrets(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in event.items():
        event[name] = _told(value)
    return event


def _told(value: object) -> object:
    match value:
        case str():
            return plain(redacted(value), _LONGEST)
        case list() | tuple():
            return [_told(each) for each in value]
        case dict():
            return {_told(name): _told(each) for name, each in value.items()}
        case _:
            return value


def _json(event: object, **_: object) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
