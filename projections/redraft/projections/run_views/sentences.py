"""Describes one run in order: a plain sentence for each recorded event, or for the first of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, TypeAlias, assert_never, cast, get_args

import msgspec

from redraft.events.messages import domain_events as events
from redraft.events.messages.content import Brief, Critique, DraftRef, marks_text, says_more
from redraft.events.messages.domain_events import Credit, DomainEvent, Steered
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.folders import FOLDER
from redraft.events.messages.lessons import Lessons
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.run_state import Values
from redraft.events.messages.scales import Scale, score_text
from redraft.projections.display import NAME_LENGTH, brief_text, counted, in_one_line, outcome_text, plain, values_text

CHANGES_SHOWN: Final = 5
"""The maximum number of changes that the sentence of one refinement lists."""

_Changing: TypeAlias = (
    events.DraftGenerated | events.DraftCritiqued | events.DraftRefined | events.DraftPublished | events.StateChanged
)
_CHANGING: Final = frozenset(get_args(_Changing))


class Line(msgspec.Struct, frozen=True):
    """One event of a run as a sentence. `version` is its place in the run (from 1), `position` in the log (0: not yet
    known).

    `time` is UTC; `actor` is who acted; `name` the event's stored name; `path` the step or loop, empty for the run
    itself; `causation` the id of its cause. All texts are one line each, without control characters.
    """

    version: int
    position: int
    time: datetime
    actor: str
    name: str
    path: str
    sentence: str
    causation: str


def history(stream: Sequence[Recorded]) -> tuple[Line, ...]:
    """Returns what happened, event by event: requests, answers, changes, and why loops went on or ended."""
    return tuple(sentences(stream))


def sentences(stream: Iterable[Recorded]) -> Iterator[Line]:
    """Yields the lines of `history` one at a time, for a run that is followed from its first event."""
    asked: dict[str, str] = {}
    for event in stream:
        yield next_line(event, asked)


def next_line(event: Recorded, asked: dict[str, str]) -> Line:
    """Returns the line of the next event of a run; `asked` maps each step so far to whom it was requested of."""
    path = path_of(event.data)
    actor = plain(event.actor, NAME_LENGTH)
    if isinstance(event.data, events.StepRequested):
        asked[path] = asked_of(event.data)
    return Line(
        event.version,
        event.position,
        event.time,
        actor,
        event.name,
        plain(path),
        _sentence(event, asked.get(path, actor)),
        plain(event.causation),
    )


def sentence_of(event: Recorded, stream: Sequence[Recorded]) -> str:
    """Returns the sentence of one event of a run, as `history` has it: the others are not described."""
    path, requests = path_of(event.data), events.StepRequested
    before = (each.data for each in reversed(stream) if each.version <= event.version)
    request = next((each for each in before if isinstance(each, requests) and path_of(each) == path), None)
    return _sentence(event, asked_of(request) if request else plain(event.actor, NAME_LENGTH))


def _sentence(event: Recorded, who: str) -> str:
    data, changed = event.data, values_text(changes_of(event.data))
    beside = f"; it set {changed}" if changed and not isinstance(data, events.StateChanged) else ""
    return f"{describe(data, who, event.run)}{beside}{', before the fork' if event.repeats else ''}"


def changes_of(event: DomainEvent) -> Values:
    """Returns the values of the run's state that an event changes; none for a verdict that came too late to count."""
    return cast("_Changing", event).state if type(event) in _CHANGING else {}


def path_of(event: DomainEvent) -> str:
    """Returns the step or loop that an event is about; empty for the run itself."""
    path = getattr(event, "path", "")
    match event:
        case events.IterationStarted(iteration=iteration):
            return f"{path}[{iteration}]"
        case events.LoopClosing():
            return f"{path}[closing]"
        case _:
            return path


