"""Failures of steps that do not end a run: their loop has the next refinement mend the draft. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from redraft.actors.deciding.judgement import Judgement
from redraft.actors.deciding.state import Candidate, Frame, OpenStep, RunState, with_top
from redraft.actors.plans.paths import role_of
from redraft.events.messages.domain_events import StepFailed
from redraft.events.messages.plan import Repeat

_EXCUSED: Final = frozenset({"critic", "step"})
_DRAFTING: Final = frozenset({"generator", "refiner"})


def is_excused(state: RunState, event: StepFailed, known: OpenStep) -> bool:
    """Returns whether the loop of a step that failed for good goes on with a refinement that is told of the error.

    That is for its own critics and free steps, as often as its plan says, and not where no refinement would follow. A
    step that no worker serves has no error that a draft could mend.
    """
    top = state.frames[-1]
    loop = top.node
    if loop is None or loop.on_failure != "refine" or event.kind == "unserved" or known.step.role not in _EXCUSED:
        return False
    if top.closing or state.current is None or (top.parallel is not None and top.parallel.judging):
        return False
    follows = _next_draft(top) < len(top.body) or top.iteration < loop.max_iterations
    return follows and top.failures < loop.max_failures


def excuse(state: RunState) -> RunState:
    """Returns the state in which the failure that was recorded last is for the next refinement of the current draft."""
    top, current = state.frames[-1], state.current
    if current is None:
        return state
    beside = top.parallel.verdicts if top.parallel is not None else ()
    heard = [*top.verdicts, *(said for _, said in beside)]
    before = current.judgement.critiques if current.judgement is not None else ()
    versions = (*before, *(version for each in heard for version in each.critiques))
    failed = Judgement(0.0, 1, None, versions, scored=False, failed=True)
    top = replace(top, parallel=None, verdicts=(), index=_next_draft(top), due="nothing", failures=top.failures + 1)
    untold = (*state.untold, state.version)
    return with_top(replace(state, open={}, current=replace(current, judgement=failed), untold=untold), top)


def told_failures(state: RunState, source: Candidate | None) -> tuple[int, ...]:
    """Returns the failures that a request to refine this draft tells of, whatever critics have said of it since."""
    same = source is not None and state.current is not None and source.ref == state.current.ref
    return state.untold if same else ()


def with_other_draft(state: RunState) -> RunState:
    """Returns the state without failures that were those of another draft than the current one is now."""
    return replace(state, untold=()) if state.untold else state


def _next_draft(top: Frame) -> int:
    """Returns the place of the next node of the body that makes a draft; the end of the body if none does."""
    places = range(top.index, len(top.body))
    drafting = (at for at in places if role_of(top.body[at]) in _DRAFTING or isinstance(top.body[at], Repeat))
    return next(drafting, len(top.body))
