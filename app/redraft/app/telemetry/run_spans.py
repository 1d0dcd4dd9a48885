"""Makes spans of recorded events: of runs, loops, iterations, steps and approvals. Pure; no text gets into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from redraft.events.messages import domain_events as events
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.tracing import SpanKind, TraceContext, parse_traceparent, run_context, span_id
from redraft.events.messages.usage import Usage

Attribute: TypeAlias = str | int | float | bool

FAILED: Final = frozenset({"failed", "error", "invalid", "timeout", "lost", "unserved", "quarantined"})
"""Outcomes of runs and steps that make a span an error."""

MAX_LINKS: Final = 32
"""The number of messages from other traces that a run's span links to."""


class Span(msgspec.Struct, frozen=True):
    """A span that has ended. `parent_id` is empty for the first of a trace; `links` lead to related spans."""

    kind: SpanKind
    name: str
    context: TraceContext
    parent_id: str
    start: datetime
    end: datetime
    outcome: str
    attributes: Mapping[str, Attribute]
    links: tuple[TraceContext, ...] = ()
    usage: Usage = Usage()
    score: float | None = None
    iterations: int = 0


class _OpenStep(msgspec.Struct, frozen=True):
    request: events.StepRequested
    since: datetime


class RunSpans:
    """Follows one run, event by event, and returns the spans that each event ends.

    Events that a fork repeats from its parent end no span: it ended there.
    """

    def __init__(self) -> None:
        self.version = 0
        self.workflow = ""
        self.usage = Usage()
        self._run = ""
        self._begun: datetime | None = None
        self._above = TraceContext("", "")
        self._loops: dict[str, datetime] = {}
        self._begun_loops: set[str] = set()
        self._iterations: dict[str, tuple[int, datetime]] = {}
        self._steps: dict[str, _OpenStep] = {}
        self._approvals: dict[str, datetime] = {}
        self._links: dict[TraceContext, None] = {}

    @property
    def trace_id(self) -> str:
        """Returns the id of the run's trace."""
        return self._above.trace_id

    def add(self, event: Recorded) -> Sequence[Span]:
        """Returns the spans that the next event of the run ends, inner ones first; none for one that was added."""
        if event.version <= self.version:
            return ()
        self.version = event.version
        self._note_link(event)
        ended = self._apply(event)
        return () if event.repeats else ended

    def _apply(self, event: Recorded) -> list[Span]:
        at, data = event.time, event.data
        match data:
            case events.RunStarted():
                self._run, self._begun, self.workflow = event.run, data.at, data.plan.name
                self._above = run_context(event.run, event.trace)
                self._links.clear()
            case events.StepRequested():
                self._steps[data.path] = _OpenStep(data, at)
            case events.IterationStarted():
                return self._start_iteration(data, at)
            case (
                events.DraftGenerated()
                | events.DraftCritiqued()
                | events.DraftRefined()
                | events.DraftPublished()
                | events.StateChanged()
            ) as answer:
                score = answer.critique.score if isinstance(answer, events.DraftCritiqued) else None
                return self._answer(event, answer.path, "done", answer.usage, score)
            case events.StepFailed(path=path, kind=kind, usage=usage):
                return self._answer(event, path, kind, usage)
            case events.VerdictLate():
                return self._late(event, data)
            case events.ApprovalRequested(path=path):
                self._approvals[path] = at
            case events.DraftApproved(path=path, granted=True):
                return self._decide(path, at, "approved")
            case events.DraftRejected(path=path):
                return self._decide(path, at, "rejected")
            case events.ApprovalExpired(path=path):
                return self._decide(path, at, "expired")
            case events.LoopEnded():
                return self._end_loop(data, at)
            case events.RunEnded():
                return self._end_run(at, data.outcome, data)
            case events.RunQuarantined():
                return self._end_run(at, "quarantined") if self._begun else []
            case _:
                pass
        return []

    def _note_link(self, event: Recorded) -> None:
        """Remembers a message of another trace that steered the run."""
        if isinstance(event.data, events.Steered) and len(self._links) < MAX_LINKS:
            came = parse_traceparent(event.trace)
            if came is not None and came.trace_id != self.trace_id:
                self._links[came] = None

    def _start_iteration(self, data: events.IterationStarted, at: datetime) -> list[Span]:
        ended = self._end_iteration(data.path, at, "done")
        self._loops.setdefault(data.path, at)
        self._begun_loops.add(data.path)
        self._iterations[data.path] = data.iteration, at
        return ended

    def _end_iteration(self, loop: str, at: datetime, outcome: str) -> list[Span]:
        if (found := self._iterations.pop(loop, None)) is None:
            return []
        number, since = found
        path = f"{loop}[{number}]"
        spans = self._abandon(at, f"{path}/")
        span = self._span("iteration", f"iteration {number}", path, loop, since, at, outcome)
        return [*spans, msgspec.structs.replace(span, attributes={**span.attributes, "redraft.iteration": number})]

    def _end_loop(self, data: events.LoopEnded, at: datetime) -> list[Span]:
        inner = self._end_iteration(data.path, at, data.outcome)
        since = self._loops.pop(data.path, at)
        span = self._span(
            "loop", f"loop {_last(data.path)}", data.path, self._around(data.path), since, at, data.outcome
        )
        facts: dict[str, Attribute] = {"redraft.iterations": data.iterations}
        if data.score is not None:
            facts["redraft.score"] = data.score
        return [*inner, msgspec.structs.replace(span, attributes={**span.attributes, **facts})]

    def _answer(self, event: Recorded, path: str, outcome: str, usage: Usage, score: float | None = None) -> list[Span]:
        if not event.repeats:
            self.usage += usage
        step = self._steps.pop(path, None)
        if step is None:
            return []
        return [self._step_span(step, path, event.time, outcome, usage, score)]

    def _step_span(
        self, step: _OpenStep, path: str, at: datetime, outcome: str, usage: Usage, score: float | None
    ) -> Span:
        request = step.request
        span = self._span(
            "step",
            f"{request.role} {request.actor}",
            path,
            self._around(path),
            step.since,
            at,
            outcome,
            request.attempt,
        )
        links = (self._context("step", path, request.attempt - 1),) if request.attempt > 1 else ()
        facts: dict[str, Attribute] = {
            "redraft.role": request.role,
            "redraft.actor": request.actor,
            "redraft.attempt": request.attempt,
        }
        if score is not None:
            facts["redraft.score"] = score
        attributes = {**span.attributes, **facts, **usage_attributes(usage)}
        return msgspec.structs.replace(span, attributes=attributes, links=links, usage=usage, score=score)

    def _late(self, event: Recorded, data: events.VerdictLate) -> list[Span]:
        if not event.repeats:
            self.usage += data.usage
        step = self._steps.pop(data.path, None)
        if step is not None:
            return [self._step_span(step, data.path, event.time, "late", data.usage, data.critique.score)]
        span = self._span("late", "late verdict", data.path, self._around(data.path), event.time, event.time, "late")
        return [msgspec.structs.replace(span, usage=data.usage)]

    def _decide(self, path: str, at: datetime, outcome: str) -> list[Span]:
        if (since := self._approvals.pop(path, None)) is None:
            return []
        return [self._span("approval", f"approval {_last(path)}", path, self._around(path), since, at, outcome)]

    def _abandon(self, at: datetime, below: str = "") -> list[Span]:
        """Returns the spans of steps and approvals below a path that nobody waits for any more."""
        steps = [path for path in self._steps if path.startswith(below)]
        spans = [self._step_span(self._steps.pop(path), path, at, "abandoned", Usage(), None) for path in steps]
        for path in [path for path in self._approvals if path.startswith(below)]:
            spans += self._decide(path, at, "abandoned")
        return spans

    def _end_run(self, at: datetime, outcome: str, end: events.RunEnded | None = None) -> list[Span]:
        spans = self._abandon(at)
        for path in sorted(self._loops, key=len, reverse=True):
            spans += self._end_iteration(path, at, outcome)
            spans.append(
                self._span("loop", f"loop {_last(path)}", path, self._around(path), self._loops[path], at, outcome)
            )
        self._loops.clear()
        score, iterations = (end.score, end.iterations) if end else (None, 0)
        facts: dict[str, Attribute] = {"redraft.iterations": iterations, **usage_attributes(self.usage)}
        if score is not None:
            facts["redraft.score"] = score
        span = self._span("run", f"run {self.workflow}", "", None, self._begun or at, at, outcome)
        self._begun = None
        return [
            *spans,
            msgspec.structs.replace(
                span,
                attributes={**span.attributes, **facts},
                links=tuple(self._links),
                usage=self.usage,
                score=score,
                iterations=iterations,
            ),
        ]

    def _span(
        self,
        kind: SpanKind,
        name: str,
        path: str,
        parent: str | None,
        start: datetime,
        end: datetime,
        outcome: str,
        attempt: int = 1,
    ) -> Span:
        """Returns a span; its parent is the loop or iteration at the path `parent`, the run (empty), or the caller."""
        context = self._context(kind, path, attempt)
        attributes: dict[str, Attribute] = {
            "redraft.run": self._run,
            "redraft.workflow": self.workflow,
            "redraft.outcome": outcome,
        }
        if path:
            attributes["redraft.path"] = path
        return Span(kind, name, context, self._parent_id(parent, context), start, max(start, end), outcome, attributes)

    def _around(self, path: str) -> str:
        """Returns the path of the innermost iteration around a loop or step; empty outside of all loops.

        A closing look, and a review of a person's draft, is in no iteration: then that of its loop.
        """
        above = path.rpartition("/")[0]
        while above:
            name, _, number = above.rpartition("[")
            if name in self._begun_loops:
                return above if number[:-1].isdecimal() else name
            above = above.rpartition("/")[0]
        return ""

    def _parent_id(self, parent: str | None, own: TraceContext) -> str:
        if parent is None:
            return "" if self._above.span_id == own.span_id else self._above.span_id
        if not parent:
            return span_id(self._run, "run")
        return span_id(self._run, "iteration" if parent.endswith("]") else "loop", parent)

    def _context(self, kind: SpanKind, path: str, attempt: int = 1) -> TraceContext:
        return TraceContext(self._above.trace_id, span_id(self._run, kind, path, attempt), self._above.sampled)


def usage_attributes(usage: Usage) -> dict[str, Attribute]:
    """Returns the attributes that say what was used; none where no model was asked."""
    if usage.is_nothing:
        return {}
    facts: dict[str, Attribute] = {"redraft.usage.tokens": usage.tokens, "redraft.usage.cost": usage.cost}
    for name in ("calls", "model", "currency"):
        if value := getattr(usage, name):
            facts[f"redraft.usage.{name}"] = value
    return facts


def _last(path: str) -> str:
    return path.rpartition("/")[2]
