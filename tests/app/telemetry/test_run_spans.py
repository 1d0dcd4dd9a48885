"""Spans that are made from recorded events: the same ones, whoever makes them and however often."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pytest
from tests.projections.logs import stateful_told
from tests.streams import recorded

from redraft.actors import Critique, Workflow, critic, generator, outputs, refiner, repeat, score
from redraft.app.settings.settings import read_settings
from redraft.app.telemetry.run_spans import RunSpans, Span
from redraft.app.telemetry.telemetry import nanoseconds
from redraft.app.testing.history import history as simulated
from redraft.app.wiring.local import open_local
from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import ApprovalRequested, DraftRejected, RunQuarantined
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.tracing import parse_traceparent, run_context, span_id, step_context

BRIEF = "moonstone"
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@generator
def write(brief: object) -> str:
    return BRIEF


@critic
def judge(draft: object) -> Critique:
    return Critique(draft.version / 2)  # type: ignore[attr-defined]


@refiner
def improve(draft: object) -> str:
    return f"{BRIEF} more"


def nested() -> Workflow:
    inner = repeat("Inner", until=score >= 1, max_iterations=3, body=[judge, improve])
    return Workflow("nested").repeat_until(outputs >= 2, max_iterations=2, name="Outer", body=[write, inner])


@pytest.fixture(scope="module")
def history() -> Sequence[Recorded]:
    async def run() -> Sequence[Recorded]:
        workflow = nested()
        async with open_local(read_settings(store="memory:"), workflow.actors.values()) as runtime:
            name = await runtime.client.submit(workflow, BRIEF)
            await runtime.client.wait(name)
            return await runtime.client.history(name)

    return asyncio.run(run())


def spans_of(events: Sequence[Recorded]) -> list[Span]:
    spans = RunSpans()
    return [span for event in events for span in spans.add(event)]


def test_whoever_reads_the_log_again_makes_the_same_spans(history: Sequence[Recorded]) -> None:
    again: list[Span] = []
    for number, event in enumerate(history):
        fresh = RunSpans()
        for earlier in history[:number]:
            fresh.add(earlier)
        again += fresh.add(event)
    assert again == spans_of(history)
    assert len({span.context.span_id for span in again}) == len(again)
    names = {span.context.span_id: str(span.attributes.get("redraft.path", "")) for span in again}
    above = {names[span.context.span_id]: names.get(span.parent_id) for span in again if span.kind != "run"}
    assert above["Outer[2]/Inner[1]/judge"] == "Outer[2]/Inner[1]"
    assert above["Outer[2]/Inner[1]"] == "Outer[2]/Inner"
    assert above["Outer[2]/Inner"] == above["Outer[2]/write"] == "Outer[2]"
    assert above["Outer[2]"] == "Outer"
    assert above["Outer"] == ""


@pytest.mark.parametrize("seed", range(12))
def test_every_span_hangs_below_one_that_is_told(seed: int) -> None:
    """Also of closing looks, of reviews of a person's draft, of panels, and of the judges of several drafts."""
    runs: dict[str, list[Recorded]] = {}
    for event in simulated(seed).events:
        runs.setdefault(event.run, []).append(event)
    for events in runs.values():
        spans = spans_of(events)
        told = {span.context.span_id for span in spans}
        orphans = [span.attributes["redraft.path"] for span in spans if span.parent_id and span.parent_id not in told]
        assert orphans == []


def test_an_event_that_comes_twice_ends_its_spans_once(history: Sequence[Recorded]) -> None:
    assert spans_of([each for event in history for each in (event, event)]) == spans_of(history)


def test_spans_hold_no_text(history: Sequence[Recorded]) -> None:
    assert BRIEF in str([event.data for event in history])
    assert BRIEF not in str(spans_of(history))


