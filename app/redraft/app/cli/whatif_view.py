"""What `redraft whatif` shows: the story of one run under another policy, or policies compared over many."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from redraft.actors.policy import Policy
from redraft.actors.whatif import Course, Decision, Parting, WhatIf
from redraft.app.cli.output import out, print_json, table_of
from redraft.app.whatif_table import Row
from redraft.events.domain_events import StepRequested
from redraft.projections.history import path_of, sentence
from redraft.projections.plain import counted, outcome_text, plain, score_text


def print_each(found: Sequence[tuple[Policy, WhatIf]], *, json: bool) -> None:
    """One run under each policy, for people or as JSON."""
    if json:
        told = [_document(policy, each) for policy, each in found]
        print_json(told if len(told) > 1 else told[0])
        return
    for number, (policy, each) in enumerate(found):
        if number:
            out().print()
        for line in _lines(policy, each):
            out().print(line, soft_wrap=True)


def _document(policy: Policy, found: WhatIf) -> dict[str, object]:
    told = msgspec.structs.asdict(found)
    parting = found.parting
    if parting is not None:
        told["parting"] = {
            "version": parting.version,
            "path": _path(parting),
            "recorded": _told(parting.recorded),
            "instead": _told(parting.instead),
        }
    return {"policy": str(policy), **told, "saved": found.saved}


def _lines(policy: Policy, found: WhatIf) -> list[str]:
    """The story for people: the policy, both courses, where they part, and what it would have saved."""
    was, now = found.recorded, found.imagined
    lines = [
        f"run {found.run} ({plain(found.workflow)}), had it been: {policy}",
        f"  recorded: {_ended(was)}",
        f"  instead:  {_ended(now)}",
    ]
    if found.parting is None:
        lines.append("  they do not part: every decision is the same")
    else:
        at = f"event {found.parting.version}" if found.parting.version else "the end of the record"
        lines.append(f"  they part at {at}{_at_path(found.parting)}")
        lines.append(f"    recorded: {_told(found.parting.recorded) or 'nothing more'}")
        lines.append(f"    instead:  {_told(found.parting.instead) or 'nothing more is known'}")
    if found.ends_at is not None:
        lines.append(f"  the record ends at {plain(found.ends_at) or 'this point'}: nobody was asked for that then")
    elif found.saved:
        lines.append(f"  {counted(abs(found.saved), 'step')} {'fewer' if found.saved > 0 else 'more'}")
    return lines


def _ended(course: Course) -> str:
    facts = ["no score" if course.score is None else f"score {score_text(course.score)}", counted(course.steps, "step")]
    facts += [f"{course.tokens:,} tokens"] if course.tokens else []
    told = ", ".join(facts)
    return f"{outcome_text(course.outcome)}, {told}" if course.outcome else f"no end; {told} so far"


def _at_path(parting: Parting) -> str:
    path = _path(parting)
    return f", {path}" if path else ""


def _path(parting: Parting) -> str:
    decision = parting.instead or parting.recorded
    return plain(path_of(decision)) if decision else ""


def _told(decision: Decision | None) -> str:
    if decision is None:
        return ""
    if not isinstance(decision, StepRequested):
        return sentence(decision, "coordinator")
    actor = decision.choice.arm if decision.choice else decision.actor
    return sentence(decision, f"{decision.role} {plain(actor)}")


def print_table(rows: Sequence[Row], *, json: bool) -> None:
    """A row for each policy, the first for the runs as they were."""
    if json:
        print_json({"rows": list(rows)})
        return
    numbers = ("runs", "steps", "score", "accepted", "ended early")
    out().print(table_of(("policy", *numbers), map(_cells, rows), numbers))


def _cells(row: Row) -> Sequence[object]:
    return (
        row.policy,
        row.runs,
        None if row.mean_steps is None else f"{row.mean_steps:.1f}",
        None if row.mean_score is None else score_text(row.mean_score),
        None if row.accepted is None else f"{row.accepted:.0%}",
        row.ended_early,
    )
