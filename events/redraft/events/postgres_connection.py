"""The way to a PostgreSQL database: what its URL says, how it is connected to, and what its errors mean.

The few connections that a store needs are kept here, and not in psycopg's pool: while a server is away, a pool hides
why, lets each caller wait for a timeout, and tries again at ever longer intervals.
"""

from __future__ import annotations

import re
import selectors
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, LiteralString, NamedTuple, NoReturn, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row

from redraft.events.errors import InputError, StoreError
from redraft.events.recorders import DatabaseError, DataError, IntegrityError, OperationalError, PersistenceError

LOCK_SECONDS: Final = 10
"""How long a statement waits for a lock that another one holds."""

IDLE_SECONDS: Final = 8
"""How long a client may leave a transaction alone: one that stands still lets go before others have waited in vain."""

STATEMENT_SECONDS: Final = 30
"""How long one statement may take."""

SILENCE: Final = STATEMENT_SECONDS + 10.0
"""Seconds for which a server may say nothing to what it was asked: longer than it may take itself."""

FORM: Final = "postgresql://user@host:5432/database"
_DEFAULTS: Final = {
    "application_name": "redraft",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
"""libpq's parameters where the URL does not say otherwise: a peer that is gone is noticed within 20 seconds."""

_SETTLE: Final = """
    SELECT set_config('lock_timeout', %s, false),
           set_config('statement_timeout', %s, false),
           set_config('idle_in_transaction_session_timeout', %s, false),
           set_config('default_transaction_isolation', 'read committed', false),
           set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') = 'remote_apply'
                                                 THEN 'remote_apply' ELSE 'on' END, false)
"""
_LINES: Final = {
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
"""What an SQLSTATE means and how to mend it; one that begins with a semicolon follows what the server says."""

_CHATTER: Final = re.compile(
    r"^(connection failed|connection is bad|consuming input failed): |Is the server .*?\?|This probably .*?\."
)
"""What libpq and psycopg say besides."""

_UNREACHED: Final = "; check that the server runs, that the database is there, and the address, user and password"


_T = TypeVar("_T")


class Connection(psycopg.Connection[DictRow]):
    """A connection that is given up when the server says nothing for `silence` seconds to what it was asked.

    What lies between us and a server may lose an answer and keep the connection: TCP would wait for it for ever.
    """

    silence: float | None = None
    """None: as long as `SILENCE` says."""

    def wait(self, gen: PQGen[_T], *args: Any, **kwargs: Any) -> _T:  # noqa: ANN401 - psycopg's own
        return super().wait(_heard(self, gen, SILENCE if self.silence is None else self.silence), *args, **kwargs)


class AsyncConnection(psycopg.AsyncConnection[DictRow]):
    """The same for the event loop."""

    silence: float | None = None

    async def wait(self, gen: PQGen[_T], *args: Any, **kwargs: Any) -> _T:  # noqa: ANN401 - psycopg's own
        return await super().wait(_heard(self, gen, SILENCE if self.silence is None else self.silence), *args, **kwargs)


def _heard(connection: psycopg.BaseConnection[Any], gen: PQGen[_T], silence: float) -> PQGen[_T]:
    """Yields what psycopg waits for; closes the connection and raises OperationalError after so long a silence."""
    try:
        heard, wanted = time.monotonic(), next(gen)
        while True:
            ready = yield wanted
            now = time.monotonic()
            if ready:
                heard = now
            elif now > heard + silence:
                gen.close()
                connection.pgconn.finish()
                raise unanswered(silence)
            wanted = gen.send(ready)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


def unanswered(silence: float) -> psycopg.OperationalError:
    """The error of a server that says nothing."""
    return psycopg.OperationalError(f"no answer for {silence:g} s")


class Database:
    """A database that can be connected to. `where` names it in messages, without its password."""

    def __init__(self, url: str) -> None:
        """Raises InputError when the URL is not understood; the line does not repeat it, for it may hold a password."""
        given = _parameters(url)
        self.where = _place(given)
        self._parameters: dict[str, Any] = {**_DEFAULTS, **given, "client_encoding": "utf8"}
        self._secrets = [given[name] for name in ("password", "sslpassword") if given.get(name)]

    def connect(self) -> Connection:
        """A new connection that commits each statement by itself; raises psycopg.Error."""
        connection = Connection.connect(**self._parameters, autocommit=True, row_factory=dict_row)
        try:
            connection.execute(_SETTLE, _limits())
        except BaseException:
            connection.close()
            raise
        return connection

    async def connect_async(self) -> AsyncConnection:
        """The same for the event loop."""
        connection = await AsyncConnection.connect(**self._parameters, autocommit=True, row_factory=dict_row)
        try:
            await connection.execute(_SETTLE, _limits())
        except BaseException:
            await connection.close()
            raise
        return connection

    def explain(self, error: psycopg.Error) -> str:
        """What an error means and how to mend it, in one line and without the password."""
        said = error.diag.message_primary or str(error) or type(error).__name__
        text = " ".join(_CHATTER.sub("", " ".join(said.split())).split())
        line = _LINES.get(error.sqlstate or "", "")
        if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
            line = _UNREACHED
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return line if line and not line.startswith(";") else text + line

    def persistence_error(self, error: psycopg.Error) -> PersistenceError:
        """The error of the `eventsourcing` library that says the same, with a line for people."""
        line = self.explain(error)
        match error:
            case psycopg.IntegrityError():
                return IntegrityError(line)
            case psycopg.DataError():
                return DataError(line)
            case psycopg.OperationalError() | psycopg.InterfaceError():
                return OperationalError(line)
            case _:
                return DatabaseError(line)

    def unreadable(self, error: psycopg.Error) -> StoreError:
        """The error as it is told to people."""
        return StoreError(f"store {self.where}: {self.explain(error)}")


class Connections:
    """Connections that are lent to one thread at a time, and kept for the next.

    `first` is the first statement of each.
    """

    def __init__(self, database: Database, first: LiteralString = "") -> None:
        self._database = database
        self._first = first
        self._idle: deque[_Lent] = deque()
        self._processes: set[int] = set()
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[psycopg.Connection[DictRow]]:
        """A connection that the server has not ended; raises psycopg.Error when there can be none."""
        lent = self._take()
        try:
            yield lent.connection
        finally:
            usable = lent.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            if usable and not self._closed:
                self._idle.append(lent)
            else:
                self._end(lent)

    def serves(self, process: int) -> bool:
        """Whether the server's process with this id serves one of these connections."""
        return process in self._processes

    def close(self) -> None:
        """Ends those that lie idle; those that are lent end when they come back."""
        self._closed = True
        while self._idle:
            self._end(self._idle.pop())

    def _take(self) -> _Lent:
        while self._idle:
            lent = self._idle.pop()
            if not has_something_to_say(lent.connection):
                return lent
            self._end(lent)
        connection = self._database.connect()
        if self._first:
            connection.execute(self._first)
        lent = _Lent(connection, connection.info.backend_pid)
        self._processes.add(lent.process)
        return lent

    def _end(self, lent: _Lent) -> None:
        self._processes.discard(lent.process)
        lent.connection.close()


class _Lent(NamedTuple):
    """A connection, and the server's process that serves it."""

    connection: psycopg.Connection[DictRow]
    process: int


def _limits() -> tuple[str, str, str]:
    lock, statement, idle = (f"{each * 1000:.0f}ms" for each in (LOCK_SECONDS, STATEMENT_SECONDS, IDLE_SECONDS))
    return lock, statement, idle


def has_something_to_say(connection: psycopg.Connection[DictRow] | psycopg.AsyncConnection[DictRow]) -> bool:
    """Whether there is something to read. A server says nothing to an idle connection but that it ends."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return bool(selector.select(0))


def _parameters(url: str) -> dict[str, str]:
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except (psycopg.Error, UnicodeDecodeError):
        _refuse("")
    behind = url.partition("@")[2] + given.get("host", "") + given.get("dbname", "")
    if "@" in behind or not _are_ports(given.get("port", "")):
        _refuse("; in a user's name or password write @ as %40, / as %2F, : as %3A, ? as %3F and % as %25")
    return given


def _are_ports(text: str) -> bool:
    return all(port == "" or (port.isdecimal() and 0 < int(port) < 65536) for port in text.split(","))


def _refuse(remedy: str) -> NoReturn:
    raise InputError(f"store postgresql://… is not understood; give {FORM}{remedy}") from None


def _place(given: Mapping[str, str]) -> str:
    user, host, port, name = (given.get(part, "") for part in ("user", "host", "port", "dbname"))
    folder = f"?host={host}" if host.startswith("/") else ""
    ports = dict(enumerate(port.split(",")))
    hosts = ["" if folder else f"[{each}]" if ":" in each else each for each in host.split(",")]
    addresses = [each + (f":{ports[at]}" if ports.get(at) else "") for at, each in enumerate(hosts)]
    return f"postgresql://{user}{'@' if user else ''}{','.join(addresses)}/{name}{folder}"
