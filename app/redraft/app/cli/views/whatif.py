"""Prints what `redraft whatif` finds: one run under another policy, or policies compared over many runs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import msgspec

from redraft.actors.deciding.policy import Policy
from redraft.actors.replay.whatif import Decision, Divergence, RunSummary, WhatIf
from redraft.app.cli.shared.output import out, print_json, print_wrapped
from redraft.app.cli.shared.tables import print_table
from redraft.events.messages.content import Mark, measures_text, number_text
from redraft.events.messages.domain_events import StepRequested
from redraft.events.messages.scales import Scale, score_text
from redraft.projections.display import counted, outcome_text, plain
from redraft.projections.run_views.sentences import describe, path_of

AS_RECORDED = "as recorded"


class Row(msgspec.Struct, frozen=True):
    """A policy over `runs` records, of which `ended_early` hold too little to say how the run would have ended.

    The means and the share of accepted runs (0..1) are over all others; None where there are none. A score is that of
    the final draft, 0..1, where it was judged; `criteria` and `measures` are the means of those of the final drafts.
    """

    policy: str
    runs: int
    ended_early: int
    mean_steps: float | None
    mean_score: float | None
    accepted: float | None
    scale: Scale | None = None
    criteria: tuple[Mark, ...] = ()
    measures: dict[str, float] = {}


def row_of(policy: str, courses: Sequence[RunSummary]) -> Row:
    """Returns the row of a policy under which the runs went so."""
    ended = [each for each in courses if each.outcome is not None]
    return Row(
        policy,
        len(courses),
        len(courses) - len(ended),
        _mean([each.steps for each in ended]),
        _mean([each.score for each in ended if each.score is not None]),
        _mean([each.outcome == "accepted" for each in ended]),
        _common_scale([each.scale for each in ended if each.score is not None]),
        _mean_marks([mark for each in ended for mark in each.criteria]),
        _mean_measures(ended),
    )


def _mean_marks(marks: Sequence[Mark]) -> tuple[Mark, ...]:
    by_name: dict[str, list[Mark]] = {}
    for each in marks:
        by_name.setdefault(each.name, []).append(each)
    return tuple(
        Mark(name, fmean(each.score for each in those), scale=_common_scale([each.scale for each in those]))
        for name, those in by_name.items()
    )


def _mean_measures(ended: Sequence[RunSummary]) -> dict[str, float]:
    names = dict.fromkeys(name for each in ended for name in each.measures)
    return {name: fmean(each.measures[name] for each in ended if name in each.measures) for name in names}


def _common_scale(scales: Sequence[Scale | None]) -> Scale | None:
    """Returns the scale of all scores; None if they differ, and can only be compared as shares."""
    return scales[0] if len(set(scales)) == 1 else None


def _mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


def print_each(found: Sequence[tuple[Policy, WhatIf]], *, json: bool) -> None:
    """One run under each policy, for people or as JSON."""
    if json:
        documents = [document_of(policy, each) for policy, each in found]
        print_json(documents if len(documents) > 1 else documents[0])
        return
    for number, (policy, each) in enumerate(found):
        if number:
            out().print()
        for line in _lines(policy, each):
            print_wrapped(line, indent=2)


def document_of(policy: Policy, found: WhatIf) -> dict[str, object]:
    """One run under a policy, as JSON shows it."""
    document = msgspec.structs.asdict(found)
    parting = found.parting
    if parting is not None:
        document["parting"] = {
            "version": parting.version,
            "path": _path(parting),
            "recorded": _decision_text(parting.recorded),
            "instead": _decision_text(parting.instead),
        }
    return {"policy": str(policy), **document, "saved": found.saved}


def _lines(policy: Policy, found: WhatIf) -> list[str]:
    """The story for people: the policy, both courses, where they first differ, and what it would have saved."""
    was, now = found.recorded, found.imagined
    lines = [
        f"run {found.run} ({plain(found.workflow)}), under the policy: {policy}",
        f"  recorded: {_describe_end(was)}",
        f"  instead:  {_describe_end(now)}",
    ]
    if found.parting is None:
        lines.append("  both make the same decisions")
    else:
        at = f"event {found.parting.version}" if found.parting.version else "the end of the record"
        lines.append(f"  they first differ at {at}{_at_path(found.parting)}")
        lines.append(f"    recorded: {_decision_text(found.parting.recorded) or 'nothing more'}")
        lines.append(f"    instead:  {_decision_text(found.parting.instead) or 'nothing more is known'}")
    if found.ends_at is not None:
        lines.append(f"  the record ends at {plain(found.ends_at) or 'this point'}: no answer to that was recorded")
    elif found.saved:
        lines.append(f"  {counted(abs(found.saved), 'step')} {'fewer' if found.saved > 0 else 'more'}")
    return lines


def _describe_end(course: RunSummary) -> str:
    facts = [
        "no score" if course.score is None else f"score {score_text(course.score, course.scale)}",
        counted(course.steps, "step"),
    ]
    facts += [f"{each.name} {score_text(each.score, each.scale)}" for each in course.criteria]
    facts += [plain(measures_text(course.measures))] if course.measures else []
    facts += [f"{course.tokens:,} tokens"] if course.tokens else []
    summary = ", ".join(facts)
    return f"{outcome_text(course.outcome)}, {summary}" if course.outcome else f"no end; {summary} so far"


def _at_path(parting: Divergence) -> str:
    path = _path(parting)
    return f", {path}" if path else ""


def _path(parting: Divergence) -> str:
    decision = parting.instead or parting.recorded
    return plain(path_of(decision)) if decision else ""


def _decision_text(decision: Decision | None) -> str:
    if decision is None:
        return ""
    if not isinstance(decision, StepRequested):
        return describe(decision, "coordinator")
    actor = decision.choice.arm if decision.choice else decision.actor
    return describe(decision, f"{decision.role} {plain(actor)}")


def print_policies(rows: Sequence[Row], *, json: bool) -> None:
    """A row for each policy, the first for the runs as they were."""
    if json:
        print_json({"rows": list(rows)})
        return
    criteria = tuple(dict.fromkeys(mark.name for row in rows for mark in row.criteria))
    measures = tuple(dict.fromkeys(name for row in rows for name in row.measures))
    numbers = ("runs", "steps", "score", *criteria, *measures, "accepted", "ended early")
    print_table(("policy", *numbers), (_cells(row, criteria, measures) for row in rows), right=numbers)


def _cells(row: Row, criteria: Sequence[str], measures: Sequence[str]) -> Sequence[object]:
    marks = {each.name: score_text(each.score, each.scale) for each in row.criteria}
    return (
        row.policy,
        row.runs,
        None if row.mean_steps is None else f"{row.mean_steps:.1f}",
        None if row.mean_score is None else score_text(row.mean_score, row.scale, beside=True),
        *(marks.get(name) for name in criteria),
        *(number_text(row.measures[name]) if name in row.measures else None for name in measures),
        None if row.accepted is None else f"{row.accepted:.0%}",
        row.ended_early,
    )
