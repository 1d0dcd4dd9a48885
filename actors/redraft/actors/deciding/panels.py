"""Parallels in progress: whom they ask next, and when a panel's wait for its critics is over. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from redraft.actors.deciding.requests import make_request
from redraft.actors.deciding.skipping import skip, waits_for_others
from redraft.actors.deciding.state import Frame, ParallelState, RunState, prefix
from redraft.actors.plans.paths import gates_of, required_answers
from redraft.events.messages.domain_events import DomainEvent, PanelClosed, StepRequested
from redraft.events.messages.plan import Parallel


def next_of_parallel(state: RunState, top: Frame, parallel: ParallelState, now: datetime) -> DomainEvent | None:
    """Returns the next request of a parallel in progress, or the end of its wait; None while answers are awaited."""
    inside = f"{prefix(top)}{parallel.node.name}{top.review or ''}/"
    if parallel.judging and parallel.node.judge:
        if parallel.requested == len(parallel.candidates):
            return None
        path = f"{inside}{parallel.node.judge.name}[{parallel.requested + 1}]"
        request = make_request(state, parallel.node.judge, path, now, parallel.candidates[parallel.requested])
        return replace(request, beside=parallel.candidates)
    if parallel.requested == len(parallel.node.steps):
        return closed_panel(state, inside[:-1], now)
    if parallel.requested == gates_of(parallel.node) > len(parallel.verdicts):
        return None
    step = parallel.node.steps[parallel.requested]
    if step.when is not None:
        if waits_for_others(parallel, step):
            return None
        if (left := skip(state, top, step, inside + step.name)) is not None:
            return left
    return limit_due(make_request(state, step, inside + step.name, now), parallel.node, now, parallel.until)


def limit_due(request: StepRequested, node: Parallel, now: datetime, until: datetime | None = None) -> StepRequested:
    """Returns the request, due at the panel's deadline if it has one."""
    if node.deadline is None:
        return request
    return replace(request, due=min(request.due, until or now + timedelta(seconds=node.deadline)))


def closed_panel(state: RunState, path: str, now: datetime) -> PanelClosed | None:
    """Returns the end of the wait for a panel's critics, once its time is over and enough have answered; else None."""
    parallel = state.frames[-1].parallel
    if (
        parallel is None
        or parallel.until is None
        or now < parallel.until
        or len(parallel.verdicts) < required_answers(parallel.node)
    ):
        return None
    return PanelClosed(path, len(parallel.verdicts), tuple(state.open))
