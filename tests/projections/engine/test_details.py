"""PostgreSQL's details hold the texts of a row: neither a read model nor a log keeps them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable

import psycopg
import pytest

from redraft.app.process.logs import libraries, new_log
from redraft.projections.engine.states import describe_error


def _logged(error: Exception) -> str:
    stream = io.StringIO()
    with libraries(new_log(stream, "json", "coordinator")):
        logging.getLogger("eventsourcing").error("it failed", exc_info=error)
    return str(json.loads(stream.getvalue())["exception"])


@pytest.mark.parametrize("told_by", [describe_error, _logged])
def test_the_texts_of_a_row_are_not_told(postgres_url: str, told_by: Callable[[Exception], str]) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE texts (run text NOT NULL, text text)")
        with pytest.raises(psycopg.IntegrityError) as raised:
            connection.execute("INSERT INTO texts VALUES (NULL, 'what nobody may read')")
    assert "what nobody may read" in str(raised.value)
    told = told_by(raised.value)
    assert "what nobody may read" not in told
    assert told.startswith("NotNullViolation: null value in column")
    assert "(23502)" in told
