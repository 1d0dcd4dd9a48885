"""What a deployment logs of its runs and of its projections."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from functools import partial

from tests.projections.logs import ListLog, busy_log
from tests.streams import article

from redraft.app.logs import new_log
from redraft.app.narration import Narration, tell_of_projection
from redraft.events.envelope import Recorded
from redraft.events.filters import About
from redraft.projections import Projection, Set, Table, catch_up, open_views

LOG = busy_log(4)
TABLE = Table("counts", {"name": "TEXT NOT NULL", "count": "INTEGER NOT NULL"})


def counted(event: Recorded) -> Sequence[Set]:
    return (Set("counts", (event.name,), {}, {"count": 1}, new={"name": event.name, "count": 0}),)


def broken(event: Recorded) -> Sequence[Set]:
    if event.position == 9:
        raise LookupError("no use")
    return counted(event)


async def test_a_run_is_logged_when_it_begins_and_when_it_ends_and_every_event_is_announced():
    announced: list[Recorded] = []

    class Announcing:
        async def announce(self, events: Sequence[Recorded], facts: Mapping[str, About]) -> None:
            announced.extend(events)

    stream = io.StringIO()
    await Narration(Announcing(), new_log(stream, "json", "coordinator")).announce(article(), {})
    assert tuple(announced) == article()
    begun, ended = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (begun["event"], begun["run"], begun["workflow"]) == ("run started", "01JQ-article", "article")
    assert (ended["event"], ended["run"], ended["outcome"]) == ("run ended", "01JQ-article", "accepted")
    assert (ended["iterations"], ended["score"]) == (3, 0.931)
    assert "tides" not in stream.getvalue(), "names and numbers, no text"


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
