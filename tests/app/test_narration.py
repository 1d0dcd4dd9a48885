"""What a deployment logs of its projections."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from functools import partial

from tests.projections.logs import ListLog, busy_log

from redraft.app.logs import new_log
from redraft.app.narration import tell_of_projection
from redraft.events.envelope import Recorded
from redraft.projections import Projection, Set, Table, catch_up, open_views

LOG = busy_log(4)
TABLE = Table("counts", {"name": "TEXT NOT NULL", "count": "INTEGER NOT NULL"})


def counted(event: Recorded) -> Sequence[Set]:
    return (Set("counts", (event.name,), {}, {"count": 1}, new={"name": event.name, "count": 0}),)


def broken(event: Recorded) -> Sequence[Set]:
    if event.position == 9:
        raise LookupError("no use")
    return counted(event)


async def test_a_projection_that_stops_goes_on_or_is_switched_is_logged(postgres_url: str):
    stream = io.StringIO()
    told = partial(tell_of_projection, new_log(stream, "json", "coordinator"))
    for version, apply in ((1, broken), (1, counted), (2, counted)):
        async with await open_views(postgres_url, [Projection("counts", version, (TABLE,), apply)], told) as views:
            await catch_up(views, ListLog(LOG))
    stopped, goes_on, switched = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (stopped["event"], stopped["level"]) == ("projection stopped", "error")
    assert (stopped["projection"], stopped["position"], stopped["at"]) == ("counts", 8, 9)
    assert stopped["error"].startswith("LookupError: no use (test_narration.py, line ")
    assert (goes_on["event"], goes_on["position"]) == ("projection goes on", len(LOG))
    assert (switched["event"], switched["before"], switched["version"]) == ("projection switched", 1, 2)
    assert switched["differ"] == {"counts": 0}
