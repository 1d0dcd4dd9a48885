"""Prints what `redraft whatif` finds: one run under another policy, or policies compared over many runs."""

from __future__ import annotations

from collections.abc import Sequence

from redraft.actors.deciding.policy import Policy
from redraft.actors.replay.whatif import Divergence, RunSummary, WhatIf
from redraft.app.cli.shared.output import out, print_json, print_wrapped
from redraft.app.cli.shared.tables import print_table
from redraft.app.runs.comparing import Comparison, Row, decision_text, divergence_path, whatif_document
from redraft.events.messages.content import measures_text, number_text
from redraft.events.messages.scales import score_text
from redraft.projections.display import counted, outcome_text, plain


def print_each(found: Sequence[tuple[Policy, WhatIf]], *, json: bool) -> None:
    """One run under each policy, for people or as JSON."""
    if json:
        documents = [whatif_document(policy, each) for policy, each in found]
        print_json(documents if len(documents) > 1 else documents[0])
        return
    for number, (policy, each) in enumerate(found):
        if number:
            out().print()
        for line in _lines(policy, each):
            print_wrapped(line, indent=2)


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
        lines.append(f"    recorded: {decision_text(found.parting.recorded) or 'nothing more'}")
        lines.append(f"    instead:  {decision_text(found.parting.instead) or 'nothing more is known'}")
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
    path = divergence_path(parting)
    return f", {path}" if path else ""


def print_policies(found: Comparison, *, json: bool) -> None:
    """A row for each policy, the first for the runs as they were; and how many runs are in none, with the reasons."""
    if json:
        print_json(found)
        return
    rows = found.rows
    criteria = tuple(dict.fromkeys(mark.name for row in rows for mark in row.criteria))
    measures = tuple(dict.fromkeys(name for row in rows for name in row.measures))
    paid = ("cost",) if any(row.mean_cost for row in rows) else ()
    numbers = ("runs", "iterations", "steps", *paid, "score", *criteria, *measures, "accepted", "ended early")
    print_table(("policy", *numbers), (_cells(row, criteria, measures, paid=bool(paid)) for row in rows), right=numbers)
    for left_out in found.left_out:
        print_wrapped(f"{counted(left_out.runs, 'more run')} in no row: {plain(left_out.why)}", indent=2)


def _cells(row: Row, criteria: Sequence[str], measures: Sequence[str], *, paid: bool) -> Sequence[object]:
    marks = {each.name: score_text(each.score, each.scale) for each in row.criteria}
    return (
        row.policy,
        row.runs,
        None if row.mean_iterations is None else f"{row.mean_iterations:.1f}",
        None if row.mean_steps is None else f"{row.mean_steps:.1f}",
        *([None if row.mean_cost is None else f"{row.mean_cost:.4g}"] if paid else []),
        None if row.mean_score is None else score_text(row.mean_score, row.scale, beside=True),
        *(marks.get(name) for name in criteria),
        *(number_text(row.measures[name]) if name in row.measures else None for name in measures),
        None if row.accepted is None else f"{row.accepted:.0%}",
        row.ended_early,
    )
