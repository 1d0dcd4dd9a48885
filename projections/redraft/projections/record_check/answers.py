"""Checks requests and answers of a run: each answer follows its request, and one answer of each attempt counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import (
    BudgetReached,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    RunStarted,
    StateChanged,
    StepAnswered,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import DEFAULT_ROLLBACK_MARGIN, Step
from redraft.events.messages.usage import Usage
from redraft.projections.record_check.chain import Deviates, Finding, finding_at
from redraft.projections.record_check.drafts import finished_drafts, publishable_draft, rated_drafts, rollback_draft
from redraft.projections.record_check.loop_conditions import have_scales, is_left_open, judging_steps, share_of_rise
from redraft.projections.record_check.ratings import Rated, Rating, heed_gates, join_ratings
from redraft.projections.record_check.reused import check_key, check_verdict
from redraft.projections.record_check.walk import Asked, Broken, Frame, Walk, check_afforded

Answer: TypeAlias = StepAnswered | VerdictLate
_OF_ROLE = {
    "generator": DraftGenerated,
    "critic": DraftCritiqued | VerdictLate,
    "refiner": DraftRefined,
    "publisher": DraftPublished,
    "step": StateChanged,
    "run": DraftGenerated,
}


def answer_faults(events: Sequence[Recorded]) -> list[Finding]:
    """Returns the faults of requests, attempts and answers, wherever in the plan they are."""
    check = _Answers(events)
    for event in events:
        match event.data:
            case StepRequested():
                check.asked(event, event.data)
            case StateChanged(path=""):
                pass  # a person's, with which a fork goes on
            case DraftGenerated() | DraftCritiqued() | DraftRefined() | DraftPublished() | StateChanged():
                check.answered(event, event.data)
            case StepFailed() | VerdictLate():
                check.answered(event, event.data)
            case BudgetReached():
                check.void()
            case _:
                pass
    return check.findings


def find_misfits(data: Answer, asked: StepRequested, rules: int) -> Iterator[tuple[str, str]]:
    """Yields how an answer does not fit its request: the code of each fault, and its explanation.

    By rules 7 a critique has the name of the actor that was asked.
    """
    if not isinstance(data, StepFailed | _OF_ROLE[asked.role]):
        yield "role", f"{data.path} was asked of a {asked.role}"
    about = data.before if isinstance(data, DraftRefined) else getattr(data, "draft", None)
    if not isinstance(data, StepFailed | DraftGenerated | StateChanged) and about != asked.draft:
        yield "draft", f"{data.path} was asked about another draft"
    if rules >= 7 and isinstance(data, DraftCritiqued | VerdictLate) and data.critique.critic != asked.actor:
        yield (
            "role",
            f"{data.path} was asked of {asked.actor}, and its critique is by {data.critique.critic or 'nobody'}",
        )


class _Answers:
    def __init__(self, events: Sequence[Recorded]) -> None:
        begun = events[0].data if events else None
        parent = begun.parent if isinstance(begun, RunStarted) else None
        self.findings: list[Finding] = []
        self._rules = begun.rules if isinstance(begun, RunStarted) else 1
        self._inherited = parent.version if parent else 0
        self._requests: dict[tuple[str, int], tuple[int, StepRequested]] = {}
        self._answers: dict[tuple[str, int], tuple[int, bool]] = {}
        """The version of an attempt's answer, and whether another attempt is to follow it."""

    def asked(self, event: Recorded, data: StepRequested) -> None:
        place = data.path, data.attempt
        known = self._requests.get(place)
        again = known is not None and known[0] <= self._inherited and place not in self._answers
        if known is not None and not again:
            self._flag("asked-twice", event, f"{data.path}, attempt {data.attempt}, was asked for in event {known[0]}")
        if data.attempt > 1 and not self._answers.get((data.path, data.attempt - 1), (0, False))[1]:
            self._flag("attempt", event, f"attempt {data.attempt - 1} of {data.path} has not failed to be tried again")
        if data.attempt < 1:
            self._flag("attempt", event, f"attempts begin with 1, not with {data.attempt}")
        self._requests[place] = event.version, data

    def void(self) -> None:
        """Drops all open requests; publishers may be asked again."""
        self._requests = {place: each for place, each in self._requests.items() if each[1].role != "publisher"}
        self._answers = {place: each for place, each in self._answers.items() if place in self._requests}

    def answered(self, event: Recorded, data: Answer) -> None:
        place = data.path, data.attempt
        known = self._requests.get(place)
        if known is None:
            return self._flag("unasked", event, f"attempt {data.attempt} of {data.path} was never asked for")
        waited = isinstance(data, VerdictLate) and self._answers.get(place, (0, False))[1]
        if place in self._answers and not waited:
            counted = self._answers[place][0]
            self._flag("answer-twice", event, f"attempt {data.attempt} of {data.path} was answered in event {counted}")
        for code, message in find_misfits(data, known[1], self._rules):
            self._flag(code, event, message)
        again = isinstance(data, StepFailed) and data.retry_at is not None
        self._answers[place] = event.version, again
        return None

    def _flag(self, code: str, event: Recorded, message: str) -> None:
        path = getattr(event.data, "path", "")
        if self._rules < 2 and "[edit" in path and code in ("asked-twice", "answer-twice"):
            return  # other limits, given meanwhile, had critics of an edit begin anew
        self.findings.append(finding_at(code, event, message))


