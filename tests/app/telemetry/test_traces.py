"""The traces of runs, as a receiver of OTLP that is not ours gets them from real processes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.app.cli_calls import until
from tests.app.deployments import Deployment, deployment
from tests.app.server.served import LOOP, served
from tests.app.telemetry.otlp import Received, Receiver, grpc_receiver, receiver
from tests.free_ports import free_port
from tests.processes import called, plain

from redraft.events.messages.tracing import parse_traceparent

BRIEF = "moonstone"
ACTORS = f"""
import logging
from opentelemetry import trace
from redraft.actors import Critique, Usage, Workflow, critic, generator, publisher, refiner, score

TRACER = trace.get_tracer("mine")

@generator
def write(brief, context):
    if context.attempt == 1:
        raise RuntimeError("the {BRIEF} is away")
    return brief.text

@critic
async def judge(draft, context):
    logging.getLogger("mine").warning("a slow source")
    with TRACER.start_as_current_span("look up"):
        context.used(Usage(tokens=10, input_tokens=7, output_tokens=3, cost=0.5, calls=1, model="openai:gpt-5"))
    return Critique(draft.version / 2)

@refiner
def improve(draft, critique, context):
    with TRACER.start_as_current_span("rewrite"):
        return draft.text + " more"

@publisher(isolation="process")
def save(draft, context):
    with TRACER.start_as_current_span("write a file"):
        return "nowhere"

