"""Whatever a worker's function does becomes an outcome."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading

import pytest
from msgspec.structs import replace

from redraft.actors.runtime.working.call import Call, abandon_calls
from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.roles import critic, generator, publisher, refiner
from redraft.events.errors import PermanentError, StepError
from redraft.events.messages.commands import (
    Critiqued,
    CritiqueDraft,
    Failed,
    Generate,
    Generated,
    OutcomeMessage,
    Publish,
    Published,
    Refine,
    Refined,
    Request,
    Work,
)
from redraft.events.messages.content import MAX_DRAFT_BYTES, Brief, Critique, History, Receipt, Revision, new_draft
from redraft.events.messages.usage import Usage

DRAFT = new_draft(1, "the draft")


def request(timeout: float = 5.0) -> Request:
    return Request("r/p#1", "r", "p", "a", 1, timeout, Brief("the brief"), {"k": 1})


async def perform(actor: Actor, work: Work, limit: int = MAX_DRAFT_BYTES) -> OutcomeMessage:
    over = asyncio.Event()
    call = Call(actor, work, over.set)
    await asyncio.wait_for(over.wait(), 60)
    return call.outcome(limit)


async def judged(function, scale=(0.0, 1.0), timeout: float = 5.0) -> OutcomeMessage:
    return await perform(critic(name="judge", scale=scale)(function), CritiqueDraft(request(timeout), DRAFT))


def failed(outcome: OutcomeMessage, kind: str) -> str:
    assert isinstance(outcome, Failed)
    assert outcome.kind == kind
    return outcome.message


class Panic(BaseException):
    """As bindings of libraries in Rust raise: it is no Exception."""


ENDS = [KeyboardInterrupt(), SystemExit(4), asyncio.CancelledError(), GeneratorExit(), Panic()]


HOOKS = [
    pytest.param("__getattr__", (), False, id="a field"),
    pytest.param("__iter__", (list,), False, id="a list"),
    pytest.param("__repr__", (), False, id="a repr"),
    pytest.param("__str__", (Exception,), True, id="an error's words"),
]


@pytest.mark.parametrize("error", ENDS, ids=repr)
@pytest.mark.parametrize(("method", "bases", "is_raised"), HOOKS)
async def test_nothing_that_a_function_gives_ends_the_process_as_it_is_looked_at(
    error: BaseException, method: str, bases: tuple[type, ...], is_raised: bool
):
    looked: list[object] = []

    def raises(*_: object) -> object:
        looked.append(_)
        raise error

    given = type("Given", bases, {method: raises})()

    def judge(draft):
        if is_raised:
            raise given
        return given if method == "__getattr__" else {"score": 0.5, "suggestions" if bases else "more": given}

    assert isinstance(await judged(judge), Failed)
    assert looked


async def test_each_role_gives_its_outcome():
    @generator
    def write(brief, context):
        context.spent(tokens=7)
        return brief.text.upper()

    @refiner
    async def improve(draft, critique, history):
        return Revision(draft.text + "!", ["louder"], exit=True)

    @publisher
    def save(draft):
        return Receipt("/there")

    written = await perform(write, Generate(request()))
    assert written == Generated("r", "p", 1, "THE BRIEF", usage=Usage(7))
    refined = await perform(improve, Refine(request(), DRAFT, None, History()))
    assert refined == Refined("r", "p", 1, "the draft!", ("louder",), exit=True)
    saved = await perform(save, Publish(request(), DRAFT))
    assert saved == Published("r", "p", 1, DRAFT.ref, Receipt("/there"))


async def test_the_idempotency_key_is_the_same_at_every_attempt():
    keys = []

    @publisher
    def save(draft, context):
        keys.append((context.attempt, context.idempotency_key))
        return Receipt("/there")

    for attempt in (1, 2):
        await perform(save, Publish(replace(request(), id=f"r/p#{attempt}", attempt=attempt), DRAFT))
    assert keys == [(1, "r/p"), (2, "r/p")]


@pytest.mark.parametrize(
    "spent", [{"tokens": -1}, {"cost": -0.1}, {"cost": float("nan")}, {"cost": float("inf")}, {"tokens": 10**16}]
)
async def test_what_was_spent_is_a_number_from_0(spent):
    def judge(draft, context):
        context.spent(**spent)
        return Critique(1.0)

    assert "a number from 0 to 10**15" in failed(await judged(judge), "error")


@pytest.mark.parametrize("works", [True, False])
async def test_what_no_step_can_have_used_is_an_invalid_outcome_and_is_not_counted(works: bool):
    def judge(draft, context):
        context.used(Usage(10**15))
        context.used(Usage(10**15, calls=1))
        if not works:
            raise ValueError("no")
        return Critique(1.0, samples=(1.0, 1.0, 1.0))

    outcome = await judged(judge)
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.retryable, outcome.usage) == ("invalid", False, Usage())
    assert "judge reported an impossible usage: tokens is 1,000,000,000,000,000, and a usage is" in outcome.message


@pytest.mark.parametrize("what_went_wrong", [ValueError("no"), PermanentError("never"), None])
async def test_what_a_failed_attempt_used_is_told_too(what_went_wrong):
    paid = Usage(120, 0.5, 2, input_tokens=100, output_tokens=20, model="openai:gpt", currency="USD")

    def judge(draft, context):
        context.used(paid)
        if what_went_wrong:
            raise what_went_wrong

    outcome = await judged(judge)
    assert isinstance(outcome, Failed)
    assert outcome.usage == paid


async def test_a_score_is_normalised_from_the_critics_scale():
    outcome = await judged(lambda draft: Critique(7.75, ["good"]), scale=(1, 10))
    assert isinstance(outcome, Critiqued)
    assert outcome.critique == Critique(0.75, ("good",), critic="judge")
    assert outcome.draft == DRAFT.ref


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 11, 0.5, -1])
async def test_a_score_outside_the_scale_is_invalid(score: float):
    assert "scale of 1 to 10" in failed(await judged(lambda draft: Critique(score), scale=(1, 10)), "invalid")


@pytest.mark.parametrize(
    "nonsense",
    [
        None,
        " ",
        [0.9],
        {"score": "1"},
        {"suggestions": ["more"]},
        {"score": 0.5, "approved": "yes"},
        Critique("high"),
        Critique(1.0, approved="Not approved"),
        Critique(1.0, errors=[3]),
        Critique(1.0, errors=3),
        Critique(True),
    ],
)
async def test_nonsense_is_invalid_and_never_good(nonsense: object):
    assert "judge returned" in failed(await judged(lambda draft: nonsense), "invalid")


async def test_a_text_alone_is_a_suggestion_without_score_and_verdict():
    critique = (await judged(lambda draft: "name the moon")).critique
    assert (critique.suggestions, critique.scored, critique.approved) == (("name the moon",), False, None)


@pytest.mark.parametrize("text", [None, 5, b"bytes", "", "  \n", "x" * 101, "\ud800"])
async def test_a_text_that_cannot_be_a_draft_is_invalid(text: object):
    @generator
    def write():
        return text

    failed(await perform(write, Generate(request()), limit=100), "invalid")


async def test_what_a_function_raises_is_told():
    async def broken(draft):
        raise ZeroDivisionError("by nothing")

    def final(draft):
        raise PermanentError("no such dictionary")

    def passing(draft):
        raise StepError("the line is busy")

    async def stopped(draft):
        raise asyncio.CancelledError

    line = broken.__code__.co_firstlineno + 1
    said = f"judge raised ZeroDivisionError: by nothing (tests/actors/runtime/test_call.py:{line})"
    assert failed(await judged(broken), "error") == said
    outcome = await judged(final)
    assert failed(outcome, "error") == "no such dictionary"
    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert failed(await judged(passing), "error") == "the line is busy"
    assert "cancelled" in failed(await judged(stopped), "error")

    def interrupted(draft):
        raise KeyboardInterrupt

    async def leaves(draft):
        sys.exit(3)

    for function, said in (
        (interrupted, "raised KeyboardInterrupt()"),
        (leaves, "raised SystemExit(3)"),
        (lambda draft: sys.exit("no"), "raised SystemExit('no')"),
    ):
        ended = await judged(function)
        assert said in failed(ended, "error")
        assert "to end its step it must return, or raise PermanentError" in failed(ended, "error")
        assert isinstance(ended, Failed)
        assert not ended.retryable, "it would do the same again"
    assert "StopIteration" in failed(await judged(lambda draft: next(iter(()))), "error")


async def test_a_timeout_of_the_functions_own_is_its_error_not_the_deadline():
    async def impatient(draft):
        raise TimeoutError("the model did not answer")

    assert "model did not answer" in failed(await judged(impatient), "error")


async def test_a_function_that_hangs_ends_at_its_deadline():
    async def hangs(draft):
        await asyncio.Event().wait()

    assert "longer than 0.01 s" in failed(await judged(hangs, timeout=0.01), "timeout")


async def test_a_function_that_swallows_its_cancellation_ends_at_its_deadline_all_the_same():
    release = asyncio.Event()

    async def stubborn(draft):
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    assert "longer than 0.01 s" in failed(await judged(stubborn, timeout=0.01), "timeout")
    release.set()


def away() -> Usage:
    raise RuntimeError("the counter is away")


@pytest.mark.parametrize("meter", [away, lambda: None, lambda: Usage("many"), lambda: Usage(cost=1j)])
async def test_a_meter_that_cannot_be_read_at_the_deadline_costs_no_other_its_reading(meter):
    async def judge(draft, context):
        with context.metered(lambda: Usage(7)), context.metered(meter):
            await asyncio.Event().wait()

    outcome = await judged(judge, timeout=0.01)
    assert "longer than 0.01 s" in failed(outcome, "timeout")
    assert isinstance(outcome, Failed)
    assert outcome.usage == Usage(7)


async def test_what_a_function_raises_after_its_deadline_is_nobodys_business():
    cancelled = asyncio.Event()

    async def late(draft):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
            raise ValueError("too late")

    failed(await judged(late, timeout=0.01), "timeout")
    await asyncio.wait_for(cancelled.wait(), 60)


async def test_words_are_bounded_as_drafts_are():
    long = "x" * 200

    @refiner
    async def boasts(draft):
        return Revision("short", changes=(long,))

    @publisher
    async def shouts(draft):
        return Receipt(long)

    judge = critic(name="judge")(lambda draft: Critique(0.5, errors=(long,)))
    for actor, work in (
        (judge, CritiqueDraft(request(), DRAFT)),
        (boasts, Refine(request(), DRAFT)),
        (shouts, Publish(request(), DRAFT)),
    ):
        assert "more than the limit of 100" in failed(await perform(actor, work, limit=100), "invalid")


async def test_a_blocking_function_that_hangs_ends_at_its_deadline_and_blocks_nobody():
    release = threading.Event()
    assert "longer" in failed(await judged(lambda draft: release.wait(60), timeout=0.01), "timeout")
    release.set()


async def test_what_is_abandoned_is_cancelled_cleans_up_and_tells_nobody():
    started, cleaned, over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(draft):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(lambda: None)
            cleaned.set()

    call = Call(critic(name="judge")(slow), CritiqueDraft(request(), DRAFT), over.set)
    await started.wait()
    await abandon_calls([call])
    assert cleaned.is_set()
    assert not over.is_set()


async def test_the_error_of_a_call_that_has_ended_and_is_dropped_is_not_logged():
    loop, told, over = asyncio.get_running_loop(), [], asyncio.Event()
    loop.set_exception_handler(lambda _, context: told.append(context["message"]))

    async def broken(draft):
        raise RuntimeError("out of order")

    call = Call(critic(name="judge")(broken), CritiqueDraft(request(), DRAFT), over.set)
    await over.wait()
    del call
    gc.collect()
    assert told == []


async def test_a_request_that_reached_the_wrong_actor_fails_for_good():
    outcome = await perform(Actor("a", "refiner", lambda history: "", ("history",), False), Generate(request()))
    assert isinstance(outcome, Failed)
    assert not outcome.retryable


async def test_a_long_message_is_cut_and_odd_characters_do_no_harm():
    async def broken(draft):
        raise ValueError("\ud800" + "x" * 5000)

    message = failed(await judged(broken), "error")
    assert len(message) == 2001
    message.encode()
