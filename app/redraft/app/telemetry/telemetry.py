"""The telemetry of this process, where a program or `sdk` has set OpenTelemetry up; else there is none."""

from __future__ import annotations

import sys
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from cachetools import LRUCache

from redraft.events.messages.tracing import TraceContext, run_context

if TYPE_CHECKING:
    from redraft.app.telemetry.calls import LiveCallTracer
    from redraft.app.telemetry.meters import Meters
    from redraft.app.telemetry.run_spans import Span

NAME: Final = "redraft"
"""The name of the instrumentation."""

_SDK: Final = "opentelemetry.sdk."
REMEMBERED: Final = 10_000
"""The number of runs whose traces are remembered for lines of the log."""


class Telemetry:
    """Exports spans that were made from recorded events, and holds the instruments.

    `tracer` is one of OpenTelemetry's SDK, None where traces are off.
    """

    def __init__(self, tracer: Any, meters: Meters) -> None:  # noqa: ANN401 - the SDK's, which need not be installed
        self.meters = meters
        self._tracer = tracer
        self._traces: LRUCache[str, str] = LRUCache(REMEMBERED)

    def new_trace(self, run: str) -> str:
        """Returns the trace context of a run that begins without one, sampled or not; empty where traces are off."""
        if self._tracer is None:
            return ""
        context = run_context(run)
        sampled = self._tracer.sampler.should_sample(None, int(context.trace_id, 16), "run").decision.is_sampled()
        return TraceContext(context.trace_id, context.span_id, sampled).traceparent

    def call_tracer(self) -> LiveCallTracer | None:
        """Returns what begins the spans of a worker's calls; None where traces are off."""
        if self._tracer is None:
            return None
        from redraft.app.telemetry.calls import LiveCallTracer

        return LiveCallTracer(self._tracer)

    def note_run(self, run: str, trace_id: str) -> None:
        """Remembers the trace of a run, for lines of the log about it."""
        self._traces[run] = trace_id

    def trace_of(self, run: str) -> str:
        """Returns the id of the trace of a run; empty when it is not known here."""
        return str(self._traces.get(run, ""))

    def export(self, span: Span, workflow: str) -> None:
        """Exports a span with its recorded times, and counts it."""
        self.meters.count(span, workflow)
        if self._tracer is not None and span.context.sampled:
            from redraft.app.telemetry.export import readable

            self._tracer.span_processor.on_end(readable(span, self._tracer.resource))


def find_telemetry() -> Telemetry | None:
    """Returns the telemetry of this process; None when nobody has set up OpenTelemetry's SDK in it.

    Nothing of OpenTelemetry is imported here that was not imported before.
    """
    traces, metrics = sys.modules.get("opentelemetry.trace"), sys.modules.get("opentelemetry.metrics")
    tracing: Any = traces.get_tracer_provider() if traces else None
    metering: Any = metrics.get_meter_provider() if metrics else None
    if _is_sdk(tracing) or _is_sdk(metering):
        return _telemetry(tracing if _is_sdk(tracing) else None, metering if _is_sdk(metering) else None)
    return None


def _is_sdk(provider: object) -> bool:
    return any(each.__module__.startswith(_SDK) for each in type(provider).__mro__)


@lru_cache(maxsize=4)
def _telemetry(tracing: Any, metering: Any) -> Telemetry:  # noqa: ANN401 - the SDK's providers
    from opentelemetry.metrics import NoOpMeterProvider

    from redraft.app.telemetry.meters import Meters

    meters = Meters((metering or NoOpMeterProvider()).get_meter(NAME))
    return Telemetry(tracing.get_tracer(NAME) if tracing else None, meters)


_MOST_NANOSECONDS: Final = 2**63 - 1


def nanoseconds(at: datetime) -> int:
    """Returns a time as OpenTelemetry counts it; one that its 64 bits do not hold as the nearest that they do."""
    return min(max(int(at.timestamp() * 1_000_000) * 1_000, 0), _MOST_NANOSECONDS)