loop = Workflow("loop").start_with(write)
loop = loop.repeat_until(score >= 1, max_iterations=3, name="Loop", body=[judge, improve]).finally_(save)
"""
SHAPE = {
    "run loop": "submit loop",
    "loop Loop": "run loop",
    "iteration 1": "loop Loop",
    "iteration 2": "loop Loop",
    "generator write": "run loop",
    "critic judge": "iteration",
    "refiner improve": "iteration 1",
    "publisher save": "run loop",
    "call write": "generator write",
    "invoke_agent judge": "critic judge",
    "call improve": "refiner improve",
    "call save": "publisher save",
    "look up": "invoke_agent judge",
    "rewrite": "call improve",
    "write a file": "call save",
}
"""The name of each span of the run, and how the name of the span above it begins."""


def settings(url: str) -> dict[str, str]:
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
    }


@pytest.fixture
def sink() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


def require_shape(sink: Receiver, trace: str) -> dict[str, Received]:
    """Returns the spans of the trace by their ids, each of which has the parent that it should have, and its time."""
    spans = {span.id: span for span in sink.of(trace)}
    assert {span.name for span in spans.values()} == {"submit loop", *SHAPE}
    for span in spans.values():
        if span.name != "submit loop":
            above = spans[span.parent]
            assert above.name.startswith(SHAPE[span.name]), (span.name, above.name)
            assert 0 < span.start <= span.end
    assert not next(span for span in spans.values() if span.name == "submit loop").parent
    return spans


def require_facts(sink: Receiver, run: str) -> None:
    (whole,) = sink.named("run loop")
    assert whole.facts["redraft.run"] == run
    assert whole.facts["redraft.outcome"] == "accepted"
    assert whole.facts["redraft.iterations"] == 2
    assert whole.facts["redraft.usage.cost"] == 1.0
    first, second = sorted(sink.named("generator write"), key=lambda span: span.start)
    assert first.failed
    assert first.facts["redraft.outcome"] == "error"
    assert second.links == (first.id,)
    assert not second.failed
    for call in sink.named("invoke_agent judge"):
        assert call.facts["gen_ai.request.model"] == "gpt-5"
        assert call.facts["gen_ai.provider.name"] == "openai"
        assert (call.facts["gen_ai.usage.input_tokens"], call.facts["gen_ai.usage.output_tokens"]) == (7, 3)
        assert call.facts["redraft.usage.cost"] == 0.5
    assert BRIEF.encode() not in sink.raw


@pytest.mark.check
def test_a_run_in_one_process_is_one_trace(tmp_path: Path, sink: Receiver) -> None:
    (tmp_path / "loop.py").write_text(ACTORS)
    environment = plain(REDRAFT_STORE=f"sqlite:///{tmp_path / 'r.db'}", **settings(sink.url))
    said = called("run", "loop.py:loop", f"the {BRIEF}", folder=tmp_path, environment=environment)
    assert said.code == 0, said.err
    (trace,) = {span.trace for span in sink.spans}
    require_shape(sink, trace)
    require_facts(sink, sink.named("run loop")[0].facts["redraft.run"])
    assert {"redraft.runs", "redraft.step.duration", "redraft.append.duration"} <= set(sink.metrics)
    assert {"redraft.relay.lag", "redraft.projection.lag", "redraft.dead_letters"} <= set(sink.metrics)


@pytest.mark.check
def test_a_server_without_a_broker_has_the_gauges_of_a_deployment(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    (tmp_path / "hold").touch()  # so that the request has no answer when the gauges are read
    port = free_port()
    place = {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": str(port)}
    with served(tmp_path, "loop.py", **place) as server:
        server.client.post("/runs", json={"workflow": "loop", "brief": BRIEF}).raise_for_status()
        judge = (("actor", "judge"), ("role", "critic"))
        wanted = {("redraft_queue_waiting", judge), ("redraft_queue_age_seconds", judge), ("redraft_dead_letters", ())}
        until(lambda: wanted <= set(metrics(port)))
        until(lambda: all(value == 0 for value in lags(port)))
        assert metrics(port)["redraft_healthy", ()] == 1


@pytest.mark.check
def test_a_run_is_exported_by_grpc(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(ACTORS)
    with grpc_receiver() as sink:
        given = settings(sink.url) | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        environment = plain(REDRAFT_STORE=f"sqlite:///{tmp_path / 'r.db'}", **given)
        said = called("run", "loop.py:loop", f"the {BRIEF}", folder=tmp_path, environment=environment)
    assert (said.code, "telemetry" in said.err) == (0, False)
    (trace,) = {span.trace for span in sink.spans}
    require_shape(sink, trace)
    assert "redraft.runs" in sink.metrics


@pytest.mark.check
def test_a_run_across_processes_is_one_trace(tmp_path: Path, sink: Receiver) -> None:
    with deployment(tmp_path) as made:
        (tmp_path / "loop.py").write_text(ACTORS)
        made.settings = settings(sink.url)
        port = free_port()
        shown = {"OTEL_METRICS_EXPORTER": "otlp,prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": str(port)}
        made.settings = settings(sink.url) | shown
        made.start("coordinator", "coordinator")
        made.settings = settings(sink.url)
        made.start("others", "worker", "loop.py:write", "loop.py:improve", "loop.py:save")
        for name in ("coordinator", "others"):
            made.serving(name)
        said = made.call("submit", "loop.py:loop", f"the {BRIEF}")
        assert said.code == 0, said.err
        run = said.out.strip()
        require_queue_age(made, port)
        made.start("critic", "worker", "loop.py:judge")
        made.ended(run)
        trace = trace_of(made, run)
        names = {"submit loop", *SHAPE}
        made.until("all spans come", lambda: names <= {span.name for span in sink.of(trace)})
        require_shape(sink, trace)
        require_facts(sink, run)
        services = {"redraft-coordinator", "redraft-worker", "redraft-submit", "redraft-actor"}
        assert {span.service for span in sink.of(trace)} == services
        require_metrics(made, sink, port)
        (ended,) = made.said("coordinator", "run ended")
        assert (ended["run"], ended["trace_id"]) == (run, trace)
        (warned,) = made.said("critic", "a slow source")
        assert (warned["run"], warned["trace_id"]) == (run, trace)
        assert warned["span_id"] in {span.id for span in sink.named("invoke_agent judge")}


@pytest.mark.check
def test_a_coordinator_that_is_killed_breaks_no_trace(tmp_path: Path, sink: Receiver) -> None:
    with deployment(tmp_path) as made:
        (tmp_path / "loop.py").write_text(ACTORS)
        made.settings = settings(sink.url)
        first = made.start("first", "coordinator")
        made.start("others", "worker", "loop.py:write", "loop.py:improve", "loop.py:save")
        made.serving("first")
        said = made.call("submit", "loop.py:loop", f"the {BRIEF}")
        assert said.code == 0, said.err
        run = said.out.strip()
        made.until("a draft is there", lambda: len(sink.named("generator write")) == 2)
        first.kill()
        first.wait(30)
        made.start("second", "coordinator")
        made.start("critic", "worker", "loop.py:judge")
        made.ended(run)
        made.until("all spans come", lambda: {"submit loop", *SHAPE} <= {span.name for span in sink.spans})
        spans = require_shape(sink, trace_of(made, run))
        copies = Counter(span.id for span in sink.spans)
        assert set(copies) == set(spans)
        assert max(copies.values()) <= 2
        assert len(sink.named("run loop")) == 1


def trace_of(made: Deployment, run: str) -> str:
    """Returns the trace of a run: every one of its events names it."""
    contexts = [parse_traceparent(event.trace) for event in made.history(run)]
    (trace,) = {context.trace_id for context in contexts if context is not None}
    assert None not in contexts
    return trace


def require_metrics(made: Deployment, sink: Receiver, port: int) -> None:
    """Requires that OTLP and `/metrics` tell of the run, in numbers."""
    made.until("metrics come", lambda: "redraft.runs" in sink.metrics and "redraft.dead_letters" in sink.metrics)
    judge = (("actor", "judge"), ("role", "critic"))
    made.until("the queue is empty", lambda: metrics(port).get(("redraft_queue_age_seconds", judge)) == 0)
    made.until("all is projected", lambda: all(value == 0 for value in lags(port)))
    values = metrics(port)
    accepted = (("outcome", "accepted"), ("workflow", "loop"))
    expected = {
        ("redraft_runs_total", accepted): 1,
        ("redraft_run_iterations_sum", accepted): 2,
        ("redraft_run_score_sum", accepted): 1,
        ("redraft_accepted_draft_cost", (("currency", ""), ("workflow", "loop"))): 1.0,
        ("redraft_healthy", ()): 1,
        ("redraft_dead_letters", ()): 0,
    }
    assert {name: values.get(name) for name in expected} == expected
    assert values["redraft_append_duration_seconds_count", ()] > 0


def require_queue_age(made: Deployment, port: int) -> None:
    """Requires that a request which nobody takes grows old."""
    judge = (("actor", "judge"), ("role", "critic"))
    made.until("a request grows old", lambda: metrics(port).get(("redraft_queue_age_seconds", judge), 0) > 0)
    assert metrics(port)["redraft_queue_waiting", judge] == 1


Labels = tuple[tuple[str, str], ...]


def metrics(port: int) -> dict[tuple[str, Labels], float]:
    """Returns what `/metrics` says, as Prometheus' own parser reads it, by name and labels."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        families = list(text_string_to_metric_families(page.read().decode()))
    return {
        (sample.name, tuple(sorted((name, value) for name, value in sample.labels.items() if "otel" not in name))): (
            sample.value
        )
        for family in families
        for sample in family.samples
    }


