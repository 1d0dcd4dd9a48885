"""One run: why it ended or what it does, its scores, lanes and drafts, at any of its versions, and words to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import Response, post
from litestar.params import FromPath, URLEncodedBody

from redraft.app.dashboard.drawing.lanes import Item, lanes
from redraft.app.dashboard.drawing.plan_picture import Picture, picture
from redraft.app.dashboard.live import Subject
from redraft.app.dashboard.visit import Visits, page
from redraft.app.record.auditing.audit_drafts import Version, versions
from redraft.app.record.past import GrowingRun, drafts_of, final_draft
from redraft.app.runs.browser_text import from_browser
from redraft.app.runs.steering import Word, draft_meant
from redraft.app.server import words
from redraft.app.server.access.identity import needs
from redraft.app.server.api.answers import beside
from redraft.app.server.api.bodies import Approval, Edit, Forking, Guidance, Reason, Rejection
from redraft.app.server.api.parameters import RunPath
from redraft.app.server.api.submitting import begin_fork
from redraft.app.server.problems import Refused
from redraft.events.messages.commands import SteeringMessage
from redraft.events.messages.domain_events import RunEnded, RunErased, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.run_state import Value
from redraft.projections.display import brief_text
from redraft.projections.read_models.runs_query import find_run
from redraft.projections.run_views.chart import Chart, Point, chart, kept_draft, scores, scores_by_part
from redraft.projections.run_views.goals import goals
from redraft.projections.run_views.sentences import sentence_of
from redraft.projections.run_views.state import StateAt, StateChange, state_at
from redraft.projections.run_views.tree import tree
from redraft.projections.run_views.tree_model import Tree

DRAFTS: Final = 200
"""The most drafts that are listed: the newest."""

VALUES: Final = 200
"""The most values of the state that are listed."""


class RunChoice(msgspec.Struct, frozen=True):
    """The query parameters of a run's page: the run after its first `at` events, by default after all."""

    at: Annotated[int, msgspec.Meta(ge=1)] | None = None


class RunShown(msgspec.Struct, frozen=True):
    """A run after `tree.version` of its `total` events, of which `sentence` tells what counts most.

    `chart` has its scores, `parts` those of criteria or critics. `final` is the newest draft, or that which it ended
    with, and `waiting` the draft that waits for people (0: none does). `is_erased`: its texts can no longer be read.
    `state` are the values of its state.
    """

    tree: Tree
    total: int
    sentence: str
    latest: str
    brief: str
    tags: Sequence[str]
    chart: Chart
    judged: Sequence[Point]
    parts: dict[str, dict[int, Point]]
    course: Sequence[Item]
    plan: Picture | None
    state: StateAt
    drafts: Sequence[Version]
    kept: int
    waiting: int
    is_erased: bool
    final: str
    command: str

    @property
    def values(self) -> list[tuple[str, Value, StateChange]]:
        """The first values of the state, each with its last change."""
        return self.state.rows[:VALUES]

    @property
    def is_past(self) -> bool:
        return self.tree.version < self.total


@page("/runs/{run:str}")
async def show_run(visit: Visits, run: RunPath) -> Response[Any]:
    """Shows a run as it is, and goes on with it; or as it stood after some of its events."""
    line = await find_run(visit.service.runtime.views, run)
    choice, growing = visit.query(RunChoice), GrowingRun(visit.service.runtime, line.run)

    async def make() -> RunShown:
        events = await growing.events()
        if choice.at is not None and choice.at > len(events):
            told = f"run {line.run} has no version {choice.at}: it has {len(events)} events"
            raise Refused(404, "no-such-version", told)
        return await beside(lambda: run_shown(events, choice.at, line.tags))

    subject = Subject(run=line.run) if choice.at is None else None
    return await visit.show("run", f"{line.brief or line.workflow} · {line.run[-8:]}", make, subject)


