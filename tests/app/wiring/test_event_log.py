"""What a deployment logs of its runs and of its projections."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from functools import partial

from tests.projections.logs import ListLog, busy_log
from tests.streams import article

from redraft.app.process.logs import new_log
from redraft.app.wiring.parts import LoggedPublisher, log_notice
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import RunFacts
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
        async def publish_events(self, events: Sequence[Recorded], facts: Mapping[str, RunFacts]) -> None:
            announced.extend(events)

    stream = io.StringIO()
    publisher = LoggedPublisher(Announcing(), new_log(stream, "json", "coordinator"))
    await publisher.publish_events(article(), {})
    assert tuple(announced) == article()
    await publisher.publish_events(article(), {})
    assert tuple(announced) == (*article(), *article()), "announced once more, and not logged again"
    begun, ended = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (begun["event"], begun["run"], begun["workflow"]) == ("run started", "01JQ-article", "article")
    assert (ended["event"], ended["run"], ended["outcome"]) == ("run ended", "01JQ-article", "accepted")
    assert (ended["iterations"], ended["score"]) == (3, 0.931)
    assert "tides" not in stream.getvalue(), "names and numbers, no text"


async def test_a_projection_that_stops_goes_on_or_is_switched_is_logged(postgres_url: str):
    stream = io.StringIO()
    told = partial(log_notice, new_log(stream, "json", "coordinator"))
    for version, apply in ((1, broken), (1, counted), (2, counted)):
        async with open_views(postgres_url, [Projection("counts", version, (TABLE,), apply)], told) as views:
            await catch_up(views, ListLog(LOG))
    stopped, goes_on, switched = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (stopped["event"], stopped["level"]) == ("projection stopped", "error")
    assert (stopped["projection"], stopped["position"], stopped["at"]) == ("counts", 8, 9)
    assert stopped["error"].startswith("LookupError: no use (test_event_log.py, line ")
    assert (goes_on["event"], goes_on["position"]) == ("projection goes on", len(LOG))
    assert (switched["event"], switched["before"], switched["version"]) == ("projection switched", 1, 2)
    assert switched["differ"] == {"counts": 0}