def lags(port: int) -> list[float]:
    found = metrics(port)
    return [value for (name, _), value in found.items() if name in ("redraft_relay_lag", "redraft_projection_lag")]


OWN_PROVIDER = """
import asyncio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from loop import loop
from redraft.app import refine

exporter = InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
with trace.get_tracer("mine").start_as_current_span("request") as request:
    assert asyncio.run(refine(loop, "a text")).outcome == "accepted"
spans = {span.name: span for span in exporter.get_finished_spans()}
assert {span.context.trace_id for span in spans.values()} == {request.get_span_context().trace_id}
assert spans["submit loop"].parent.span_id == request.get_span_context().span_id
assert spans["run loop"].parent.span_id == spans["submit loop"].context.span_id
assert spans["look up"].parent.span_id == spans["invoke_agent judge"].context.span_id
"""


@pytest.mark.check
def test_a_program_with_a_provider_of_its_own_has_its_runs_below_its_spans(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(ACTORS.replace("attempt == 1", "attempt == 0"))
    (tmp_path / "program.py").write_text(OWN_PROVIDER)
    environment = plain(REDRAFT_STORE="memory:")
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=environment, check=True)


def test_the_command_line_imports_nothing_of_opentelemetry() -> None:
    program = "import sys, redraft.app.cli; print([each for each in sys.modules if each.startswith('opentelemetry')])"
    done = subprocess.run([sys.executable, "-c", program], env=plain(), capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.check
def test_without_a_setting_nothing_of_opentelemetry_is_started(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(
        "import asyncio, sys, threading\n"
        "from redraft.app import refine\n"
        "from redraft.actors import Workflow, generator, critic, Critique, score\n"
        "@generator\ndef write(brief): return brief.text\n"
        "@critic\ndef judge(draft): return Critique(1)\n"
        "loop = Workflow('w').start_with(write).repeat_until(score >= 1, max_iterations=2, body=[judge])\n"
        "assert asyncio.run(refine(loop, 'a text')).outcome == 'accepted'\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )

    environment = plain(REDRAFT_STORE="memory:")
    done = subprocess.run(
        [sys.executable, "run.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
