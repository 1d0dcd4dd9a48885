"""One draft: its text with what critics said beside the words that they quote, rendered, and against another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Final, Literal

import msgspec
from litestar import Response
from litestar.params import FromPath
from markdown_it import MarkdownIt
from markupsafe import Markup
from nh3 import clean

from redraft.app.dashboard.live import Subject
from redraft.app.dashboard.visit import Visits, page
from redraft.app.record.auditing.audit_drafts import Version, versions
from redraft.app.record.changes import Changes, compare_drafts
from redraft.app.record.past import GrowingRun, events_of
from redraft.app.server.api.answers import beside
from redraft.app.server.api.parameters import RunPath
from redraft.app.server.problems import Refused
from redraft.app.subscribing.misfits import folded
from redraft.events.messages.content import DraftRef, Issue, Span
from redraft.events.messages.domain_events import DraftMade, RunEnded, RunErased, RunQuarantined
from redraft.events.messages.envelope import Recorded
from redraft.projections.read_models.runs_query import find_run
from redraft.projections.run_views.chart import kept_draft
from redraft.projections.run_views.people_asked import waiting_text

LONGEST: Final = 200_000
"""The most letters of a draft that are shown on its page."""

_TAGS: Final = frozenset(
    [
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "strong",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    ]
)


class Note(msgspec.Struct, frozen=True):
    """An issue of a critic, by its number on the page. One without a place says so by having no `span`."""

    number: int
    critic: str
    issue: Issue
    span: Span | None


class Piece(msgspec.Struct, frozen=True):
    """A stretch of the text, with the numbers of the notes that quote it."""

    text: str
    notes: tuple[int, ...] = ()


class Paragraph(msgspec.Struct, frozen=True):
    """Lines of the text up to an empty one, and the notes whose place begins there."""

    pieces: tuple[Piece, ...]
    notes: tuple[Note, ...]


class DraftChoice(msgspec.Struct, frozen=True):
    """The form in which a draft is shown: its text with notes, or rendered Markdown."""

    form: Literal["text", "rendered"] = "text"


class Decision(msgspec.Struct, frozen=True):
    """The decisions that are open on a draft of a run.

    `waits`: people are asked about this one; `waiting` is the number of the draft that they are asked about (0: none),
    `waits_for` says who is asked, `step` is the path of the step that asks, `approved` are those who have approved it
    there, and a rejection `ends` the run.
    `is_over`: the run has ended, or was set aside.
    """

    run: str
    draft: DraftRef
    waits: bool
    waiting: int
    newest: int
    is_over: bool
    is_erased: bool
    waits_for: str = ""
    step: str = ""
    approved: tuple[str, ...] = ()
    ends: bool = False


class DraftShown(msgspec.Struct, frozen=True):
    """A draft of a run. `others` are the numbers of all drafts."""

    run: str
    choice: DraftChoice
    version: Version
    paragraphs: Sequence[Paragraph]
    placeless: Sequence[Note]
    rendered: Markup
    others: Sequence[int]
    is_kept: bool
    decision: Decision
    cut: int
    command: str


@page("/runs/{run:str}/drafts/{number:int}")
async def show_draft(visit: Visits, run: RunPath, number: FromPath[int]) -> Response[Any]:
    """Shows a draft as it is for good, so that a decision is about what was looked at, and what can be decided now."""
    choice = visit.query(DraftChoice)
    line = await find_run(visit.service.runtime.views, run)

    growing = GrowingRun(visit.service.runtime, line.run)

    async def make() -> DraftShown:
        events = await growing.events()
        return await beside(lambda: draft_shown(events, number, choice))

    async def decide() -> Decision:
        return decision_on(await growing.events(), number)

    return await visit.show("draft", f"Draft {number} · {line.run[-8:]}", make, Subject(run=line.run), decide, own=True)


def draft_shown(events: Sequence[Recorded], number: int, choice: DraftChoice) -> DraftShown:
    """Returns what a page shows of a draft. Raises Refused when there is none of this number."""
    decision = decision_on(events, number)
    made = {each.draft.version: each for each in versions(events)}
    version = made[number]
    text = version.draft.text[:LONGEST]
    notes = notes_of(version, text)
    return DraftShown(
        events[0].run,
        choice,
        version,
        tuple(paragraphs(text, notes)) if choice.form == "text" else (),
        [note for note in notes if note.span is None],
        rendered(text) if choice.form == "rendered" else Markup(""),
        list(made),
        kept_draft(events) == number,
        decision,
        len(version.draft.text) - len(text),
        f"redraft show {events[0].run} --at {_made_at(events, number)} --text",
    )


def decision_on(events: Sequence[Recorded], number: int) -> Decision:
    """Returns what can be decided on a draft after these events. Raises Refused when there is none of this number."""
    made = {each.data.draft.version: each.data.draft.ref for each in events if isinstance(each.data, DraftMade)}
    if number not in made:
        raise Refused(404, "no-such-draft", f"run {events[0].run} has {len(made)} drafts, and no draft {number}")
    told = {type(each.data) for each in events}
    is_over = bool(told & {RunEnded, RunQuarantined})
    asked = None if is_over else folded(events).approval
    waiting = asked.request.draft if asked else DraftRef(0, "")
    found = Decision(
        *(events[0].run, made[number], waiting == made[number], waiting.version, max(made)), is_over, RunErased in told
    )
    if asked is None:
        return found
    text, ends = waiting_text(asked.request, asked.by), "]/" not in asked.request.path
    return msgspec.structs.replace(found, waits_for=text, step=asked.request.path, approved=asked.by, ends=ends)


def _made_at(events: Sequence[Recorded], number: int) -> int:
    """Returns the version of the event that made a draft: the newest one of the run as it stood then."""
    made = (each for each in events if isinstance(each.data, DraftMade) and each.data.draft.version == number)
    return next(each.version for each in made)


def notes_of(version: Version, text: str) -> tuple[Note, ...]:
    """Returns the issues of a draft's critiques in the order of their places; those without one come last."""
    found = [(each.critique.critic, issue) for each in version.critiques for issue in each.critique.issues]
    placed = [(critic, issue, span_of(issue, text)) for critic, issue in found]
    placed.sort(key=lambda each: each[2] or (len(text) + 1, 0))
    return tuple(Note(number, *each) for number, each in enumerate(placed, 1))


