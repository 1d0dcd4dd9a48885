"""The spans of a worker's calls, live: what an actor's function does hangs below them."""

from __future__ import annotations

from contextvars import Context, ContextVar, copy_context
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from redraft.actors.workflow.actor import Actor
from redraft.app.telemetry.run_spans import usage_attributes
from redraft.events.messages.commands import Failed, OutcomeMessage, Work
from redraft.events.messages.envelope import Origin
from redraft.events.messages.tracing import TraceContext, parse_traceparent, step_context
from redraft.events.messages.usage import Usage

RUN: Final[ContextVar[str]] = ContextVar("redraft_run", default="")
"""The run that is worked on in this context."""


class LiveCallTracer:
    """Begins a span for each call, below that of its step."""

    def __init__(self, tracer: Any) -> None:  # noqa: ANN401 - the SDK's, which need not be installed
        self._tracer = tracer

    def start(self, actor: Actor, work: Work, origin: Origin) -> LiveCallSpan:
        """Begins the span of a call for a request, whose message had this origin."""
        request = work.request
        step = parse_traceparent(origin.trace) or step_context(request.run, "", request.path, request.attempt)
        above = trace.set_span_in_context(trace.NonRecordingSpan(remote_context(step)))
        span = self._tracer.start_span(
            f"call {actor.name}",
            above,
            SpanKind.CONSUMER,
            {
                "redraft.run": request.run,
                "redraft.path": request.path,
                "redraft.role": actor.role,
                "redraft.actor": actor.name,
                "redraft.attempt": request.attempt,
                "redraft.sent": request.sent,
            },
        )
        return LiveCallSpan(span, actor, request.run)


class LiveCallSpan:
    """A span that is current in its `context`."""

    def __init__(self, span: trace.Span, actor: Actor, run: str) -> None:
        self.context: Context = copy_context()
        self._span = span
        self._actor = actor
        self.context.run(self._enter, run)

    def _enter(self, run: str) -> None:
        from opentelemetry import context

        context.attach(trace.set_span_in_context(self._span))
        RUN.set(run)

    def end(self, outcome: OutcomeMessage | None) -> None:
        """Ends the span. Of a failure it says the kind alone: its message may quote a draft."""
        span = self._span
        if outcome is None:
            span.set_attribute("redraft.outcome", "abandoned")
        elif isinstance(outcome, Failed):
            span.set_attribute("redraft.outcome", outcome.kind)
            span.set_status(Status(StatusCode.ERROR, outcome.kind))
        else:
            span.set_attribute("redraft.outcome", "done")
        if outcome is not None and outcome.usage.model:
            span.update_name(f"invoke_agent {self._actor.name}")
            span.set_attributes(genai_attributes(self._actor, outcome.usage))
        if outcome is not None:
            span.set_attributes(usage_attributes(outcome.usage))
        span.end()


def genai_attributes(actor: Actor, usage: Usage) -> dict[str, str | int]:
    """Returns what a call used, by OpenTelemetry's conventions for generative AI."""
    provider, _, model = usage.model.rpartition(":")
    facts: dict[str, str | int] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": actor.name,
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if provider:
        facts["gen_ai.provider.name"] = provider
    return facts


def remote_context(context: TraceContext, *, is_remote: bool = True) -> SpanContext:
    """Returns a trace context as OpenTelemetry has it; `is_remote` when another process has the span."""
    flags = TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT)
    return SpanContext(int(context.trace_id, 16), int(context.span_id, 16), is_remote, flags)