def run_shown(events: Sequence[Recorded], at: int | None, tags: Sequence[str]) -> RunShown:
    """Returns what a page shows of a run with these events, after the first `at` of them."""
    past = events[:at]
    seen, latest = tree(past), sentence_of(past[-1], past)
    ended = next((each for each in reversed(past) if isinstance(each.data, RunEnded)), None)
    started = next((each.data for each in past if isinstance(each.data, RunStarted)), None)
    judged, parts, kept = scores(past), scores_by_part(past), kept_draft(past)
    drafts = versions(past)
    return RunShown(
        seen,
        len(events),
        sentence_of(ended, past) if ended else now_text(seen, latest),
        latest,
        brief_text(started.brief) if started else "",
        tags,
        chart(judged, goals(past), kept, parts),
        judged,
        {name: {point.draft: point for point in points} for name, points in parts.items()},
        lanes(
            seen.branches,
            {point.draft: point for point in judged},
            over=seen.ended is not None or bool(seen.quarantined),
        ),
        picture(started.plan, seen) if started else None,
        state_at(past),
        drafts[-DRAFTS:],
        kept or 0,
        draft_meant(past, None).version if seen.waiting else 0,
        any(isinstance(each.data, RunErased) for each in events),
        final_draft(past).text if drafts else "",
        f"redraft show {seen.run}" + (f" --at {seen.version}" if at else ""),
    )


def now_text(seen: Tree, latest: str = "") -> str:
    """Returns what a run does that has not ended."""
    if seen.quarantined:
        return f"it was set aside {seen.quarantined}"
    if seen.paused:
        return f"it is paused {seen.paused}"
    return f"it waits: {seen.waiting}" if seen.waiting else f"it goes on: {latest}"


@post("/runs/{run:str}/guide", status_code=200)
async def guide(visit: Visits, run: RunPath, data: URLEncodedBody[Guidance]) -> Response[Any]:
    """Gives advice to the next refinement."""
    return await _say(visit, run, words.guiding(visit.identity, data))


@post("/runs/{run:str}/word/{word:str}", status_code=200)
async def say_word(
    visit: Visits, run: RunPath, word: FromPath[words.PlainWord], data: URLEncodedBody[Reason]
) -> Response[Any]:
    """Pauses a run, goes on with it, or ends it."""
    return await _say(visit, run, words.PLAIN[word](visit.identity, data))


@post("/runs/{run:str}/approve", status_code=200)
async def approve(visit: Visits, run: RunPath, data: URLEncodedBody[Approval]) -> Response[Any]:
    """Approves the very draft of the page."""
    return await _say(visit, run, words.approving(visit.identity, data))


@post("/runs/{run:str}/reject", status_code=200)
async def reject(visit: Visits, run: RunPath, data: URLEncodedBody[Rejection]) -> Response[Any]:
    """Rejects the very draft of the page."""
    return await _say(visit, run, words.rejecting(visit.identity, data))


@post("/runs/{run:str}/edit", status_code=200)
async def edit(visit: Visits, run: RunPath, data: URLEncodedBody[Edit]) -> Response[Any]:
    """Gives the run a draft of a person's own, made from the very draft of the page."""
    most = visit.service.settings.max_draft_bytes

    def word(past: Sequence[Recorded]) -> SteeringMessage:
        drafts = drafts_of(past)
        before = drafts.get(data.draft or max(drafts, default=0))
        text = from_browser(before.text if before else "", data.text)
        return words.editing(visit.identity, msgspec.structs.replace(data, text=text), most)(past)

    return await _say(visit, run, word)


class ForkHere(msgspec.Struct, frozen=True):
    """The event after which a fork goes its own way."""

    at: Annotated[int, msgspec.Meta(ge=1)]


@post("/runs/{run:str}/fork", status_code=200, guards=[needs("submit")])
async def fork(visit: Visits, run: RunPath, data: URLEncodedBody[ForkHere]) -> Response[Any]:
    """Begins a fork after an event, and leads to it."""
    begun = await begin_fork(visit.service, visit.identity, run, Forking(data.at))
    return visit.go(f"/runs/{begun.run}")


async def _say(visit: Visits, run: str, word: Word) -> Response[Any]:
    said = await words.say(visit.service, visit.identity, run, word)
    return visit.tell("run_said.html", said=said)


PAGES: Final = (show_run,)
FORMS: Final = (guide, say_word, approve, reject, edit)
BEGINNING: Final = (fork,)
