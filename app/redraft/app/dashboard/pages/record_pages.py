"""The record itself: raw events with their causes as links, the chain's badge, two runs side by side, and search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import Response
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from redraft.actors.formats.yaml_writer import print_plan
from redraft.app.dashboard.chain import ChainCheck, ChainShown
from redraft.app.dashboard.live import Subject
from redraft.app.dashboard.visit import Visit, Visits, page
from redraft.app.record.auditing.audit_drafts import Change, change_of
from redraft.app.record.copying.with_texts import with_texts
from redraft.app.record.past import drafts_of, events_of
from redraft.app.runs.searching import Found, Listing, list_matching
from redraft.app.server.api.answers import beside
from redraft.app.server.api.events import EventPage, read_events
from redraft.events.messages.content import Draft, new_draft
from redraft.events.messages.domain_events import RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.filters import event_filter
from redraft.projections.display import quoted
from redraft.projections.read_models.runs_query import RunFilter, RunLine, find_run
from redraft.projections.run_views.chart import Chart, chart, kept_draft, scores
from redraft.projections.run_views.goals import goals
from redraft.projections.run_views.state import StateAt, ValueDifference, differences, state_at

_EVENTS: Final = 100
_OF_RUN: Final = 1_000
_FOUND: Final = 20
_DIFFERENCE: Final = 20_000
"""The maximum number of characters of a difference that are shown."""

Checks = NamedDependency[SkipValidation[ChainCheck]]


class EventChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """The query parameters of the page of events."""

    run: str = ""
    type: str = ""
    after: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None

    @property
    def command(self) -> str:
        """The command line that shows the same events."""
        given = {"run": self.run, "type": self.type, "from": "" if self.after is None else str(self.after + 1)}
        return " ".join(("redraft events", *(f"--{name} {quoted(each)}" for name, each in given.items() if each)))


class EventsShown(msgspec.Struct, frozen=True):
    """Events, the oldest first, of the log's end unless a position is given; `causes` are the ids of those shown."""

    choice: EventChoice
    types: Sequence[str]
    page: EventPage
    causes: frozenset[str]
    head: int
    full: bool

    def raw(self, event: Recorded) -> str:
        """Returns the data of an event as indented JSON."""
        return msgspec.json.format(msgspec.json.encode(event.data), indent=2).decode()


@page("/events")
async def list_events(visit: Visits) -> Response[Any]:
    """Shows events as they are recorded, each with a link to its cause."""
    choice = visit.query(EventChoice)

    async def make() -> EventsShown:
        service = visit.service
        head = await service.runtime.store.head()
        run = (await find_run(service.runtime.views, choice.run)).run if choice.run else ""
        criteria = event_filter(runs=[run] if run else (), types=[choice.type] if choice.type else ())
        start = choice.after if choice.after is not None else 0 if run or choice.type else max(head - _EVENTS, 0)
        limit = _OF_RUN if run else _EVENTS
        found = await read_events(service, criteria, start, limit)
        types = sorted(name.rpartition(".")[0] for name in EVENT_NAMES.values())
        ids = frozenset(each.id for each in found.events)
        return EventsShown(choice, types, found, ids, head, len(found.events) == limit)

    return await visit.show("events", "Events", make, None)


@page("/chain")
async def show_chain(visit: Visits, chain: Checks) -> Response[Any]:
    """Shows up to where and when the log was verified here, and what was found."""

    async def make() -> ChainShown:
        return await chain.look()

    return await visit.show("chain", "The record", make, Subject(every=2.0))


class CompareChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """The runs to compare: ids, the starts or ends of them, or `last`."""

    a: str = ""
    b: str = ""


class Side(msgspec.Struct, frozen=True):
    """One of two runs: its line, its brief and scores, its plan as YAML, and the draft that it ended with."""

    run: RunLine
    brief: str
    chart: Chart
    plan: Draft
    draft: Draft | None
    state: StateAt


class CompareShown(msgspec.Struct, frozen=True):
    """Two runs side by side, and how their plans, states and final drafts differ; no sides where none was chosen."""

    choice: CompareChoice
    sides: Sequence[Side] = ()
    plans: Change | None = None
    drafts: Change | None = None
    values: Sequence[ValueDifference] = ()


@page("/compare")
async def compare_runs(visit: Visits) -> Response[Any]:
    """Shows two runs side by side."""
    choice = visit.query(CompareChoice)

    async def make() -> CompareShown:
        if not (choice.a and choice.b):
            return CompareShown(choice)
        a, b = await _side(visit, choice.a), await _side(visit, choice.b)
        return await beside(lambda: _compared(choice, a, b))

    return await visit.show("compare", "Two runs", make, None)


async def _side(visit: Visit, text: str) -> Side:
    log = visit.service.runtime
    (line,) = await with_texts(log.store, [await find_run(log.views, text)])
    events = await events_of(log, text)
    drafts, kept = drafts_of(events), kept_draft(events)
    begun = next((each.data for each in events if isinstance(each.data, RunStarted)), None)
    plan = new_draft(1, print_plan(begun.plan) if begun else "")
    final = drafts.get(kept or max(drafts, default=0))
    brief, shown = begun.brief.text if begun else "", chart(scores(events), goals(events), kept)
    return Side(line, brief, shown, plan, final, state_at(events))


def _compared(choice: CompareChoice, a: Side, b: Side) -> CompareShown:
    plans = None if a.plan.text == b.plan.text else change_of(a.plan, b.plan, (), _DIFFERENCE)
    same = a.draft is None or b.draft is None or a.draft.sha256 == b.draft.sha256
    drafts = None if same or a.draft is None or b.draft is None else change_of(a.draft, b.draft, (), _DIFFERENCE)
    return CompareShown(choice, (a, b), plans, drafts, differences(a.state.state, b.state.state))


class SearchChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """The query parameters of the search page."""

    words: Annotated[str, msgspec.Meta(max_length=500)] = ""
    after: str = ""


class SearchShown(msgspec.Struct, frozen=True):
    """The runs with the words, and where they have them; `next` is the run after which the next page begins."""

    choice: SearchChoice
    listing: Listing | None = None
    next: str = ""

    def place(self, run: str) -> Found | None:
        """Returns where a run has the words."""
        found = self.listing.found if self.listing else ()
        return next((each for each in found if each.run == run), None)


@page("/search")
async def search(visit: Visits) -> Response[Any]:
    """Shows the runs that have words in their briefs or drafts, and where."""
    choice = visit.query(SearchChoice)

    async def make() -> SearchShown:
        if not choice.words:
            return SearchShown(choice)
        log = visit.service.runtime
        start = await find_run(log.views, choice.after) if choice.after else None
        found = await list_matching(log, RunFilter(search=choice.words), _FOUND, start)
        return SearchShown(choice, found, found.runs[-1].run if len(found.runs) == _FOUND else "")

    return await visit.show("search", "Search", make, None)


PAGES: Final = (list_events, show_chain, compare_runs, search)
