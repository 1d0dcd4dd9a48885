"""Servers that some tests need. Where one is not reachable the test is skipped, or fails if services are required."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

POSTGRES_URL: Final = os.environ.get("REDRAFT_TEST_POSTGRES", "postgresql://127.0.0.1:5432/postgres")
"""A database of a server in which the tests may make databases of their own."""


def missing(line: str) -> NoReturn:
    """Skips the test with this line, which says what to start; fails it where REDRAFT_REQUIRE_SERVICES=1."""
    if os.environ.get("REDRAFT_REQUIRE_SERVICES") == "1":
        pytest.fail(line)
    pytest.skip(line)


@contextmanager
def postgres_database() -> Iterator[str]:
    """The URL of a new, empty database, which is dropped at the end."""
    name = f"redraft_test_{os.getpid()}_{uuid4().hex[:8]}"
    try:
        server = psycopg.connect(POSTGRES_URL, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as error:
        missing(
            f"PostgreSQL is not reachable ({' '.join(str(error).split())}); start it, for instance by "
            "`docker run -p 127.0.0.1:5432:5432 -e POSTGRES_HOST_AUTH_METHOD=trust postgres`, or set "
            "REDRAFT_TEST_POSTGRES=postgresql://user@host/database"
        )
    with server:
        server.execute(SQL("CREATE DATABASE {} ENCODING 'UTF8' TEMPLATE template0").format(Identifier(name)))
        try:
            yield psycopg.conninfo.make_conninfo(POSTGRES_URL, dbname=name)
        finally:
            server.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def postgres_place(database: str) -> str:
    """The URL of an empty place to keep something in: a new schema in this database."""
    name = f"place_{uuid4().hex[:12]}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(name)))
    given = psycopg.conninfo.conninfo_to_dict(database)
    rest = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in given.items())
    return f"postgresql://?{rest}&options={quote(f'-csearch_path={name}')}"