def describe(event: DomainEvent, who: str, run: str = "") -> str:
    """Returns an event of a run as a sentence; `who` acted, or was asked."""
    if isinstance(event, Steered):
        return _describe_steering(event)
    match event:
        case events.RunStarted(plan, brief, parent=parent, lessons=lessons):
            learnt = _describe_lessons(lessons) if lessons else ""
            began = f"a run of the workflow {plain(plan.name, NAME_LENGTH)} began{_describe_brief(brief)}{learnt}"
            return f"{began}, as a fork of run {plain(parent.run)} at event {parent.version}" if parent else began
        case events.IterationStarted(path, iteration):
            return f"{plain(path)}: iteration {iteration} began"
        case events.StepRequested(reused=events.EventRef() as ref):
            where = _describe_source(ref, run)
            return f"{who} need not be asked to {_describe_task(event)}: it has judged the same in {where}"
        case events.StepRequested():
            again = f", try {event.attempt}" if event.attempt > 1 else ""
            return f"{who} was asked to {_describe_task(event)}{again}{_describe_choice(event)}"
        case events.DraftGenerated(draft=draft):
            size = "its text is erased" if draft.text == ERASED else counted(len(draft.text.split()), "word")
            return f"{who} wrote draft {draft.version}: {size}"
        case events.DraftCritiqued(critique=critique, reused=events.EventRef() as ref):
            judged = _describe_critique(critique, event.draft, f"critic {plain(critique.critic, NAME_LENGTH)}")
            return f"{judged}, as in {_describe_source(ref, run)}: reused at no cost"
        case events.DraftCritiqued():
            return _describe_critique(event.critique, event.draft, who)
        case events.DraftRefined():
            return _describe_refinement(event, who)
        case events.DraftPublished(draft=draft, receipt=receipt):
            note = f" ({plain(receipt.note)})" if receipt.note.strip() else ""
            return f"{who} published draft {draft.version} to {plain(receipt.location)}{note}"
        case events.StateChanged():
            return _describe_step(event, who)
        case events.StepFailed():
            return _describe_failure(event, who)
        case events.LoopClosing(path=path, reason=reason):
            return f"{plain(path)}: its last draft is looked at once more before it ends: {in_one_line(reason)}"
        case events.LoopEnded():
            iterations = counted(event.iterations, "iteration")
            how = f"{outcome_text(event.outcome)} after {iterations}: {in_one_line(event.reason)}"
            ended = f"{plain(event.path)} ended as {how}"
            left = f"draft {event.draft.version}" if event.draft.version else "no draft"
            return f"{ended}; {left} leaves it{_describe_score(event.score, event.scale)}"
        case events.RunEnded():
            kept = (
                f"; it ends with draft {event.draft.version}{_describe_score(event.score, event.scale)}"
                if event.draft
                else "; it has no draft"
            )
            return f"the run ended as {outcome_text(event.outcome)}: {in_one_line(event.reason)}{kept}"
        case events.RunErased(by, reason):
            why = f" ({plain(reason)})" if reason.strip() else ""
            return f"{plain(by, NAME_LENGTH)} had the texts of the run erased{why}"
        case events.RunQuarantined(by, reason):
            who = plain(by, NAME_LENGTH) or "a person"
            return f"{who} set the run aside, and nothing more is done for it: {plain(reason)}"
        case events.LessonStruck(lesson=lesson, by=by, reason=reason):
            done = "gave the lesson {} to later runs again" if event.withdrawn else "struck out the lesson {}"
            why = f": {plain(reason)}" if reason.strip() else ""
            return f"{plain(by, NAME_LENGTH) or 'a person'} {done.format(plain(lesson, NAME_LENGTH))}{why}"
        case events.ApprovalRequested():
            people = _describe_approvers(event)
            due = f"{event.due:%Y-%m-%d %H:%M} UTC"
            return f"draft {event.draft.version} waits for {people} to approve it by {due}"
        case events.CriticSkipped(actor=actor, draft=draft, reason=reason):
            why = f": {in_one_line(reason)}" if reason else ""
            return f"{plain(actor, NAME_LENGTH) or 'a critic'} was not asked about draft {draft.version}{why}"
        case events.PanelClosed(answered=answered, missing=missing):
            return f"the panel went on with {counted(answered, 'verdict')}, without {counted(len(missing), 'other')}"
        case events.VerdictLate():
            return f"{_describe_critique(event.critique, event.draft, who)}, too late to count"
        case events.ChoicesCredited(credits=credits):
            return f"the choices are credited: {'; '.join(map(_describe_credit, credits))}"
        case events.BudgetReached():
            whose = "the day's budget of the workflow" if event.daily else "the budget of the run"
            used = f"{event.used:g} of {event.limit:g} {event.quantity} used"
            left = f", {event.reserved:g} more set aside" if event.reserved else ""
            vain = event.quantity == "cost" and event.used < event.limit and not event.reserved
            return f"{whose} {'cannot be kept: a call has no known price' if vain else 'is reached'}: {used}{left}"
        case events.ApprovalExpired(draft=draft, then=then):
            ends = {"approve": "it counts as approved", "reject": "it counts as rejected", "fail": "the run failed"}
            return f"the time to decide on draft {draft.version} is over: {ends[then]}"
        case _:
            assert_never(event)


