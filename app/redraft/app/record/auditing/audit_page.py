"""Renders the audit of one run as one HTML file that loads nothing: no script, no font, no image from anywhere.

The templates in `templates` define the layout. Everything that a run recorded is untrusted: templates escape each
value, and control and direction characters appear as a symbol or their number. The page has a strict
Content-Security-Policy, which allows its own style sheet, by its hash, and nothing else.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final, TypeVar, assert_never

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from redraft.actors.conditions.reading import print_until
from redraft.app.record.auditing import audit_drafts
from redraft.events.messages.content import marks_text
from redraft.events.messages.domain_events import RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.scales import Scale, score_text
from redraft.projections.display import NAME_LENGTH, counted, duration_text, outcome_text, plain, value_text, visible
from redraft.projections.record_check import unmet_drafts
from redraft.projections.run_views import chart
from redraft.projections.run_views.chart import kept_draft, scores
from redraft.projections.run_views.goals import goals
from redraft.projections.run_views.narrative import narrate
from redraft.projections.run_views.state import state_at
from redraft.projections.run_views.tree import tree
from redraft.projections.run_views.tree_model import MAY_HAVE_DELIVERED, NO_SCORE, Branch, Group, Leaf, Loop, look_name

ROWS: Final = 5_000
"""The maximum number of rows of a table: half of them the first, half the last."""
PLAN_SHOWN: Final = 50_000
"""The maximum number of characters shown of the plan."""
VALUE_SHOWN: Final = 5_000
"""The maximum number of characters shown of a value of the run's state."""

T = TypeVar("T")


class StepRow(msgspec.Struct, frozen=True):
    """A row of the table of steps, indented by `depth`."""

    depth: int
    kind: str
    name: str
    message: str = ""
    score: float | None = None
    scale: Scale | None = None
    draft: int | None = None
    seconds: float | None = None


def render(events: Sequence[Recorded], verified: bool) -> str:
    """Returns the page of a run, from all its events or the first of them. `verified`: its hash chain holds.

    The size is bounded; where something is left out, the page says so. It is UTF-8, whatever the events hold.
    """
    style = files("redraft.app.record").joinpath("templates", "audit.css").read_text(encoding="utf-8")
    return (
        page_environment()
        .get_template("audit.html")
        .render(
            verified=verified,
            style=Markup(style),  # noqa: S704 - our own
            style_hash=b64encode(sha256(style.encode()).digest()).decode(),
            **_run_values(events),
            **_draft_values(events),
        )
    )


def _run_values(events: Sequence[Recorded]) -> dict[str, object]:
    run, judged = tree(events), scores(events)
    return {
        "run": run,
        "last": events[-1] if events else None,
        "started": next((event.data for event in events if isinstance(event.data, RunStarted)), None),
        "chart": chart.chart(judged, goals(events), kept_draft(events)),
        "scored": {point.draft: (point.score, point.scale) for point in judged},
        "course": _shorten(list(_rows(run.branches, 0)), ROWS),
        "values": _shorten(state_at(events).rows, ROWS),
        "history": _shorten(list(zip(narrate(events, print_until, unmet_drafts(events)), events, strict=True)), ROWS),
    }


def _draft_values(events: Sequence[Recorded]) -> dict[str, object]:
    made, final = audit_drafts.versions(events), kept_draft(events)
    shown = min(len(made), audit_drafts.DRAFTS_SHOWN)
    return {
        "drafts": _shorten(made, audit_drafts.DRAFTS_SHOWN),
        "drafts_made": len(made),
        "opened": shown <= audit_drafts.OPENED,
        "share": audit_drafts.share_of_each(shown),
        "final": next((each.draft for each in made if each.draft.version == final), None),
    }


