"""The messages that the relay makes: of a request, and of a step that it cannot request."""

from __future__ import annotations

from redraft.events.bus.port import BusMessage
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import Failed, Work
from redraft.events.messages.domain_events import StepRequested
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.tracing import parse_traceparent, step_context


def failure_message(event: Recorded, request: StepRequested, fault: str) -> BusMessage:
    """Returns the message that a step failed for good, in place of its worker's."""
    name, body = encode_message(Failed(event.run, request.path, request.attempt, "invalid", fault, retryable=False))
    origin = Origin(f"{event.id}.refused", "relay", event.id, event.correlation, event.trace)
    return BusMessage(name, body, origin, event.run)


def request_message(event: Recorded, request: StepRequested, work: Work, trace: str) -> BusMessage:
    """Returns the message of a request; in a traced run, the span of its attempt is the parent of the work."""
    name, body = encode_message(work)
    parent = event.trace
    if trace and parse_traceparent(trace) is not None:
        parent = step_context(event.run, trace, request.path, request.attempt).traceparent
    origin = Origin(event.id, "relay", event.causation, event.correlation, parent)
    return BusMessage(name, body, origin, event.run, work)
