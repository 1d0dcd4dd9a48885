"""Converts spans that were made from recorded events into spans of OpenTelemetry's SDK."""

from __future__ import annotations

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from redraft.app.telemetry.calls import remote_context
from redraft.app.telemetry.run_spans import FAILED, Span
from redraft.app.telemetry.telemetry import NAME, nanoseconds
from redraft.events.messages.tracing import TraceContext


def readable(span: Span, resource: Resource) -> ReadableSpan:
    """Returns the span as the SDK exports it, with the recorded times and the ids that every process derives."""
    parent = TraceContext(span.context.trace_id, span.parent_id, span.context.sampled) if span.parent_id else None
    return ReadableSpan(
        span.name,
        context=remote_context(span.context, is_remote=False),
        parent=remote_context(parent, is_remote=span.kind == "run") if parent else None,
        resource=resource,
        attributes=dict(span.attributes),
        links=[Link(remote_context(each)) for each in span.links],
        kind=SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, span.outcome) if span.outcome in FAILED else Status(StatusCode.UNSET),
        start_time=nanoseconds(span.start),
        end_time=nanoseconds(span.end),
        instrumentation_scope=InstrumentationScope(NAME),
    )