Made: TypeAlias = DraftGenerated | DraftRefined


def is_asked_next(walk: Walk, path: str) -> bool:
    """Returns whether the next event is the first request at this path."""
    data = walk.peek().data
    return isinstance(data, StepRequested) and data.path == path and path not in walk.open


def take_request(
    walk: Walk,
    step: Step,
    path: str,
    draft: DraftRef | None = None,
    beside: Sequence[DraftRef] = (),
    heard: Rating | None = None,
) -> None:
    """Takes the request that the plan has at this point. Raises Deviates when something else is recorded.

    `heard` is what critics of a row have said so far, for a condition. A free step between critics is told that too.
    """
    event = walk.peek()
    data = event.data
    if not isinstance(data, StepRequested) or data.path != path:
        raise Deviates("step", event, f"the next request should be for {path}")
    if data.role != step.role or data.attempt != 1:
        raise Deviates("step", event, f"{path} is a {step.role}, and its attempts begin with 1")
    if not walk.repeats(event):
        _check_actor(event, data, step)
        if data.queue_wait != step.queue_wait:
            raise Deviates(
                "step",
                event,
                f"the plan gives another limit for how long {path} waits for a worker that serves its actor",
            )
        check_afforded(walk, event, data)
        check_key(walk, event, data, step)
    if step.role == "step" and walk.top.heard:
        heard = heed_gates(join_ratings(walk.top.heard), walk.top.heard, walk.rules)
    _check_material(walk, event, data, draft, tuple(beside), heard)
    if step.role == "refiner":
        walk.note_unmet(event)
    walk.open[path] = Asked(step, data)
    walk.top.due = ""
    if step.role == "generator" and walk.rules >= 2:
        forget_judged(walk)
    walk.take()


def forget_judged(walk: Walk) -> None:
    """Forgets drafts judged before the loops in progress: what a generator writes is no version of them."""
    walk.frames[0].judged = ()
    for frame in walk.frames[1:]:
        frame.entry = None


def take_answer(walk: Walk) -> tuple[Recorded, Asked, StepAnswered] | None:
    """Returns the next answer that counts, with its request; None for a failure to be retried, or another attempt.

    Raises Deviates for an event that answers no open request.
    """
    event = walk.peek()
    data = event.data
    match data:
        case StepRequested():
            _try_again(walk, event, data)
            return None
        case DraftGenerated() | DraftRefined() | DraftCritiqued() | DraftPublished() | StateChanged() | StepFailed():
            return _take_counted_answer(walk, event, data)
        case _:
            waiting = ", ".join(sorted(walk.open)) or "an answer"
            raise Deviates("order", event, f"{waiting} should have been answered before this")


def take_only_answer(walk: Walk) -> tuple[Recorded, Asked, StepAnswered]:
    """Returns the answer to the only open request. Raises Broken when it failed for good."""
    while (given := take_answer(walk)) is None:
        pass
    if isinstance(given[2], StepFailed):
        raise Broken(publishing=given[1].step.role == "publisher")
    return given


def drop_heeded_advice(walk: Walk, asked: Asked) -> None:
    """Drops the advice that the request held: a draft has come of it."""
    walk.advice = tuple(each for each in walk.advice if each not in asked.request.advice)


def _take_counted_answer(
    walk: Walk, event: Recorded, data: StepAnswered
) -> tuple[Recorded, Asked, StepAnswered] | None:
    asked = walk.open.get(data.path)
    if asked is None:
        raise Deviates("unasked", event, f"nothing waits for an answer of {data.path}")
    if asked.again or asked.request.attempt != data.attempt:
        raise Deviates("attempt", event, f"attempt {data.attempt} of {data.path} is not waited for")
    for code, message in find_misfits(data, asked.request, walk.rules):
        raise Deviates(code, event, message)
    if not walk.repeats(event):
        check_verdict(walk, event, data, asked.request)
    walk.state.take(event, data.path, None if walk.repeats(event) else asked.step.writes)
    if not isinstance(data, StepFailed):
        walk.state.note_look(data.path, asked.request.draft if isinstance(data, StateChanged) else data.draft)
    walk.take()
    walk.usage += data.usage
    if isinstance(data, StepFailed) and data.retry_at is not None:
        if not walk.repeats(event) and data.attempt >= asked.step.retry.attempts:
            raise Deviates("attempt", event, f"{data.path} may be tried {asked.step.retry.attempts} times, and no more")
        asked.again = True
        return None
    del walk.open[data.path]
    return event, asked, data