def test_a_step_without_a_role_is_a_span_with_its_usage_and_without_values() -> None:
    spans = spans_of(recorded("s", stateful_told()))
    steps = [(each.name, each.outcome, each.usage.tokens) for each in spans if each.kind == "step"]
    assert steps == [
        ("step web", "done", 7),
        ("step books", "invalid", 0),
        ("step books", "done", 0),
        ("generator write", "done", 0),
        ("step run_tests", "done", 0),
    ]
    assert "secret" not in str(spans)
    assert next(each for each in spans if each.kind == "run").usage.tokens == 7


def test_the_trace_is_that_of_the_caller_or_derived(history: Sequence[Recorded]) -> None:
    run = history[0].run
    *_, alone = spans_of(history)
    assert (alone.kind, alone.parent_id) == ("run", "")
    assert alone.context == run_context(run)
    called = [msgspec.structs.replace(history[0], trace=CALLER), *history[1:]]
    *_, below = spans_of(called)
    assert (below.context.trace_id, below.parent_id) == (CALLER[3:35], CALLER[36:52])
    steps = {span.context.span_id for span in spans_of(called) if span.kind == "step"}
    assert step_context(run, CALLER, "Outer[1]/write", 1).span_id in steps


def test_what_a_fork_repeats_is_not_told_again(history: Sequence[Recorded]) -> None:
    half = len(history) // 2
    fork = [
        msgspec.structs.replace(event, run="fork", repeats=event.id if 0 < number < half else "")
        for number, event in enumerate(history)
    ]
    own, parents = spans_of(fork), spans_of(history)
    assert 0 < len(own) < len(parents)
    assert own[-1].kind == "run"
    assert not {span.context.span_id for span in own} & {span.context.span_id for span in parents}


def test_what_is_open_when_a_run_is_set_aside_ends_with_it(history: Sequence[Recorded]) -> None:
    last = history[-1]
    until = next(number for number, event in enumerate(history) if "judge" in str(getattr(event.data, "path", "")))
    aside = msgspec.structs.replace(history[until + 1], data=RunQuarantined("ann", BRIEF), time=last.time)
    spans = spans_of([*history[: until + 1], aside])
    assert [(span.kind, span.outcome) for span in spans[-6:]] == [
        ("step", "abandoned"),
        *[("iteration", "quarantined"), ("loop", "quarantined")] * 2,
        ("run", "quarantined"),
    ]


def test_an_approval_is_a_span_and_a_steering_message_of_another_trace_a_link(history: Sequence[Recorded]) -> None:
    run, at = history[0], datetime(2030, 1, 1, tzinfo=UTC)
    draft = DraftRef(1, "0" * 64)
    asked = msgspec.structs.replace(run, version=2, data=ApprovalRequested("sign", draft, at))
    said = msgspec.structs.replace(run, version=3, data=DraftRejected("sign", draft, "ann", BRIEF), trace=CALLER)
    ended = msgspec.structs.replace(history[-1], version=4)
    approval, whole = spans_of([run, asked, said, ended])
    assert (approval.kind, approval.outcome) == ("approval", "rejected")
    assert [link.traceparent for link in whole.links] == [CALLER]


@pytest.mark.parametrize(
    "text", ["", "00", CALLER.upper(), CALLER.replace("b7ad6b7169203331", "0" * 16), f"ff{CALLER[2:]}"]
)
def test_what_is_no_traceparent_is_none(text: str) -> None:
    assert parse_traceparent(text) is None


def test_a_traceparent_comes_back_as_it_was() -> None:
    for text in (CALLER, CALLER[:-1] + "0"):
        context = parse_traceparent(text)
        assert context is not None
        assert context.traceparent == text
    assert len(span_id("run", "loop", "Loop")) == 16


@pytest.mark.parametrize("time", [datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)])
def test_a_time_at_the_end_of_the_calendar_fits_the_64_bits_of_a_span(time: datetime) -> None:
    assert 0 <= nanoseconds(time) < 2**63