@cache
def page_environment() -> Environment:
    """Returns the environment with the functions that templates call; it escapes values and rejects undefined names."""
    environment = Environment(
        loader=PackageLoader("redraft.app.record"),
        autoescape=True,
        auto_reload=False,  # or each rendering looks whether the files have changed
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drafts = (audit_drafts.change_of, audit_drafts.fit_lines, audit_drafts.css_classes, audit_drafts.size_of)
    texts = (counted, plain, outcome_text, score_text, duration_text, value_text, bar_width, tenth, as_json, marks_text)
    environment.globals.update({each.__name__: each for each in (*drafts, *texts)})
    environment.globals.update(frame=chart, ERASED=ERASED, NAME_LENGTH=NAME_LENGTH)
    environment.globals.update(DRAFT_SHOWN=audit_drafts.DRAFT_SHOWN, PLAN_SHOWN=PLAN_SHOWN, VALUE_SHOWN=VALUE_SHOWN)
    return environment


def _visible(value: object) -> object:
    """Returns a value as visible text, still to be escaped; what a template has escaped is left unchanged."""
    return value if isinstance(value, Markup) else visible(str(value))


def _shorten(rows: Sequence[T], limit: int) -> Sequence[T | int]:
    """Returns the rows; of too many only the first and the last, with the number of omitted ones between them."""
    half = limit // 2
    return rows if len(rows) <= limit else (*rows[:half], len(rows) - 2 * half, *rows[-half:])


def _rows(branches: Sequence[Branch], depth: int) -> Iterator[StepRow]:
    for branch in branches:
        match branch:
            case Leaf():
                yield leaf_row(branch, depth)
            case Group(name=name, children=children):
                yield StepRow(depth, "group", name, "side by side")
                yield from _rows(children, depth + 1)
            case Loop():
                yield _loop_row(branch, depth)
                for each in branch.iterations:
                    label = look_name(each.label) or f"iteration {each.label}"
                    yield StepRow(depth + 1, "iteration", label[:1].upper() + label[1:])
                    yield from _rows(each.children, depth + 2)
            case _:
                assert_never(branch)


def _loop_row(loop: Loop, depth: int) -> StepRow:
    return StepRow(depth, "loop", loop.name, loop_message(loop), loop.score, loop.scale, loop.draft)


def loop_message(loop: Loop) -> str:
    """Returns how a loop ended and why, or that it runs, and that it has no score where no critic judges in it."""
    message = f"{outcome_text(loop.outcome)}: {loop.reason}" if loop.outcome else loop.closing or "running"
    return f"{message} \u00b7 {NO_SCORE}" if loop.unjudged else message


def leaf_row(leaf: Leaf, depth: int) -> StepRow:
    """Returns the row of a step: who did it, and what came of it."""
    states = {"open": "asked", "waiting": "to be tried again", "done": "", "failed": "failed", "skipped": "not asked"}
    tries = counted(leaf.attempts, "try").replace("trys", "tries") if leaf.attempts > 1 else ""
    late = "too late to count" if leaf.late else ""
    facts = (
        states.get(leaf.status, "no longer needed"),
        leaf.marks,
        leaf.verdict,
        leaf.changed,
        late,
        tries,
        leaf.overruled,
        leaf.error,
        MAY_HAVE_DELIVERED if leaf.may_have_delivered else "",
    )
    does = "a run of its own" if leaf.role == "run" else f"{leaf.role} {leaf.chosen or leaf.actor}"
    message = " \u00b7 ".join((does, *filter(None, facts)))
    return StepRow(depth, f"leaf {leaf.status}", leaf.name, message, leaf.score, leaf.scale, leaf.draft, leaf.seconds)


def bar_width(score: float) -> str:
    """Returns the width of the bar that shows a score (0..1), in the units of the template."""
    return tenth(max(0.0, min(score, 1.0)) * 48) if score == score else "0"


def tenth(value: float) -> str:
    """Returns a coordinate with one decimal."""
    return f"{value:.1f}"


def as_json(value: object) -> str:
    """Returns a value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