def span_of(issue: Issue, text: str) -> Span | None:
    """Returns the place of an issue in the text; None where it has none there."""
    if issue.span is not None:
        return issue.span if 0 <= issue.span[0] < issue.span[1] <= len(text) else None
    start = text.find(issue.quote) if issue.quote else -1
    return (start, start + len(issue.quote)) if start >= 0 else None


def paragraphs(text: str, notes: Sequence[Note]) -> Iterator[Paragraph]:
    """Yields the text in paragraphs, each with the notes that begin in it."""
    start = 0
    while start < len(text):
        gap = text.find("\n\n", start)
        end = len(text) if gap < 0 else gap + 2
        within = [each for each in notes if each.span and each.span[0] < end and each.span[1] > start]
        begun = tuple(each for each in within if each.span and each.span[0] >= start)
        yield Paragraph(tuple(_pieces(text, start, end, within)), begun)
        start = end


def _pieces(text: str, start: int, end: int, notes: Sequence[Note]) -> Iterator[Piece]:
    spans = [(each.number, *each.span) for each in notes if each.span]
    edges = sorted({start, end, *(edge for _, *span in spans for edge in span if start < edge < end)})
    for left, right in pairwise(edges):
        yield Piece(text[left:right], tuple(number for number, first, last in spans if first < right and last > left))


def rendered(text: str) -> Markup:
    """Returns Markdown as HTML that holds nothing but text with its form: no script, picture, style or handler."""
    html = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).render(text)
    attributes = {"a": {"href"}}
    safe = clean(html, tags=set(_TAGS), attributes=attributes, url_schemes={"http", "https", "mailto"})
    return Markup(safe)  # noqa: S704 - cleaned in the line before


class DiffChoice(msgspec.Struct, frozen=True):
    """The two drafts that the address of a difference names."""

    a: Annotated[int, msgspec.Meta(ge=1)]
    b: Annotated[int, msgspec.Meta(ge=1)]


class DiffShown(msgspec.Struct, frozen=True):
    """The changes between two drafts of a run, each with the issues that it answers."""

    run: str
    choice: DiffChoice
    changes: Changes
    others: Sequence[int]
    command: str


@page("/runs/{run:str}/diff")
async def show_diff(visit: Visits, run: RunPath) -> Response[Any]:
    """Shows what changed between two drafts."""
    choice = visit.query(DiffChoice)
    events = await events_of(visit.service.runtime, run)

    async def make() -> DiffShown:
        changes = await beside(lambda: compare_drafts(events, choice.a, choice.b))
        others = [each.draft.version for each in versions(events)]
        line = f"redraft diff {events[0].run} {choice.a} {choice.b}"
        return DiffShown(events[0].run, choice, changes, others, line)

    return await visit.show("diff", f"Drafts {choice.a} and {choice.b} · {events[0].run[-8:]}", make, None)


PAGES: Final = (show_draft, show_diff)