def asked_of(event: events.StepRequested) -> str:
    """Returns the role and the name of the actor that a step was requested of, or that a run of its own was."""
    if event.role == "run":
        return "a run of its own"
    return f"{event.role} {_actor_name(event)}"


def _actor_name(event: events.StepRequested) -> str:
    """Returns the actor, or the name of the arm under which it was chosen."""
    return plain(event.choice.arm if event.choice else event.actor, NAME_LENGTH)


def _describe_choice(event: events.StepRequested) -> str:
    if event.choice is None or event.attempt > 1:
        return ""
    others = [plain(each.arm, NAME_LENGTH) for each in event.choice.known if each.arm != event.choice.arm]
    return f", chosen over {', '.join(others)}" if others else ""


def _describe_credit(credit: Credit) -> str:
    said = "a success" if credit.success else "a failure"
    return f"{said} for {plain(credit.arm, NAME_LENGTH)} at {plain(credit.step)}"


def _describe_lessons(lessons: Lessons) -> str:
    why = f" ({plain(lessons.why)})" if lessons.why else ""
    return (
        f", with {counted(len(lessons.given), 'lesson')} of earlier runs of {plain(lessons.workflow, NAME_LENGTH)}{why}"
    )


def _describe_brief(brief: Brief) -> str:
    if brief.text == ERASED:
        return " for a brief whose text is erased"
    source = f" from {plain(brief.source, NAME_LENGTH)}" if brief.source.strip() else ""
    if brief.media_type == FOLDER:
        return f" for {plain(brief_text(brief))}{source}"
    return f" for a brief of {counted(len(brief.text), 'character')}{source}"


def _describe_task(event: events.StepRequested) -> str:
    draft = f"draft {event.draft.version}" if event.draft else "the draft"
    match event.role:
        case "generator":
            return "write a draft"
        case "critic":
            return f"judge {draft}"
        case "refiner":
            told = f", which was scored at {score_text(event.score, event.scale)}" if event.score is not None else ""
            return f"improve {draft}{told}"
        case "publisher":
            return f"publish {draft}"
        case "step":
            return f"work{f' on {draft}' if event.draft else ''}"
        case "run":
            return "work on its item"
        case _:
            assert_never(event.role)


def condition_text(critique: Critique) -> str:
    """Returns whether a condition of the user's own holds, and why not; empty for the verdict of any other critic."""
    if critique.scored or list(critique.measures) != [critique.critic]:
        return ""
    why = f": {in_one_line(critique.weaknesses[0])}" if critique.weaknesses else ""
    told: dict[float, str] = {1: "holds", 0: f"does not hold{why}"}
    return told.get(critique.measures[critique.critic], "")


def verdict_text(critique: Critique) -> str:
    """Returns what a critic said of its draft beside a score: that it approved it, or not (a veto); else nothing."""
    return {True: "approved it", False: "did not approve it", None: ""}[critique.approved]


