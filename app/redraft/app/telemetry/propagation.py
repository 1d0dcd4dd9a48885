"""The current span: taken along on messages, handed on to child processes, named in lines of the log."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from redraft.events.messages.tracing import TraceContext, parse_traceparent


def current_traceparent() -> str:
    """Returns the current span as a W3C traceparent; empty when there is none. Imports nothing of OpenTelemetry."""
    context = _current()
    return context.traceparent if context else ""


def _current() -> TraceContext | None:
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return TraceContext(f"{context.trace_id:032x}", f"{context.span_id:016x}", bool(context.trace_flags.sampled))


def span_fields(event: Mapping[str, object]) -> dict[str, str]:
    """Returns what a line of the log says of its trace: that of the current span, or of the run that it names."""
    current = _current()
    if current is not None:
        run = _run_of_current()
        fields = {"trace_id": current.trace_id, "span_id": current.span_id}
        return fields if not run or "run" in event else {**fields, "run": run}
    named = event.get("run")
    if isinstance(named, str) and "trace_id" not in event:
        from redraft.app.telemetry.telemetry import find_telemetry

        telemetry = find_telemetry()
        if telemetry and (trace_id := telemetry.trace_of(named)):
            return {"trace_id": trace_id}
    return {}


def _run_of_current() -> str:
    """Returns the run that is worked on in the current context; empty when none is."""
    calls: Any = sys.modules.get("redraft.app.telemetry.calls")
    return calls.RUN.get() if calls else ""


@contextmanager
def below(traceparent: str) -> Iterator[None]:
    """Makes spans of the block children of this one, which another process began; does nothing without one."""
    parent = parse_traceparent(traceparent)
    if parent is None:
        yield
        return
    from opentelemetry import context, trace

    from redraft.app.telemetry.calls import remote_context

    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(remote_context(parent))))
    try:
        yield
    finally:
        context.detach(token)


def flush_spans() -> None:
    """Exports the spans that have ended, in a process that may be killed as soon as nobody needs it."""
    api: Any = sys.modules.get("opentelemetry.trace")
    flush = getattr(api.get_tracer_provider(), "force_flush", None) if api else None
    if flush is not None:
        flush()


@contextmanager
def client_span(what: str, workflow: str, run: str) -> Iterator[None]:
    """Makes a span of the block, as a client that sends something; does nothing where traces are off."""
    from redraft.app.telemetry.telemetry import NAME

    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        yield
        return
    attributes = {"redraft.run": run, "redraft.workflow": workflow}
    with api.get_tracer(NAME).start_as_current_span(
        f"{what} {workflow}",
        kind=api.SpanKind.PRODUCER,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except Exception:
            span.set_status(api.StatusCode.ERROR)  # without the message, which may quote anything
            raise
