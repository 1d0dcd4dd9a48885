"""Appends to PostgreSQL from the event loop itself, without a thread; used for all appends that succeed.

A hop to a thread and back and psycopg's cursor cost each append a fifth of a millisecond, which is a tenth of a step
where runs go one at a time. This module sends a prepared statement on a non-blocking connection, with values as
PostgreSQL's own binary arrays, and the event loop calls back when the answer arrives.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import DictRow
from psycopg.sql import SQL, Identifier

from redraft.events.postgres import connection as postgres_connection
from redraft.events.postgres.connection import Database, has_ended, unanswered
from redraft.events.store.append import NewRow
from redraft.events.store.recorder import Then

MOST_BYTES: Final = 1024 * 1024
"""The largest insert, in bytes of events: sending more at once would block the event loop for too long."""

_NAME: Final = "redraft_append"
_PREPARE: Final = "PREPARE {name} (text[], bigint[], text[], bytea[]) AS SELECT {append}($1, $2, $3, $4)"
_TEXT: Final = 25
_BIGINT: Final = 20
_BYTEA: Final = 17
"""The object ids of these types in PostgreSQL (`pg_type.dat`)."""

_array = struct.Struct(">iiIii").pack
_length = struct.Struct(">i").pack
_number = struct.Struct(">iq").pack
_position = struct.Struct(">q").unpack


class PostgresDirectWriter:
    """See `DirectWriter`. It has one connection, opened at the first use, and again after it was lost."""

    def __init__(self, database: Database, schema: str) -> None:
        self._database = database
        self._prepare = SQL(_PREPARE).format(name=Identifier(_NAME), append=Identifier(schema, _NAME))
        self._connection: psycopg.AsyncConnection[DictRow] | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._socket = 0
        self._process = 0
        self._rows: Sequence[NewRow] = ()
        self._then: Then | None = None
        self._answer: int | psycopg.Error = psycopg.OperationalError("the server gave no answer")

    def begin(self, rows: Sequence[NewRow], then: Then) -> bool:
        if self._then is not None or not 0 < sum(len(row.state) for row in rows) <= MOST_BYTES:
            return False
        if self._connection is not None and has_ended(self._connection):
            self._close_connection()
        self._rows, self._then = rows, then
        if self._connection is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect(), name="redraft-append")
        else:
            self._send(self._connection.pgconn)
        return True

    def serves(self, process: int) -> bool:
        """Returns whether the server's process with this id serves our connection."""
        return process == self._process

    def close(self) -> None:
        self._close_connection()

    async def _connect(self) -> None:
        try:
            connection = await self._database.connect_async()
            try:
                await connection.execute(self._prepare)
            except BaseException:
                await connection.close()
                raise
        except psycopg.Error as error:
            self._end(error)
        except BaseException:
            self._end(psycopg.OperationalError("the program ends"))
            raise
        else:
            server = connection.pgconn
            self._connection, self._socket, self._process = connection, server.socket, server.backend_pid
            asyncio.get_running_loop().add_reader(self._socket, self._read, server)
            self._send(server)

    def _send(self, server: PGconn) -> None:
        self._answer = psycopg.OperationalError("the server gave no answer")
        silence = postgres_connection.SILENCE
        self._giving_up = asyncio.get_running_loop().call_later(silence, self._lose, unanswered(silence))
        try:
            server.send_query_prepared(_NAME.encode(), _arrays(self._rows), (1, 1, 1, 1), result_format=1)
            if server.flush():
                asyncio.get_running_loop().add_writer(self._socket, self._write, server)
        except psycopg.Error as error:
            self._lose(error)
        except Exception as error:  # noqa: BLE001 - whatever it is: else the request would be held for ever
            self._lose(psycopg.OperationalError(str(error) or repr(error)))

    def _write(self, server: PGconn) -> None:
        """Sends the remaining bytes, as the server accepts them."""
        try:
            if server.flush() == 0:
                asyncio.get_running_loop().remove_writer(self._socket)
        except psycopg.Error as error:
            self._lose(error)

    def _read(self, server: PGconn) -> None:
        """Takes the answer. Without an open request, the only message is that the connection ends."""
        if self._then is None:
            self._close_connection()
            return
        try:
            server.consume_input()
            while not server.is_busy():
                result = server.get_result()
                if result is None:
                    self._end(self._answer)
                    return
                self._answer = _read_result(result)
        except psycopg.Error as error:
            self._lose(error)

    def _lose(self, error: psycopg.Error) -> None:
        """Ends the request with the server's last error, or with the error by which the connection was lost."""
        error_to_report = self._answer if isinstance(self._answer, psycopg.Error) and self._answer.sqlstate else error
        self._close_connection()
        self._end(error_to_report)

    def _end(self, answer: int | psycopg.Error) -> None:
        then, self._then = self._then, None
        if self._giving_up is not None:
            self._giving_up.cancel()
        if then is None:
            return
        if isinstance(answer, int):
            then(range(answer - len(self._rows) + 1, answer + 1))
        else:
            then(self._database.persistence_error(answer))

    def _close_connection(self) -> None:
        connection, self._connection, self._process = self._connection, None, 0
        if connection is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            asyncio.get_running_loop().remove_writer(self._socket)
            connection.pgconn.finish()


def _read_result(result: PGresult) -> int | psycopg.Error:
    """Returns the position of the last recorded event, or the error for which none was recorded."""
    value = result.get_value(0, 0) if result.status == ExecStatus.TUPLES_OK else None
    if value is None:
        return error_from_result(result)
    (last,) = _position(value)
    return int(last)


def _arrays(rows: Sequence[NewRow]) -> tuple[bytes, bytes, bytes, bytes]:
    """Returns the columns of the rows as PostgreSQL's binary arrays (`array_recv` in its source): one dimension, from 1
    on.
    """
    return (
        _array_of(_TEXT, [_with_length(row.originator_id.encode()) for row in rows]),
        _array_of(_BIGINT, [_number(8, row.originator_version) for row in rows]),
        _array_of(_TEXT, [_with_length(row.topic.encode()) for row in rows]),
        _array_of(_BYTEA, [_with_length(row.state) for row in rows]),
    )


def _array_of(kind: int, items: Sequence[bytes]) -> bytes:
    return _array(1, 0, kind, len(items), 1) + b"".join(items)


def _with_length(value: bytes) -> bytes:
    return _length(len(value)) + value
