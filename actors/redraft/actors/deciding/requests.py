"""Makes the requests for steps: about which draft, and with what was said of it. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, assert_never

from redraft.actors.conditions.reading import SCORE, critics_of, declares, share_of_gain
from redraft.actors.deciding.candidates import draft_to_refine, finished_drafts
from redraft.actors.deciding.excusing import told_failures
from redraft.actors.deciding.facts import is_known
from redraft.actors.deciding.judgement import Judgement, join_row
from redraft.actors.deciding.reusing import with_key
from redraft.actors.deciding.salvage import draft_to_salvage
from redraft.actors.deciding.state import Candidate, Frame, RunState
from redraft.actors.plans.paths import critics_before
from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import StepRequested
from redraft.events.messages.plan import DEFAULT_ROLLBACK_MARGIN, Step

GRACE: Final = timedelta(hours=1)
"""How long after its timeout an answer is awaited; longer if its request is known to wait in its queue."""


LOOK_AFTER: Final = timedelta(minutes=1)
"""How long after it was asked for the run of an item is looked after: what was said of it may have been lost."""


@lru_cache(maxsize=256)
def _longest_wait(timeout: float) -> timedelta:
    return timedelta(seconds=timeout) + GRACE


def longest_wait(step: Step) -> timedelta:
    """Returns how long after its request the answer of a step is due."""
    return LOOK_AFTER if step.role == "run" else _longest_wait(step.timeout)


def draft_to_work_on(state: RunState, step: Step) -> Candidate | None:
    """Returns the draft to work on: after a refinement that scored far lower, the best one again."""
    current = state.current
    if state.failure:
        return draft_to_salvage(state) if state.rules >= 2 else state.best
    top = state.frames[-1]
    if step.role != "refiner" or top.node is None or current is None or current.judgement is None:
        return current
    best = draft_to_refine(state, top)
    if best is None or best.judgement is None or current.judgement.failed:
        return current
    margin, fell = top.node.rollback_margin, best.judgement.score - current.judgement.score
    critics, name, known = critics_of(top.node.body), top.node.rollback_of or SCORE, True
    fell = round(fell, 9) if state.rules >= 8 else fell  # 0.9 - 0.7 is more than 0.2 in binary
    if declares(critics):
        margin = share_of_gain(margin, top.node.rollback_top, DEFAULT_ROLLBACK_MARGIN, name, critics)
        fell = round(best.judgement.mark(name) - current.judgement.mark(name), 9)
        known = is_known(name, current.judgement, critics, state.rules)
    if current.judgement.gate == "failed" != best.judgement.gate:
        return best if margin < 1 else current
    return best if known and fell > margin else current


def make_request(state: RunState, step: Step, path: str, now: datetime, draft: DraftRef | None = None) -> StepRequested:
    """Returns the first request for a step, about `draft` or the one that it has to work on."""
    refines = step.role == "refiner"
    loop = state.frames[-1]
    source = draft_to_work_on(state, step)
    judged = _judgement_told(state, loop, step, source)
    warmer = refines and loop.node is not None and loop.node.on_oscillation == "raise_temperature"
    request = StepRequested(
        path,
        step.role,
        step.actor,
        attempt=1,
        due=now + longest_wait(step),
        draft=draft or (source.ref if source and step.role not in ("generator", "run") else None),
        critiques=_critiques_told(state, loop, step, source, judged),
        score=judged.known_score if judged else None,
        scale=judged.scale if judged and judged.scored else None,
        outputs=finished_drafts(state, *state.frames),
        advice=state.advice if refines else (),
        oscillation=loop.swings if refines else (),
        heat=loop.heat if warmer else 0,
        queue_wait=step.queue_wait,
    )
    return request if step.reuse is None else with_key(state, step, request)


def _critiques_told(
    state: RunState, loop: Frame, step: Step, source: Candidate | None, judged: Judgement | None
) -> tuple[int, ...]:
    """Returns the versions of the critiques that a step is told of; refinements of failures on their draft, too."""
    said = judged.critiques if judged else ()
    if not state.untold or not (step.role == "refiner" or (step.role == "generator" and loop.node is not None)):
        return said
    return (*said, *(version for version in told_failures(state, source) if version not in said))


def _judgement_told(state: RunState, loop: Frame, step: Step, source: Candidate | None) -> Judgement | None:
    """Returns the judgement that a step is told of: of its draft or, in a row of critics, what these said so far."""
    if step.condition or (step.role == "step" and loop.verdicts):
        return join_row(loop.verdicts, critics_before(loop.body, loop.index), state.rules) if loop.verdicts else None
    match step.role:
        case "refiner" | "step":
            told = True
        case "generator":
            told = loop.node is not None and state.rules >= 4
        case "critic" | "publisher" | "run":
            told = False
        case _:
            assert_never(step.role)
    return source.judgement if source and told else None
