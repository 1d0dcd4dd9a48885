"""Records the metrics of the table `instruments` through OpenTelemetry."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from redraft.app.telemetry.instruments import INSTRUMENTS, Values
from redraft.app.telemetry.run_spans import Span
from redraft.events.messages.usage import Usage


class Meters:
    """The instruments of a process. Gauges keep their last values until they are set again."""

    def __init__(self, meter: Meter) -> None:
        self._gauges: dict[str, Values] = {}
        self._attributes = {each.name: each.attributes for each in INSTRUMENTS}
        self._record: dict[str, Callable[..., None]] = {}
        self._spent: Tally[tuple[str, str]] = Tally()
        self._accepted: Tally[str] = Tally()
        for each in INSTRUMENTS:
            what: dict[str, Any] = {"unit": each.unit, "description": each.description}
            match each.kind:
                case "counter":
                    self._record[each.name] = meter.create_counter(each.name, **what).add
                case "histogram":
                    bounds = each.bounds
                    self._record[each.name] = meter.create_histogram(
                        each.name, **what, explicit_bucket_boundaries_advisory=bounds
                    ).record
                case "gauge":
                    meter.create_observable_gauge(each.name, [self._observe(each.name)], **what)

    def set(self, name: str, values: Values) -> None:
        """Sets all values of a gauge; without any it is not exported."""
        self._gauges[name] = dict(values)

    def note_append(self, seconds: float) -> None:
        """Counts an append that took so long."""
        self._record["redraft.append.duration"](seconds)

    def note_health(self, well: bool, waits: Mapping[str, float]) -> None:
        """Sets whether the process is healthy, and for how long the oldest work of each kind has been under way."""
        self.set("redraft.healthy", {(): float(well)})
        self.set("redraft.work.oldest", {(what,): seconds for what, seconds in waits.items()})

    def count(self, span: Span, workflow: str) -> None:
        """Counts what a span of a run tells."""
        if span.kind == "run":
            self._count_run(span, workflow)
        elif span.kind in ("step", "late"):
            self._count_step(span, workflow)

    def _count_run(self, span: Span, workflow: str) -> None:
        which = {"workflow": workflow, "outcome": span.outcome}
        self._record["redraft.runs"](1, which)
        self._record["redraft.run.duration"](_seconds(span), which)
        self._record["redraft.run.iterations"](span.iterations, which)
        if span.score is not None:
            self._record["redraft.run.score"](span.score, which)
        self._accepted[workflow] += span.outcome == "accepted"
        if span.usage.cost:
            self._record["redraft.run.cost"](span.usage.cost, {**which, "currency": span.usage.currency})
            self._spent[workflow, span.usage.currency] += span.usage.cost  # type: ignore[assignment] # money, not a count
        self.set("redraft.accepted_draft.cost", self._costs())

    def _costs(self) -> Values:
        return {
            (workflow, currency): cost / self._accepted[workflow]
            for (workflow, currency), cost in self._spent.items()
            if self._accepted[workflow]
        }

    def _count_step(self, span: Span, workflow: str) -> None:
        role, actor = str(span.attributes.get("redraft.role", "")), str(span.attributes.get("redraft.actor", ""))
        if span.kind == "step":
            which = {"workflow": workflow, "role": role, "actor": actor, "outcome": span.outcome}
            self._record["redraft.step.duration"](_seconds(span), which)
        if role == "run":  # what the run of an item used is counted in its own steps
            return
        usage = span.usage
        work = {"workflow": workflow, "role": role, "actor": actor, "model": usage.model}
        for kind, tokens in _tokens(usage):
            self._record["redraft.tokens"](tokens, {**work, "type": kind})
        if usage.cost:
            self._record["redraft.cost"](usage.cost, {**work, "currency": usage.currency})

    def _observe(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        names: Final = self._attributes[name]

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            values = self._gauges.get(name, {})
            return [Observation(value, dict(zip(names, key, strict=True))) for key, value in values.items()]

        return observe


def _tokens(usage: Usage) -> Iterable[tuple[str, int]]:
    """Returns the tokens of each type; those that are neither input nor output are of unknown type."""
    rest = usage.tokens - usage.input_tokens - usage.output_tokens
    parts = (("input", usage.input_tokens), ("output", usage.output_tokens), ("unknown", rest))
    return [(kind, tokens) for kind, tokens in parts if tokens > 0]


def _seconds(span: Span) -> float:
    return (span.end - span.start).total_seconds()
