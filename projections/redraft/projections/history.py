"""The story of one run in the order it happened: a plain sentence for each recorded event.

A pure fold over the run's stream; a prefix of the stream gives the story so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, assert_never

import msgspec

from redraft.events.content import Brief, Critique, DraftRef
from redraft.events.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    BudgetReached,
    ChoicesCredited,
    Credit,
    DomainEvent,
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    DraftRejected,
    IterationStarted,
    LimitsChanged,
    LoopClosing,
    LoopEnded,
    PanelClosed,
    RunCancelled,
    RunEnded,
    RunErased,
    RunGuided,
    RunPaused,
    RunQuarantined,
    RunResumed,
    RunStarted,
    Steered,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.envelope import Recorded
from redraft.events.texts import ERASED
from redraft.projections.plain import NAME_LENGTH, counted, outcome_text, plain, score_text

CHANGES_SHOWN: Final = 5
"""The changes of one refinement that its sentence names."""


class Line(msgspec.Struct, frozen=True):
    """One event of a run, told. `version` is its place in the run (from 1), `position` in the log (0: not yet known).

    `time` is UTC; `actor` who spoke; `name` the event's stored name; `path` the step or loop, empty for the run itself;
    `causation` the id of what caused it. All texts are one line each, without control characters.
    """

    version: int
    position: int
    time: datetime
    actor: str
    name: str
    path: str
    sentence: str
    causation: str


def history(events: Sequence[Recorded]) -> tuple[Line, ...]:
    """What happened, event by event: who asked, who answered, what changed, why it went on or ended."""
    return tuple(told(events))


def told(events: Iterable[Recorded]) -> Iterator[Line]:
    """The same, as it comes: for a run that is being followed from its first event."""
    asked: dict[str, str] = {}
    for event in events:
        path = path_of(event.data)
        actor = plain(event.actor, NAME_LENGTH)
        if isinstance(event.data, StepRequested):
            asked[path] = f"{event.data.role} {_named(event.data)}"
        yield Line(
            event.version,
            event.position,
            event.time,
            actor,
            event.name,
            plain(path),
            f"{sentence(event.data, asked.get(path, actor))}{', before the fork' if event.repeats else ''}",
            plain(event.causation),
        )


def path_of(event: DomainEvent) -> str:
    """The step or the loop that an event is about; empty for the run itself."""
    match event:
        case RunStarted() | RunEnded() | RunErased() | RunGuided() | RunPaused() | RunResumed() | RunCancelled():
            return ""
        case DraftEdited() | BudgetReached() | ChoicesCredited() | RunQuarantined():
            return ""
        case IterationStarted(path, iteration):
            return f"{path}[{iteration}]"
        case LoopClosing(path=path):
            return f"{path}[closing]"
        case (
            StepRequested(path=path)
            | DraftGenerated(path=path)
            | DraftCritiqued(path=path)
            | VerdictLate(path=path)
            | PanelClosed(path=path)
            | DraftRefined(path=path)
            | DraftPublished(path=path)
            | StepFailed(path=path)
            | LoopEnded(path=path)
            | LimitsChanged(path=path)
            | ApprovalRequested(path=path)
            | DraftApproved(path=path)
            | DraftRejected(path=path)
            | ApprovalExpired(path=path)
        ):
            return path
        case _:
            assert_never(event)


def sentence(event: DomainEvent, who: str) -> str:
    """An event told in a sentence; `who` spoke, or was asked."""
    match event:
        case RunStarted(plan, brief, parent=parent):
            began = f"a run of the workflow {plain(plan.name, NAME_LENGTH)} began{_brief(brief)}"
            return f"{began}, as a fork of run {plain(parent.run)} at event {parent.version}" if parent else began
        case IterationStarted(path, iteration):
            return f"{plain(path)}: pass {iteration} began"
        case StepRequested():
            again = f", try {event.attempt}" if event.attempt > 1 else ""
            return f"{who} was asked to {_task(event)}{again}{_chosen(event)}"
        case DraftGenerated(draft=draft):
            size = "its text is erased" if draft.text == ERASED else counted(len(draft.text.split()), "word")
            return f"{who} wrote draft {draft.version}: {size}"
        case DraftCritiqued():
            return _critiqued(event.critique, event.draft, who)
        case DraftRefined():
            return _refined(event, who)
        case DraftPublished(draft=draft, receipt=receipt):
            note = f" ({plain(receipt.note)})" if receipt.note.strip() else ""
            return f"{who} published draft {draft.version} to {plain(receipt.location)}{note}"
        case StepFailed():
            return _failed(event, who)
        case LoopClosing(path=path, reason=reason):
            return f"{plain(path)}: the critics look at the last draft once more before it ends: {plain(reason)}"
        case LoopEnded():
            passes = counted(event.iterations, "pass")
            ended = f"{plain(event.path)} ended as {outcome_text(event.outcome)} after {passes}: {plain(event.reason)}"
            left = f"draft {event.draft.version}" if event.draft.version else "no draft"
            return f"{ended}; {left} leaves it{_with(event.score)}"
        case RunEnded():
            kept = (
                f"; it ends with draft {event.draft.version}{_with(event.score)}"
                if event.draft
                else "; it has no draft"
            )
            return f"the run ended as {outcome_text(event.outcome)}: {plain(event.reason)}{kept}"
        case RunGuided() | LimitsChanged() | RunPaused() | RunResumed() | RunCancelled():
            return _steered(event)
        case RunErased(by, reason):
            why = f" ({plain(reason)})" if reason.strip() else ""
            return f"{plain(by, NAME_LENGTH)} had the texts of the run erased{why}"
        case RunQuarantined(by, reason):
            who = plain(by, NAME_LENGTH) or "a person"
            return f"{who} set the run aside, and nothing more is done for it: {plain(reason)}"
        case DraftApproved() | DraftRejected() | DraftEdited():
            return _steered(event)
        case ApprovalRequested():
            people = _people(event)
            due = f"{event.due:%Y-%m-%d %H:%M} UTC"
            return f"draft {event.draft.version} waits for {people} to approve it by {due}"
        case PanelClosed(answered=answered, missing=missing):
            return f"the panel went on with {counted(answered, 'verdict')}, without {counted(len(missing), 'other')}"
        case VerdictLate():
            return f"{_critiqued(event.critique, event.draft, who)}, too late to count"
        case ChoicesCredited(credits=credits):
            return f"the choices are credited: {'; '.join(map(_credit, credits))}"
        case BudgetReached():
            whose = "the day's budget of the workflow" if event.daily else "the budget of the run"
            used = f"{event.used:g} of {event.limit:g} {event.quantity} used"
            left = f", {event.reserved:g} more set aside" if event.reserved else ""
            vain = event.quantity == "cost" and event.used < event.limit and not event.reserved
            return f"{whose} {'cannot be kept: a call has no known price' if vain else 'is reached'}: {used}{left}"
        case ApprovalExpired(draft=draft, then=then):
            ends = {"approve": "it counts as approved", "reject": "it counts as rejected", "fail": "the run failed"}
            return f"nobody decided on draft {draft.version} in time: {ends[then]}"
        case _:
            assert_never(event)


def _named(event: StepRequested) -> str:
    """The actor, or the name under which it was chosen."""
    return plain(event.choice.arm if event.choice else event.actor, NAME_LENGTH)


def _chosen(event: StepRequested) -> str:
    if event.choice is None or event.attempt > 1:
        return ""
    others = [plain(each.arm, NAME_LENGTH) for each in event.choice.known if each.arm != event.choice.arm]
    return f", chosen over {', '.join(others)}" if others else ""


def _credit(credit: Credit) -> str:
    said = "a success" if credit.success else "a failure"
    return f"{said} for {plain(credit.arm, NAME_LENGTH)} at {plain(credit.step)}"


def _brief(brief: Brief) -> str:
    if brief.text == ERASED:
        return " for a brief whose text is erased"
    source = f" from {plain(brief.source, NAME_LENGTH)}" if brief.source.strip() else ""
    return f" for a brief of {counted(len(brief.text), 'character')}{source}"


def _task(event: StepRequested) -> str:
    draft = f"draft {event.draft.version}" if event.draft else "the draft"
    match event.role:
        case "generator":
            return "write a draft"
        case "critic":
            return f"judge {draft}"
        case "refiner":
            told = f", which was scored at {score_text(event.score)}" if event.score is not None else ""
            return f"improve {draft}{told}"
        case "publisher":
            return f"publish {draft}"
        case _:
            assert_never(event.role)


def _critiqued(critique: Critique, draft: DraftRef, who: str) -> str:
    found = [
        counted(len(lines), noun)
        for lines, noun in ((critique.errors, "error"), (critique.suggestions, "suggestion"))
        if lines
    ]
    verdict = {True: "approved it", False: "did not approve it", None: ""}[critique.approved]
    tail = f" ({', '.join(found)})" if found else ""
    said = f" and {verdict}" if verdict else ""
    scores = f", the median of {', '.join(map(score_text, critique.samples))}" if critique.samples else ""
    return f"{who} scored draft {draft.version} at {score_text(critique.score)}{scores}{tail}{said}"


def _refined(event: DraftRefined, who: str) -> str:
    made = f"{who} made draft {event.draft.version} from draft {event.before.version}"
    if event.draft.text == ERASED:
        return f"{made}: its text is erased"
    if event.draft.sha256 == event.before.sha256:
        kept = "; ".join(filter(None, map(plain, event.declined[:CHANGES_SHOWN])))
        return f"{made}, with the same text{'; it would not change: ' if kept else ''}{kept}"
    shown = "; ".join(filter(None, (plain(change) for change in event.changes[:CHANGES_SHOWN])))
    more = (
        f"; {counted(len(event.changes) - CHANGES_SHOWN, 'more change')}" if len(event.changes) > CHANGES_SHOWN else ""
    )
    done = "; it has nothing more to change" if event.exit else ""
    left = f"; it would not change {counted(len(event.declined), 'thing')}" if event.declined else ""
    return f"{made}{': ' if shown else ''}{shown}{more}{left}{done}"


def _failed(event: StepFailed, who: str) -> str:
    kinds = {
        "error": "failed",
        "invalid": "gave an answer that is no use",
        "timeout": "was late",
        "lost": "was lost",
        "unserved": "was not there",
    }
    then = f"to be tried again at {event.retry_at:%H:%M:%S} UTC" if event.retry_at else "it is not tried again"
    return f"{who} {kinds[event.kind]} (try {event.attempt}): {plain(event.message)}; {then}"


def _people(event: ApprovalRequested) -> str:
    """Who is to approve: `ann`, `2 of ann, ben, cat`, `anybody`, `3 people`."""
    names = ", ".join(plain(each, NAME_LENGTH) for each in event.approvers)
    if not names:
        return "anybody" if event.quorum == 1 else counted(event.quorum, "person").replace("persons", "people")
    return names if event.quorum == len(event.approvers) else f"{event.quorum} of {names}"


def _steered(event: Steered) -> str:
    who = plain(event.by, NAME_LENGTH) or "a person"
    why = f" ({plain(event.reason)})" if event.reason.strip() else ""
    match event:
        case RunGuided(advice=advice):
            return f"{who} advised{why}: {plain(advice)}"
        case LimitsChanged(path=path):
            until = "ends on another condition" if event.until is not None else ""
            most = f"makes at most {counted(event.max_iterations, 'pass')}" if event.max_iterations else ""
            return f"{who} changed {plain(path)}: it {' and '.join(filter(None, (until, most)))} now{why}"
        case RunPaused():
            return f"{who} paused the run{why}"
        case RunResumed():
            return f"{who} resumed the run{why}"
        case RunCancelled():
            return f"{who} cancelled the run{why}"
        case DraftApproved(draft=draft):
            return f"{who} approved draft {draft.version}{why}"
        case DraftRejected(draft=draft):
            return f"{who} rejected draft {draft.version}{why}"
        case DraftEdited(draft=made, before=before):
            return f"{who} made draft {made.version} from draft {before.version}{why}"
        case _:
            assert_never(event)


def _with(score: float | None) -> str:
    return f", scored at {score_text(score)}" if score is not None else ""
