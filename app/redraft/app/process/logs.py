"""The log of a process that serves, the logs of the libraries it uses, and what neither may tell: secrets.

Lines name runs, paths, actors and numbers, never a draft's text; a password in a URL is masked wherever it stands.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, TypeAlias, cast

import msgspec

from redraft.app.process.library_logs import propagated
from redraft.projections.display import error_text, plain

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

Form = Literal["auto", "text", "json"]
Fields: TypeAlias = Callable[[Mapping[str, object]], Mapping[str, object]]
"""Returns what a line says beside what it was given, such as its trace."""

SILENCE: Final = 60.0
"""Seconds in which a library is not heard again with what it said already, were it with other details."""

REMEMBERED: Final = 1000
"""The number of different log messages of libraries that are remembered."""

_LONGEST: Final = 500
"""The number of characters of one value that are logged."""


class _Stream:
    """Writes lines. When they cannot be written, as nobody reads them any more, work goes on without."""

    def __init__(self, stream: TextIO, prefix: str) -> None:
        self._stream = stream
        self._prefix = prefix

    def msg(self, line: str) -> None:
        try:
            self._stream.write(f"{self._prefix}{line}\n")
            self._stream.flush()
        except (OSError, ValueError):
            return

    debug = info = warning = error = critical = msg


def is_text(stream: TextIO, form: Form) -> bool:
    """Returns whether lines on this stream are text: for `text`, and for `auto` on a terminal; else they are JSON."""
    return form == "text" or (form == "auto" and stream.isatty())


def new_log(
    stream: TextIO, form: Form, process: str, prefix: str = "", fields: Fields | None = None
) -> FilteringBoundLogger:
    """A log on a stream, one line an event. JSON names the `process` in each line; text has the `prefix` before it.

    `fields` returns what is added to a line.
    """
    import structlog  # it takes a while, and only those who serve need it

    if fields:
        fields({"run": ""})  # what it imports is there before a line, as no file may be opened by then
    terminal, text = stream.isatty(), is_text(stream, form)
    writer: Any = (
        structlog.dev.ConsoleRenderer(colors=terminal, pad_event_to=0, sort_keys=False)
        if text
        else structlog.processors.JSONRenderer(serializer=_json)
    )

    def add_fields(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event.update(fields(event) if fields else {})
        return event

    log = structlog.wrap_logger(
        _Stream(stream, prefix if text else ""),
        processors=[
            add_fields,
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
    import structlog

    log = structlog.wrap_logger(
        logging.getLogger("redraft"),
        processors=[_without_secrets, structlog.processors.KeyValueRenderer(key_order=["event"])],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    return cast("FilteringBoundLogger", log.bind())


@contextmanager
def libraries(log: FilteringBoundLogger | None = None) -> Iterator[None]:
    """Sends the logs of libraries, from warnings up, to this log within the block; nowhere without one."""
    root, handler = logging.getLogger(), logging.NullHandler() if log is None else _Forward(log)
    root.addHandler(handler)
    try:
        with propagated(propagate=True):
            yield
    finally:
        root.removeHandler(handler)


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
        """Returns whether a library logged the same, but for details, a moment ago, as some do at every attempt."""
        key = (record.name, record.msg if isinstance(record.msg, str) else "")
        said, self._said[key] = self._said.get(key, -SILENCE), record.created
        if len(self._said) > REMEMBERED:
            self._said.clear()
        return record.created - said < SILENCE


def _without_secrets(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in event.items():
        event[name] = _redact(value)
    return event


def _redact(value: object) -> object:
    match value:
        case str():
            return plain(redacted(value), _LONGEST)
        case list() | tuple():
            return [_redact(each) for each in value]
        case dict():
            return {_redact(name): _redact(each) for name, each in value.items()}
        case _:
            return value


def _json(event: object, **_: object) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()


_USER: Final = re.compile(r"://(?!/)([^\s:/?#@]*)(\S*)@")
_WHOLE: Final = re.compile(r"://(?!/)([^\s:/?#@]*)(.*)@", re.DOTALL)
_PARAMETER: Final = re.compile(r"(?i)((?:ssl)?password=)[^&\s'\"]*")


def redacted(text: str) -> str:
    """A text without the passwords of the URLs in it: `amqp://me:***@host/`, `?password=***`."""
    return _PARAMETER.sub(r"\1***", _USER.sub(_mask, text))


def shown_url(url: str) -> str:
    """The URL of a setting without its password, whatever characters that has."""
    return redacted(_WHOLE.sub(_mask, url))


def _mask(found: re.Match[str]) -> str:
    return f"://{found[1]}{':***' if found[2] else ''}@"


SHORTEST: Final = 8
"""The least length at which the value of a secret variable is masked in texts."""

_NAMED: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|OTLP_(?:\w+_)?HEADERS", re.IGNORECASE)
_PLAIN: Final = re.compile(r"PUBLIC|_(?:FILE|PATH|DIR|ID)$", re.IGNORECASE)
_IN_URL: Final = re.compile(r"(://)[^\s/]+@")


def _secrets() -> dict[str, str]:
    """The variables that hold secrets, going by their names, with their values."""
    return {
        name: value.strip()
        for name, value in os.environ.items()
        if _NAMED.search(name) and not _PLAIN.search(name) and len(value.strip()) >= SHORTEST
    }


def without_secrets(text: str) -> str:
    """The text with the values of secret variables, and names and passwords in URLs, replaced by `***`."""
    for value in sorted(_secrets().values(), key=len, reverse=True):
        text = text.replace(value, "***")
    return _IN_URL.sub(r"\1***@", text)


def find_secret(text: str) -> str:
    """The name of a secret variable whose value is in the text; empty when there is none."""
    return next((name for name, value in _secrets().items() if value in text), "")
