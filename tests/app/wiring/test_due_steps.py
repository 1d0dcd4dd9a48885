"""What the timekeeper looks at: what an agenda remembers is what it would read, and what stays is not read twice."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.projections.logs import view_of
from tests.streams import START, recorded

from redraft.app.wiring.coordinator_views import StepsAgenda
from redraft.events.messages.domain_events import StepFailed, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.projections.engine.views import Views

SECOND = timedelta(seconds=1)


def asked_and_failed(dues: list[int]) -> list[Recorded]:
    """Requests that are due so many seconds after the start; every third fails, and is to be tried again then."""
    log = []
    for number, due in enumerate(dues, 1):
        at = START + due * SECOND
        data = (
            StepFailed(f"p{number - 1}", 1, "error", "out of order", at)
            if number % 3 == 0
            else StepRequested(f"p{number}", "critic", f"judge{number % 2}", 1, at)
        )
        log.append(replace(recorded("r", [("c", data)])[0], version=number, position=number))
    return log


async def read_by(agenda: StepsAgenda, now: int, limit: int) -> list[object]:
    """What a look and a rest ask for."""
    at = START + now * SECOND
    page = await agenda.due(at, limit)
    rest = [await agenda.due(at, limit, page[-1])] if len(page) == limit else []
    return [list(page), *map(list, rest), list(await agenda.actors()), await agenda.next_due(at)]


@given(
    dues=st.lists(st.integers(0, 50), max_size=9),
    times=st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=30),
    limit=st.integers(1, 4),
)
def test_what_it_remembers_is_what_it_would_read(dues: list[int], times: list[tuple[int, bool]], limit: int) -> None:
    """Whatever the clock shows, also when it is set back."""

    async def compared() -> None:
        log = asked_and_failed(dues)
        async with view_of([]) as views:
            agenda = StepsAgenda(views, None)
            for now, grows in times:
                if grows and log:
                    event = log.pop(0)
                    await views.write([event], event.position - 1)
                fresh = await read_by(StepsAgenda(views, None), now, limit)
                assert await read_by(agenda, now, limit) == fresh

    asyncio.run(compared())


async def test_what_stays_as_it_was_is_not_read_twice() -> None:
    async with view_of(asked_and_failed([20])) as views:
        agenda, reads = StepsAgenda(views, None), statements(views)
        first = await read_by(agenda, 1, 9)
        assert len(reads) == 3
        assert await read_by(agenda, 19, 9) == first
        assert len(reads) == 3
        (page, *_) = await read_by(agenda, 20, 9)
        assert page != []
        assert len(reads) > 3


async def test_other_runs_are_other_steps() -> None:
    runs: set[str] = set()
    async with view_of(asked_and_failed([20])) as views:
        agenda = StepsAgenda(views, runs)
        assert await read_by(agenda, 1, 9) == [[], [], None]
        runs.add("r")
        assert await read_by(agenda, 1, 9) == [[], [("critic", "judge1")], START + 20 * SECOND]


def statements(views: Views) -> list[str]:
    """Those that are read with, from now on."""
    made: list[str] = []
    views._open_reader._connection.set_trace_callback(made.append)  # type: ignore[attr-defined]
    return made
