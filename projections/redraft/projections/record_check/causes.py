"""Checks the causes that events name: of an answer its request, of a retry the failure, of all else its decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from redraft.events.messages.domain_events import RunStarted, StepAnswered, StepFailed, StepRequested, VerdictLate
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Parallel, Plan, nodes_of, steps_of
from redraft.projections.record_check.chain import Finding, finding_at
from redraft.projections.record_check.run_state import place_of

_GRACE: Final = 3_600
"""For how many seconds at most an answer is awaited beyond the timeout of its step."""

_MICROSECOND: Final = 1e-6
"""To which times are rounded, in seconds."""

_FIRST: Final = ".0"


def cause_faults(events: Sequence[Recorded]) -> Iterator[Finding]:
    """Yields the faults of causes, of what was decided together, and of the times at which answers are due.

    The events of one decision follow each other. The first has the id of the message with `.0`, and is the cause of the
    others, whose ids end with `.1` and so on. A record that begins without such ids is checked for wrong answers alone.
    """
    check = _Causes(events)
    first: Recorded | None = None
    for event in events:
        if first is not None and event.id == f"{first.id[:-1]}{event.version - first.version}":
            yield from _faults_of_decided(event, first)
        elif first is not None and not event.id.endswith(_FIRST):
            yield finding_at("decision", event, f"its id {event.id} is none that a decision gives")
        else:
            first = event if event.id.endswith(_FIRST) else None
            yield from check.faults_of_first(event)
        if isinstance(event.data, StepRequested) and first is not None and not event.repeats:
            yield from check.faults_of_due(event, event.data)
        check.note(event)


def _faults_of_decided(event: Recorded, first: Recorded) -> Iterator[Finding]:
    """Yields how an event differs from the first one of its decision; who acted in what a fork repeats is not known."""
    if event.causation != first.id:
        yield finding_at("cause", event, f"its cause is event {first.version}, with which it was decided")
    if (event.time, event.correlation) != (first.time, first.correlation):
        yield finding_at("decision", event, f"its time and correlation are those of event {first.version}")
    if event.actor != "coordinator" and not event.repeats:
        yield finding_at("decision", event, f"the coordinator decided it, and not {event.actor or 'nobody'}")


class _Causes:
    """The events of a run by their ids, and the requests and failures so far, by path and attempt."""

    def __init__(self, events: Sequence[Recorded]) -> None:
        begun = events[0].data if events else None
        self._steps = dict(steps_of(begun.plan.steps)) if isinstance(begun, RunStarted) else {}
        self._hurried = frozenset(_hurried_places(begun.plan)) if isinstance(begun, RunStarted) else frozenset()
        self._ids = {event.id: event for event in events}
        self._requests: dict[tuple[str, int], Recorded] = {}
        self._failures: dict[tuple[str, int], Recorded] = {}

    def note(self, event: Recorded) -> None:
        data = event.data
        if isinstance(data, StepRequested):
            self._requests[data.path, data.attempt] = event
        elif isinstance(data, StepFailed):
            self._failures[data.path, data.attempt] = event

    def faults_of_first(self, event: Recorded) -> Iterator[Finding]:
        """Yields how the cause of the first event of a decision is not the event of its run that it has to be.

        A message need not name its cause. One of the timekeeper may name an event that a log which was set back lost.
        """
        if not event.causation or event.repeats:
            return
        data, cause, right = event.data, self._ids.get(event.causation), None
        if isinstance(data, StepAnswered | VerdictLate):
            right = self._requests.get((data.path, data.attempt))
        elif isinstance(data, StepRequested):
            right = self._failures.get((data.path, data.attempt - 1))
        if right is not None:
            is_lost = cause is None and isinstance(data, StepFailed | StepRequested)
            if cause is not right and not is_lost:
                what = "after which it is tried again" if isinstance(data, StepRequested) else "which asked for it"
                yield finding_at("cause", event, f"its cause is event {right.version}, {what}")
        elif cause is not None and cause.version >= event.version:
            yield finding_at("cause", event, f"event {cause.version}, its cause, is not before it")

    def faults_of_due(self, event: Recorded, asked: StepRequested) -> Iterator[Finding]:
        """Yields a fault for an answer that is due later than its step may take, or at once.

        It may be due at once where the time of its panel, or of the whole run, may be over already.
        """
        place = place_of(asked.path)
        step = self._steps.get(place)
        longest, left = _GRACE + (step.timeout if step else 0), _in_utc(asked.due) - _in_utc(event.time)
        is_late = left.total_seconds() > longest + _MICROSECOND
        if is_late or (left.total_seconds() <= 0 and place not in self._hurried):
            said = f"its answer is due within {longest:g} seconds, not at {asked.due.isoformat()}"
            yield finding_at("due", event, said)


def _hurried_places(plan: Plan) -> Iterator[str]:
    """Yields the places of the steps whose time may be over before they are asked."""
    if any(budget is not None and budget.seconds is not None for budget in (plan.budget, plan.daily)):
        yield from (place for place, _ in steps_of(plan.steps))
    for place, node in nodes_of(plan.steps):
        if isinstance(node, Parallel) and node.deadline is not None:
            yield from (f"{place}/{step.name}" for step in node.steps)


def _in_utc(time: datetime) -> datetime:
    """Returns a time as it is, or one without a zone, which only a stranger records, as one of UTC."""
    return time if time.tzinfo else time.replace(tzinfo=UTC)
