"""Connects to a PostgreSQL database: reads its URL, sets limits, and explains its errors.

The few connections that a store needs are kept here, and not in psycopg's pool. While a server is away, each call to
that pool waits until its limit and does not learn why (measured: 10 s, with a limit of 10 s, instead of an error at
once). When the server came back in between, the pool pauses after each idle connection that has ended, so that the next
call fails too.
"""

from __future__ import annotations

import re
import selectors
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, LiteralString, NoReturn, TypeAlias, TypeVar
from urllib.parse import unquote

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg.sql import SQL, Identifier

from redraft.events.errors import InputError, StoreError
from redraft.events.store.recorder import (
    POSITION,
    SPELLED,
    DatabaseError,
    DataError,
    IntegrityError,
    OperationalError,
    PersistenceError,
)

LOCK_SECONDS: Final = 10
"""Seconds that a statement waits for a lock."""

IDLE_SECONDS: Final = 8
"""Seconds that a client may leave a transaction idle: a stalled one loses its locks before others give up."""

STATEMENT_SECONDS: Final = 30
"""The longest run time of one statement, in seconds."""

SILENCE: Final = STATEMENT_SECONDS + 10.0
"""Seconds to wait for a server's answer: longer than a statement may run."""

FORM: Final = "postgresql://user@host:5432/database"
_DEFAULTS: Final = {
    "application_name": "redraft",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
"""Default parameters of libpq: a peer that is gone is noticed within 20 seconds."""

_SETTLE: Final = """
    SELECT set_config('lock_timeout', %s, false),
           set_config('statement_timeout', %s, false),
           set_config('idle_in_transaction_session_timeout', %s, false),
           set_config('default_transaction_isolation', 'read committed', false),
           set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') = 'remote_apply'
                                                 THEN 'remote_apply' ELSE 'on' END, false),
           set_config('search_path', coalesce(nullif(%s, ''), quote_ident(current_schema()),
                                              current_setting('search_path')), false)
"""
"""Settings of each connection. Of a path of several schemas only the first that exists is searched: a table that is
missing there would be looked for in the others, where it is another program's."""

_NEVER_OURS: Final = (POSITION, SPELLED)
"""Rules that no append violates, unless a trigger or rule keeps some of its rows out: that is no conflict."""

_LINES: Final = {
    "0A000": "; see redraft doctor",
    "25006": "the server takes no writes; name the primary and not a standby",
    "42501": "; grant the user what is missing, or name a database of its own",
    "53100": "the server's disk is full; free some space and try again",
    "53300": "; end some connections, or raise the server's max_connections",
    "55P03": f"another program has held it for {LOCK_SECONDS} seconds; end that, and try again",
    "57P01": "; check that the server runs, and try again",
    "57P02": "; check that the server runs, and try again",
    "57014": f"the server took longer than {STATEMENT_SECONDS} seconds; see what keeps it busy, and try again",
    "57P03": "; wait until the server has started, and try again",
}
"""The meaning and remedy of an SQLSTATE; a line that begins with a semicolon is added to the server's message."""

_CHATTER: Final = re.compile(
    r"^(connection failed|connection is bad|consuming input failed): |Is the server .*?\?|This probably .*?\."
)
"""Phrases of libpq and psycopg that add nothing to a message."""

_SCHEMA: Final = re.compile(r"(?!pg_|information_schema$)[a-z_][a-z0-9_]{0,62}")
"""A schema's name that needs no quotes in SQL; others are the server's own."""

_UNREACHED: Final = "; check that the server runs, that the database is there, and the address, user and password"


_T = TypeVar("_T")
Cursor: TypeAlias = psycopg.Cursor[tuple[Any, ...]]


class Connection(psycopg.Connection[DictRow]):
    """A connection that is closed when the server does not answer a request for `silence` seconds.

    A network device between us and a server may lose an answer and keep the connection: TCP would wait for ever.
    """

    silence: float | None = None
    """None means `SILENCE`."""

    def wait(self, gen: PQGen[_T], *args: Any, **kwargs: Any) -> _T:  # noqa: ANN401 - psycopg's own
        return super().wait(_wait_within(self, gen, SILENCE if self.silence is None else self.silence), *args, **kwargs)


class AsyncConnection(psycopg.AsyncConnection[DictRow]):
    """A `Connection` for the event loop."""

    silence: float | None = None

    async def wait(self, gen: PQGen[_T], *args: Any, **kwargs: Any) -> _T:  # noqa: ANN401 - psycopg's own
        return await super().wait(
            _wait_within(self, gen, SILENCE if self.silence is None else self.silence), *args, **kwargs
        )


def _wait_within(connection: psycopg.BaseConnection[Any], gen: PQGen[_T], silence: float) -> PQGen[_T]:
    """Yields what psycopg waits for; after `silence` seconds closes the connection and raises OperationalError."""
    try:
        answered, waiting_for = time.monotonic(), next(gen)
        while True:
            ready = yield waiting_for
            now = time.monotonic()
            if ready:
                answered = now
            elif now > answered + silence:
                gen.close()
                connection.pgconn.finish()
                raise unanswered(silence)
            waiting_for = gen.send(ready)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


_OF_ROWS: Final = ("nbt", "indextuple.", "hio.", "to_tsany.")
"""The beginnings of the names of PostgreSQL's source files that refuse a row by its size, whatever the time."""


def is_row_too_large(error: psycopg.Error) -> bool:
    """Returns whether a row is larger than an index, a page or a text to search takes.

    psycopg calls that an OperationalError, like a server that is away, and so it does other limits, which pass.
    """
    if not isinstance(error, psycopg.errors.ProgramLimitExceeded):
        return False
    return (error.diag.source_file or "").startswith(_OF_ROWS)


def unanswered(silence: float) -> psycopg.OperationalError:
    """Returns the error for a server that does not answer."""
    return psycopg.OperationalError(f"no answer for {silence:g} s")


@contextmanager
def _without_os_errors() -> Iterator[None]:
    """Raises an OSError as psycopg.OperationalError: psycopg lets it through where no file descriptor is left."""
    try:
        yield
    except OSError as error:
        raise psycopg.OperationalError(str(error)) from error


class Database:
    """A database to connect to. `where` names it in messages, without its password.

    `schema` is the one that the URL names with `?schema=`, in which all tables are; empty: the user's first one.
    """

    def __init__(self, url: str) -> None:
        """Raises InputError for an invalid URL, and does not repeat it: it may hold a password."""
        address, self.schema = _schema_of(url)
        given = _parameters(address)
        self.where = _address_of(given, self.schema)
        self._parameters: dict[str, Any] = {**_DEFAULTS, **given, "client_encoding": "utf8"}
        self._secrets = [given[name] for name in ("password", "sslpassword") if given.get(name)]

    def connect(self) -> Connection:
        """Opens a connection that commits each statement by itself; raises psycopg.Error."""
        with _without_os_errors():
            connection = Connection.connect(**self._parameters, autocommit=True, row_factory=dict_row)
        try:
            connection.execute(_SETTLE, (*_limits(), self.schema))
        except BaseException:
            connection.close()
            raise
        return connection

    async def connect_async(self) -> AsyncConnection:
        """Opens a connection for the event loop that commits each statement by itself; raises psycopg.Error."""
        with _without_os_errors():
            connection = await AsyncConnection.connect(**self._parameters, autocommit=True, row_factory=dict_row)
        try:
            await connection.execute(_SETTLE, (*_limits(), self.schema))
        except BaseException:
            await connection.close()
            raise
        return connection

    def rewrite(self, tables: Sequence[str]) -> None:
        """Rewrites these tables without their deleted rows. Raises StoreError."""
        try:
            with self.connect() as connection:
                for name in tables:
                    connection.execute(SQL("VACUUM FULL {}").format(Identifier(name)))
        except psycopg.Error as error:
            raise StoreError(self.explain(error)) from None

    def explain(self, error: psycopg.Error) -> str:
        """Returns the meaning and remedy of an error in one line, without the password."""
        said = error.diag.message_primary or str(error) or type(error).__name__
        text = " ".join(_CHATTER.sub("", " ".join(said.split())).split())
        line = _LINES.get(error.sqlstate or "", "")
        if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
            line = _UNREACHED
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return line if line and not line.startswith(";") else text + line

    def persistence_error(self, error: psycopg.Error) -> PersistenceError:
        """Returns the corresponding error of the `eventsourcing` library, with a line for people."""
        line = self.explain(error)
        match error:
            case psycopg.IntegrityError() if error.diag.constraint_name in _NEVER_OURS:
                return DatabaseError(f"{line}; see redraft doctor")
            case psycopg.IntegrityError():
                return IntegrityError(line)
            case psycopg.OperationalError() if is_row_too_large(error):
                return DataError(line)
            case psycopg.DataError():
                return DataError(line)
            case psycopg.OperationalError() | psycopg.InterfaceError():
                return OperationalError(line)
            case _:
                return DatabaseError(line)

    def unreadable(self, error: psycopg.Error) -> StoreError:
        """Returns a StoreError with the explanation."""
        return StoreError(f"store {self.where}: {self.explain(error)}")


class Connections:
    """A pool of connections, each lent to one thread at a time. `first` is the first statement of each."""

    def __init__(self, database: Database, first: LiteralString = "") -> None:
        self._database = database
        self._first = first
        self._idle: deque[Connection] = deque()
        self._processes: dict[Connection, int] = {}
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[psycopg.Connection[DictRow]]:
        """Lends a connection that the server has not ended; raises psycopg.Error when none can be opened."""
        connection = self._take()
        try:
            yield connection
        finally:
            usable = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            if usable and not self._closed:
                self._idle.append(connection)
            else:
                self._end(connection)

    def serves(self, process: int) -> bool:
        """Returns whether the server's process with this id serves one of these connections."""
        return process in self._processes.values()

    def close(self) -> None:
        """Closes the idle connections; lent ones close when they come back."""
        self._closed = True
        while self._idle:
            self._end(self._idle.pop())

    def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not has_ended(connection):
                return connection
            self._end(connection)
        connection = self._database.connect()
        if self._first:
            connection.execute(self._first)
        self._processes[connection] = connection.info.backend_pid
        return connection

    def _end(self, connection: Connection) -> None:
        self._processes.pop(connection, None)
        connection.close()


def execute(cursor: Cursor, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
    """Executes a statement with `?` for each of its values, and returns its rows."""
    cursor.execute(statement.replace("?", "%s").encode(), values)
    return cursor.fetchall() if cursor.description else []


def _limits() -> tuple[str, str, str]:
    lock, statement, idle = (f"{each * 1000:.0f}ms" for each in (LOCK_SECONDS, STATEMENT_SECONDS, IDLE_SECONDS))
    return lock, statement, idle


_SELECTOR: Final = getattr(selectors, "PollSelector", selectors.DefaultSelector)
"""It needs no file descriptor, of which a process may have none left, where the system has `poll`."""


def has_ended(connection: psycopg.Connection[DictRow] | psycopg.AsyncConnection[DictRow]) -> bool:
    """Returns whether there is data to read: all that a server sends on an idle connection is that it ends."""
    with _SELECTOR() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return bool(selector.select(0))


def _schema_of(url: str) -> tuple[str, str]:
    """Returns the URL without its parameter `schema`, which libpq does not know, and the schema; raises InputError."""
    address, mark, query = url.partition("?")
    parts = query.split("&") if mark else []
    named = [unquote(part.removeprefix("schema=")) for part in parts if part.startswith("schema=")]
    for name in named:
        if not _SCHEMA.fullmatch(name):
            raise InputError(
                f"schema {name!r} of the store cannot be used; write at most 63 of a to z, digits and _, no digit "
                "first, and not pg_… or information_schema, which are the server's"
            )
    rest = "&".join(part for part in parts if not part.startswith("schema="))
    return address + ("?" + rest if rest else ""), named[-1] if named else ""


def _parameters(url: str) -> dict[str, str]:
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except (psycopg.Error, UnicodeDecodeError):
        _raise_invalid("")
    behind = url.partition("@")[2] + given.get("host", "") + given.get("dbname", "")
    if "@" in behind or not _are_ports(given.get("port", "")):
        _raise_invalid("; in a user's name or password write @ as %40, / as %2F, : as %3A, ? as %3F and % as %25")
    return given


def _are_ports(text: str) -> bool:
    return all(port == "" or (port.isdecimal() and 0 < int(port) < 65536) for port in text.split(","))


def _raise_invalid(remedy: str) -> NoReturn:
    raise InputError(f"store postgresql://… is not understood; give {FORM}{remedy}") from None


def _address_of(given: Mapping[str, str], schema: str) -> str:
    user, host, port, name = (given.get(part, "") for part in ("user", "host", "port", "dbname"))
    folder = host if host.startswith("/") else ""
    ports = dict(enumerate(port.split(",")))
    hosts = ["" if folder else f"[{each}]" if ":" in each else each for each in host.split(",")]
    addresses = [each + (f":{ports[at]}" if ports.get(at) else "") for at, each in enumerate(hosts)]
    more = "&".join(f"{key}={value}" for key, value in (("host", folder), ("schema", schema)) if value)
    return f"postgresql://{user}{'@' if user else ''}{','.join(addresses)}/{name}{'?' if more else ''}{more}"
