"""Requests and their answers: what may be asked of whom about which draft, and which answer is to which request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import replace

from redraft.events.content import DraftRef
from redraft.events.domain_events import (
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    StepFailed,
    StepRequested,
)
from redraft.events.envelope import Recorded
from redraft.events.plan import Step
from redraft.events.usage import Usage
from redraft.projections.record_check.answers import misfits
from redraft.projections.record_check.barred import fallback, finished, salvaged
from redraft.projections.record_check.findings import Deviates
from redraft.projections.record_check.ratings import Rated
from redraft.projections.record_check.spending import check_afforded
from redraft.projections.record_check.walk import Asked, Broken, Frame, Walk

Made: TypeAlias = DraftGenerated | DraftRefined
Answer: TypeAlias = DraftGenerated | DraftRefined | DraftCritiqued | DraftPublished | StepFailed


def asks(walk: Walk, path: str) -> bool:
    """Whether the next event is the first request at this path."""
    data = walk.peek().data
    return isinstance(data, StepRequested) and data.path == path and path not in walk.open


def ask(walk: Walk, step: Step, path: str, draft: DraftRef | None = None, beside: Sequence[DraftRef] = ()) -> None:
    """Takes the request that the plan has at this point. Raises Deviates when something else is recorded."""
    event = walk.peek()
    data = event.data
    if not isinstance(data, StepRequested) or data.path != path:
        raise Deviates("step", event, f"{path} was to be asked for next")
    if data.role != step.role or data.attempt != 1:
        raise Deviates("step", event, f"{path} is a {step.role}, and its attempts begin with 1")
    if not walk.repeats(event):
        _check_actor(event, data, step)
        if data.queue_wait != step.queue_wait:
            raise Deviates(
                "step", event, f"the plan says otherwise how long {path} waits while nobody serves its actor"
            )
        reserved = [each.request.reserved for each in walk.open.values() if not each.again]
        check_afforded(walk.plan, walk.usage, walk.started, event, data, reserved)
    _check_material(walk, event, data, draft, tuple(beside))
    walk.open[path] = Asked(step, data)
    walk.top.due = ""
    if step.role == "generator" and walk.rules >= 2:
        _begin_anew(walk)
    walk.take()


def _begin_anew(walk: Walk) -> None:
    """Forgets drafts judged before the loops in progress: what a generator writes is no version of them."""
    walk.frames[0].judged = ()
    for frame in walk.frames[1:]:
        frame.entry = None


def answer(walk: Walk) -> tuple[Recorded, Asked, Answer] | None:
    """The next answer that counts, with its request; None for a failure that is tried again, or another attempt.

    Raises Deviates for what answers no open request.
    """
    event = walk.peek()
    data = event.data
    match data:
        case StepRequested():
            _try_again(walk, event, data)
            return None
        case DraftGenerated() | DraftRefined() | DraftCritiqued() | DraftPublished() | StepFailed():
            return _answered(walk, event, data)
        case _:
            waiting = ", ".join(sorted(walk.open)) or "an answer"
            raise Deviates("order", event, f"{waiting} had to be answered before this")


def only_answer(walk: Walk) -> tuple[Recorded, Asked, Answer]:
    """The answer to the one request that is open. Raises Broken when it failed for good."""
    while (given := answer(walk)) is None:
        pass
    if isinstance(given[2], StepFailed):
        raise Broken(publishing=given[1].step.role == "publisher")
    return given


def heed(walk: Walk, asked: Asked) -> None:
    """Advice that went with a request is heeded once a draft has come of it."""
    walk.advice = tuple(each for each in walk.advice if each not in asked.request.advice)


def _answered(walk: Walk, event: Recorded, data: Answer) -> tuple[Recorded, Asked, Answer] | None:
    asked = walk.open.get(data.path)
    if asked is None:
        raise Deviates("unasked", event, f"nothing waits for an answer of {data.path}")
    if asked.again or asked.request.attempt != data.attempt:
        raise Deviates("attempt", event, f"attempt {data.attempt} of {data.path} is not waited for")
    for code, told in misfits(data, asked.request):
        raise Deviates(code, event, told)
    walk.take()
    walk.spend(data.usage)
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
    if replace(data, attempt=1, due=before.due, reserved=Usage()) != replace(before, attempt=1, reserved=Usage()):
        raise Deviates("attempt", event, f"attempt {data.attempt} of {data.path} is not the same request")
    if not walk.repeats(event):
        reserved = [each.request.reserved for each in walk.open.values() if not each.again]
        check_afforded(walk.plan, walk.usage, walk.started, event, data, reserved)
    walk.open[data.path] = Asked(asked.step, data)
    walk.take()


def _check_actor(event: Recorded, data: StepRequested, step: Step) -> None:
    if not step.choose:
        if data.actor != step.actor or data.choice is not None:
            raise Deviates("step", event, f"{data.path} is for {step.actor}, not for {data.actor}")
        return
    actors = {arm.name: arm.actor for arm in step.choose}
    if data.choice is None or actors.get(data.choice.arm) != data.actor:
        raise Deviates("step", event, f"{data.actor} is none of those that {data.path} chooses among")


def _check_material(
    walk: Walk, event: Recorded, data: StepRequested, draft: DraftRef | None, beside: tuple[DraftRef, ...]
) -> None:
    refines = data.role == "refiner"
    about = _source(walk, event, data) if draft is None else Rated(draft)
    ref = about.ref if about and data.role != "generator" else None
    if data.draft != ref:
        raise Deviates("draft", event, f"{data.path} is to work on {_named(ref)}, not on {_named(data.draft)}")
    rating = about.rating if about and refines else None
    if data.critiques != (rating.critiques if rating else ()):
        raise Deviates("critiques", event, f"{data.path} is not told the critiques that were made of its draft")
    if data.score != (rating.score if rating else None):
        said = "no score" if rating is None else f"{rating.score:g}"
        raise Deviates("score", event, f"the critics of that draft gave {said} together")
    if data.outputs != finished(walk, *walk.frames) or data.beside != beside:
        raise Deviates("draft", event, f"{data.path} is not given the drafts that were finished before")
    if data.advice != (walk.advice if refines else ()):
        raise Deviates("advice", event, f"{data.path} is not told what people said")
    _check_swings(event, data, walk.top)


def _check_swings(event: Recorded, data: StepRequested, frame: Frame) -> None:
    swings = frame.swings if data.role == "refiner" else None
    raised = frame.loop is not None and frame.loop.on_oscillation == "raise_temperature"
    if len(data.oscillation) != (swings.told if swings else 0):
        raise Deviates("oscillation", event, "the refiner is not told what went to and fro")
    if data.heat != (swings.count if swings and raised else 0):
        raise Deviates("oscillation", event, f"the temperature is not to be raised {data.heat} times")


def _source(walk: Walk, event: Recorded, data: StepRequested) -> Rated | None:
    """The draft to work on: the current one; after a refinement that scored far lower, the best one again."""
    current, top = walk.current, walk.top
    if walk.breaking is not None:
        return walk.best if walk.rules < 2 else salvaged(walk)
    if data.role != "refiner" or top.loop is None or current is None or current.rating is None:
        return current
    best = fallback(walk, top)
    if best is None or best.rating is None:
        return current
    if walk.repeats(event):  # its parent's plan may have had another margin
        was_best = (data.draft, data.critiques) == (best.ref, best.rating.critiques)
        return best if was_best else current
    margin = top.loop.rollback_margin
    if current.rating.gate == "failed" != best.rating.gate:
        return best if margin < 1 else current
    return best if best.rating.score - current.rating.score > margin else current


def _named(ref: DraftRef | None) -> str:
    return f"draft {ref.version}" if ref else "no draft"