def _try_again(walk: Walk, event: Recorded, data: StepRequested) -> None:
    asked = walk.open.get(data.path)
    if asked is None:
        raise Deviates("step", event, f"the plan does not ask for {data.path} here")
    before = asked.request
    if not asked.again or data.attempt != before.attempt + 1:
        raise Deviates("attempt", event, f"attempt {data.attempt} of {data.path} follows no failed one")
    again = replace(data, attempt=1, due=before.due, reserved=Usage(), verdict_key=before.verdict_key)
    if again != replace(before, attempt=1, reserved=Usage()):
        raise Deviates("attempt", event, f"attempt {data.attempt} of {data.path} is not the same request")
    if not walk.repeats(event):
        check_afforded(walk, event, data)
        if data.verdict_key != before.verdict_key:  # a step beside it has changed the state
            check_key(walk, event, data, asked.step)
    walk.open[data.path] = Asked(asked.step, data)
    walk.take()


def _check_actor(event: Recorded, data: StepRequested, step: Step) -> None:
    if not step.choose:
        if data.actor != step.actor or data.choice is not None:
            raise Deviates("step", event, f"{data.path} is for {step.actor}, not for {data.actor}")
        return
    actors = {arm.name: arm.actor for arm in step.choose}
    if data.choice is None or actors.get(data.choice.arm) != data.actor:
        raise Deviates("step", event, f"{data.actor} is not one of the actors that {data.path} chooses among")


def _check_material(
    walk: Walk,
    event: Recorded,
    data: StepRequested,
    draft: DraftRef | None,
    beside: tuple[DraftRef, ...],
    heard: Rating | None,
) -> None:
    refines = data.role == "refiner"
    about = _expected_draft(walk, event, data) if draft is None else Rated(draft)
    ref = about.ref if about and data.role not in ("generator", "run") else None
    if data.draft != ref:
        raise Deviates("draft", event, f"{data.path} should work on {_name_of(ref)}, not on {_name_of(data.draft)}")
    in_loop = data.role == "generator" and walk.top.loop is not None and walk.rules >= 4
    told = Rated(about.ref, heard) if about and heard else about if refines or in_loop or data.role == "step" else None
    rating = told.rating if told else None
    known = rating.critiques if rating else ()
    if (refines or (in_loop and data.role == "generator")) and about and walk.current and about.ref == walk.current.ref:
        known += tuple(version for version in walk.untold if version not in known)
    if data.critiques != known:
        raise Deviates("critiques", event, f"the request to {data.path} does not hold the critiques of its draft")
    score, scale = told.shown if told else (None, None)
    if (data.score, data.scale) != (score, scale):
        said = "no score" if score is None else f"{score:g}"
        raise Deviates("score", event, f"the critics of that draft gave {said} together")
    if data.outputs != finished_drafts(walk, *walk.frames) or data.beside != beside:
        raise Deviates("draft", event, f"the request to {data.path} does not hold the drafts that were finished before")
    if data.advice != (walk.advice if refines else ()):
        raise Deviates("advice", event, f"the request to {data.path} does not hold what people said")
    _check_swings(event, data, walk.top)


def _check_swings(event: Recorded, data: StepRequested, frame: Frame) -> None:
    swings = frame.swings if data.role == "refiner" else None
    raised = frame.loop is not None and frame.loop.on_oscillation == "raise_temperature"
    if len(data.oscillation) != (swings.reported if swings else 0):
        raise Deviates("oscillation", event, "the request does not tell the refiner exactly which changes were undone")
    if data.heat != (swings.count if swings and raised else 0):
        raise Deviates("oscillation", event, f"the temperature should not be raised {data.heat} times")


def _expected_draft(walk: Walk, event: Recorded, data: StepRequested) -> Rated | None:
    """Returns the draft to work on: the current one, or the best one again after a refinement that scored far lower."""
    current, top = walk.current, walk.top
    if walk.breaking is not None:
        return walk.best if walk.rules < 2 else publishable_draft(walk)
    if data.role != "refiner" or top.loop is None or current is None or current.rating is None:
        return current
    if walk.repeats(event):  # its parent's plan may have had another margin, or one of another criterion
        back = (data.draft, data.critiques)
        judged = (current, *rated_drafts(top))
        return next((each for each in judged if each.rating and (each.ref, each.rating.critiques) == back), current)
    best = rollback_draft(walk, top)
    if best is None or best.rating is None or current.rating.broken:
        return current
    margin, fall = top.loop.rollback_margin, best.rating.score - current.rating.score
    critics, is_open = judging_steps(top.loop.body), False
    if walk.rules >= 8:
        fall = round(fall, 9)
    if have_scales(critics):
        name = top.loop.rollback_of or "score"
        margin = share_of_rise(margin, top.loop.rollback_top, DEFAULT_ROLLBACK_MARGIN, name, critics)
        fall = round(best.rating.named(name) - current.rating.named(name), 9)
        is_open = is_left_open(name, current.rating, critics, walk.rules)
    if current.rating.gate == "failed" != best.rating.gate:
        return best if margin < 1 else current
    return best if fall > margin and not is_open else current


def _name_of(ref: DraftRef | None) -> str:
    return f"draft {ref.version}" if ref else "no draft"