def _describe_critique(critique: Critique, draft: DraftRef, who: str) -> str:
    if held := condition_text(critique):
        return f"of draft {draft.version} the condition {plain(critique.critic, NAME_LENGTH)} {held}"
    found = [
        counted(len(lines), noun)
        for lines, noun in ((critique.errors, "error"), (critique.suggestions, "suggestion"))
        if lines
    ]
    verdict = verdict_text(critique)
    tail = f" ({', '.join(found)})" if found else ""
    marks = f" ({plain(marks_text(critique))})" if says_more(critique) else ""
    if not critique.scored:
        return f"{who} judged draft {draft.version}{marks}{tail} and {verdict or 'gave no score'}"
    said = f" and {verdict}" if verdict else ""
    samples = ", ".join(score_text(each, critique.scale) for each in critique.samples)
    scores = f", the median of {samples}" if samples else ""
    score = score_text(critique.score, critique.scale)
    return f"{who} scored draft {draft.version} at {score}{marks}{scores}{tail}{said}"


def _describe_step(event: events.StateChanged, who: str) -> str:
    """Returns what a step without one of the four roles did, or what the author of a fork changed."""
    author = who if event.path else plain(event.by, NAME_LENGTH) or "a person"
    changed = values_text(event.state)
    return f"{author} {f'set {changed}' if changed else 'answered, and changed no value'}"


def _describe_refinement(event: events.DraftRefined, who: str) -> str:
    made = f"{who} made draft {event.draft.version} from draft {event.before.version}"
    if event.edits:
        saved = f", which saved about {counted(event.saved_tokens, 'token')}" if event.saved_tokens else ""
        made += f" by {counted(len(event.edits), 'edit')}{saved}"
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


def _describe_source(ref: events.EventRef, run: str) -> str:
    """Returns which event that is, as it is named in this run: `event 7`, `event 7 of run other`."""
    return f"event {ref.version}" if ref.run == run else f"event {ref.version} of run {plain(ref.run, NAME_LENGTH)}"


def _describe_failure(event: events.StepFailed, who: str) -> str:
    kinds = {
        "error": "failed",
        "invalid": "returned an invalid result",
        "timeout": "timed out",
        "lost": "was lost",
        "unserved": "had no worker",
    }
    then = f"to be tried again at {event.retry_at:%H:%M:%S} UTC" if event.retry_at else "it is not tried again"
    return f"{who} {kinds[event.kind]} (attempt {event.attempt}): {in_one_line(event.message)}; {then}"


def _describe_approvers(event: events.ApprovalRequested) -> str:
    """Returns who must approve: `ann`, `2 of ann, ben, cat`, `anybody`, `3 people`."""
    names = ", ".join(plain(each, NAME_LENGTH) for each in event.approvers)
    if not names:
        return "anybody" if event.quorum == 1 else counted(event.quorum, "person").replace("persons", "people")
    return names if event.quorum == len(event.approvers) else f"{event.quorum} of {names}"


def _describe_steering(event: Steered) -> str:
    who = plain(event.by, NAME_LENGTH) or "a person"
    why = f" ({plain(event.reason)})" if event.reason.strip() else ""
    match event:
        case events.RunGuided(advice=advice):
            return f"{who} advised{why}: {plain(advice)}"
        case events.LimitsChanged(path=path):
            until = "ends on another condition" if event.until is not None else ""
            most = f"makes at most {counted(event.max_iterations, 'iteration')}" if event.max_iterations else ""
            return f"{who} changed {plain(path)}: it {' and '.join(filter(None, (until, most)))} now{why}"
        case events.RunPaused():
            return f"{who} paused the run{why}"
        case events.RunResumed():
            return f"{who} resumed the run{why}"
        case events.RunCancelled():
            return f"{who} cancelled the run{why}"
        case events.DraftApproved(draft=draft):
            return f"{who} approved draft {draft.version}{why}"
        case events.DraftRejected(draft=draft):
            return f"{who} rejected draft {draft.version}{why}"
        case events.DraftEdited(draft=made, before=before):
            return f"{who} made draft {made.version} from draft {before.version}{why}"
        case _:
            assert_never(event)


def _describe_score(score: float | None, scale: Scale | None) -> str:
    return f", scored at {score_text(score, scale)}" if score is not None else ""
