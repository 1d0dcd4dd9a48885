"""The audit of one run as one HTML file that needs nothing else: no script, no font, no picture from anywhere.

Everything that a run recorded is untrusted and goes through `audit_markup.text`. A strict Content-Security-Policy is
in the page itself: it allows the style sheet that stands in it, by its hash, and nothing else.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Final, assert_never

import msgspec

from redraft.actors.condition_text import print_condition
from redraft.app.audit_drafts import bar, draft_text, drafts_part, letters, versions
from redraft.app.audit_markup import Markup, folding, joined, tag, text
from redraft.events.content import Draft
from redraft.events.domain_events import RunStarted
from redraft.events.envelope import Recorded
from redraft.projections.branches import Branch, Group, Leaf, Loop, Pass, Tree
from redraft.projections.chart import chart
from redraft.projections.plain import NAME_LENGTH, counted, outcome_text, plain
from redraft.projections.scores import goals, kept, scores
from redraft.projections.story import Entry, story
from redraft.projections.tree import tree

ROWS: Final = 5_000
"""Rows of a table that are shown at most: the first and the last half of so many."""
PLAN_SHOWN: Final = 50_000
"""Characters of the plan that are shown at most."""


def render(events: Sequence[Recorded], verified: bool) -> str:
    """The page of a run, from all its events or the first of them. `verified`: its hash chain was checked and holds.

    The size is bounded; where something is left out, the page says so. It is UTF-8, whatever the events hold.
    """
    grown = tree(events)
    style = files("redraft.app").joinpath("audit_page.css").read_text(encoding="utf-8")
    name = grown.workflow or "a run"
    head = tag("head", *_head(f"{name} \u00b7 {grown.run} \u00b7 Redraft audit", style))
    body = tag("body", tag("main", _header(grown, events, verified), *_sections(grown, events)), _footer(grown))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _head(title: str, style: str) -> Iterator[Markup]:
    allowed = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    yield tag("meta", charset="utf-8")
    yield tag("meta", http_equiv="Content-Security-Policy", content=policy)
    yield tag("meta", name_="viewport", content="width=device-width, initial-scale=1")
    yield tag("meta", name_="color-scheme", content="light dark")
    yield tag("meta", name_="referrer", content="no-referrer")
    yield tag("title", text(title))
    yield tag("style", Markup(style))


def _header(grown: Tree, events: Sequence[Recorded], verified: bool) -> Markup:
    outcome = outcome_text(grown.ended.outcome) if grown.ended else "not ended"
    why = grown.ended.reason if grown.ended else f"as it stood after {counted(grown.version, 'event')}"
    kind = f"chip {'running' if grown.ended is None else 'good' if grown.ended.outcome == 'accepted' else 'other'}"
    if grown.ended and grown.ended.outcome == "failed":
        kind = "chip bad"
    return tag(
        "header",
        tag("p", text("Redraft audit"), cls="over"),
        tag("h1", text(grown.workflow or "A run")),
        tag("p", tag("span", text(outcome), cls=kind), text(f" {why}"), cls="why"),
        tag("dl", *_facts(grown, events)),
        _seal(events, verified),
    )


def _facts(grown: Tree, events: Sequence[Recorded]) -> Iterator[Markup]:
    found = versions(events)
    facts: list[tuple[str, Markup]] = []
    if grown.ended and grown.ended.score is not None:
        facts.append(("Score", tag("span", bar(grown.ended.score), cls="score")))
    if grown.ended:
        facts.append(("Iterations", text(f"{grown.ended.iterations:,}")))
    facts.append(("Recorded", text(f"{counted(grown.version, 'event')}, {counted(len(found), 'draft')}")))
    facts.append(("Took", text(_took(grown.seconds))))
    if grown.started:
        facts.append(("Started (UTC)", text(f"{grown.started:%Y-%m-%d %H:%M}")))
    facts.append(("Run", tag("code", text(grown.run))))
    for label, value in facts:
        yield tag("div", tag("dt", text(label)), tag("dd", value))


def _seal(events: Sequence[Recorded], verified: bool) -> Markup:
    if not events:
        return tag("p", text("Nothing is recorded."), cls="seal open")
    last = tag("code", text(events[-1].hash))
    count = counted(len(events), "event")
    if verified:
        told = f"\u2713 Verified: {count}, each as it was recorded. The hash of the last is "
        return tag("p", text(told), last, cls="seal")
    told = f"Not verified: nothing here shows that {count} are as they were recorded. The last says that its hash is "
    return tag("p", text(told), last, cls="seal open")


def _sections(grown: Tree, events: Sequence[Recorded]) -> Iterator[Markup]:
    judged = scores(events)
    found = versions(events)
    final = next((each.made.draft for each in found if each.made.draft.version == kept(events)), None)
    yield _section("Scores", Markup(chart(judged, goals(events), kept(events))))
    yield _section("Course", _course(grown))
    yield _section("Drafts", drafts_part(found, {point.draft: point.score for point in judged}, grown.run))
    yield _section("Final draft", _final(final))
    yield from _plan(events)
    yield _section("History", _history(tuple(story(events, print_condition)), events))


def _section(title: str, *content: Markup) -> Markup:
    return tag("section", tag("h2", text(title)), *content, id=title.lower().replace(" ", "-"))


def _final(draft: Draft | None) -> Markup:
    if draft is None:
        return tag("p", text("The run has not ended with a draft."), cls="quiet")
    told = tag("p", text(f"Draft {draft.version}"), tag("br"), tag("code", text(f"sha256 {draft.sha256}")), cls="quiet")
    return joined((told, draft_text(draft.text, cls=letters(draft))))


def _plan(events: Sequence[Recorded]) -> Iterator[Markup]:
    started = next((event.data for event in events if isinstance(event.data, RunStarted)), None)
    if started is None:
        return
    source = f" from {plain(started.brief.source, NAME_LENGTH)}" if started.brief.source.strip() else ""
    data = msgspec.json.format(msgspec.json.encode(started.plan), indent=2).decode()
    yield _section(
        "Asked for",
        folding(
            text(f"The brief{source}: {counted(len(started.brief.text), 'character')}"), draft_text(started.brief.text)
        ),
        folding(text("The plan"), draft_text(data, PLAN_SHOWN, cls="draft code")),
    )


def _footer(grown: Tree) -> Markup:
    told = (
        "Each event is hashed with its place and with the hash of the event before it. To check the record itself: "
        f"redraft audit {grown.run} --verify. All times are UTC; scores are 0 to 1 and never rounded up."
    )
    return tag("footer", tag("p", text(told)))


def _course(grown: Tree) -> Markup:
    names = ("Step", "Score", "Draft", "Took")
    head = tag("thead", tag("tr", *(tag("th", text(name), scope="col") for name in names)))
    return tag("table", head, tag("tbody", *_shortened(list(_rows(grown.branches, 0)), len(names))), cls="course")


def _rows(branches: Sequence[Branch], depth: int) -> Iterator[Markup]:
    for branch in branches:
        match branch:
            case Leaf():
                yield _leaf(branch, depth)
            case Group(name=name, children=children):
                yield _row(depth, text(name), "side by side", cls="group")
                yield from _rows(children, depth + 1)
            case Loop():
                yield _loop(branch, depth)
                for each in branch.passes:
                    yield _row(depth + 1, text(_pass(each)), "", cls="pass")
                    yield from _rows(each.children, depth + 2)
            case _:
                assert_never(branch)


def _pass(each: Pass) -> str:
    return "Closing look" if each.label == "closing" else f"Pass {each.label}"


def _loop(loop: Loop, depth: int) -> Markup:
    told = f"{outcome_text(loop.outcome)}: {loop.reason}" if loop.outcome else loop.closing or "running"
    return _row(depth, text(loop.name), told, score=loop.score, draft=loop.draft, cls="loop")


def _leaf(leaf: Leaf, depth: int) -> Markup:
    states = {"open": " \u00b7 asked", "waiting": " \u00b7 to be tried again", "done": "", "failed": " \u00b7 failed"}
    tries = f" \u00b7 {counted(leaf.attempts, 'try').replace('trys', 'tries')}" if leaf.attempts > 1 else ""
    error = "".join(f" \u00b7 {each}" for each in (leaf.overruled, leaf.error) if each)
    by = leaf.chosen or leaf.actor
    told = f"{leaf.role} {by}{states.get(leaf.status, ' ' + chr(0xB7) + ' no longer needed')}{tries}{error}"
    return _row(depth, text(leaf.name), told, leaf.score, leaf.draft, leaf.seconds, cls=f"leaf {leaf.status}")


def _row(
    depth: int,
    name: Markup,
    told: str,
    score: float | None = None,
    draft: int | None = None,
    seconds: float | None = None,
    *,
    cls: str,
) -> Markup:
    said = tag("span", text(told), cls="quiet") if told else text("")
    number = tag("a", text(str(draft)), href=f"#draft-{draft}") if draft is not None else text("")
    return tag(
        "tr",
        tag("th", tag("span", name, cls="name"), text(" "), said, scope="row", cls=f"d{min(depth, 8)}"),
        tag("td", bar(score) if score is not None else text(""), cls="score"),
        tag("td", number, cls="figure"),
        tag("td", text(_took(seconds) if seconds is not None else ""), cls="figure"),
        cls=cls,
    )


def _history(entries: Sequence[Entry], events: Sequence[Recorded]) -> Markup:
    names = ("Event", "Time", "What happened")
    head = tag("thead", tag("tr", *(tag("th", text(name), scope="col") for name in names)))
    rows = [_event(entry, event) for entry, event in zip(entries, events, strict=True)]
    return tag("table", head, tag("tbody", *_shortened(rows, len(names))), cls="history")


def _event(entry: Entry, event: Recorded) -> Markup:
    line = entry.line
    told = tag("span", text(f"{line.name} \u00b7 by {line.actor}"), *_because(entry.cause), cls="quiet")
    details = [tag("span", text(each), cls="detail") for each in entry.details]
    marks = (tag("code", text(f"id {plain(event.id)}")), tag("code", text(f"hash {plain(event.hash)}")))
    place = f"log {line.position}" if line.position else ""
    return tag(
        "tr",
        tag("th", text(str(line.version)), tag("span", text(place), cls="quiet"), scope="row", cls="figure"),
        tag("td", text(f"{line.time:%H:%M:%S}"), tag("span", text(f"{line.time:%Y-%m-%d}"), cls="quiet"), cls="time"),
        tag("td", text(line.sentence), *details, told, *marks),
        id=f"event-{line.version}",
    )


def _because(cause: int) -> Iterator[Markup]:
    if cause:
        yield text(" \u00b7 because of ")
        yield tag("a", text(f"event {cause}"), href=f"#event-{cause}")


def _shortened(rows: Sequence[Markup], columns: int) -> Iterator[Markup]:
    """The rows, or the first and the last of too many with a row that says how many are not shown."""
    half = ROWS // 2
    if len(rows) <= ROWS:
        yield from rows
        return
    told = f"{len(rows) - 2 * half:,} rows are left out here; the JSON lines of the export have every event."
    yield from rows[:half]
    yield tag("tr", tag("td", text(told), colspan=str(columns), cls="cut"))
    yield from rows[-half:]


def _took(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
