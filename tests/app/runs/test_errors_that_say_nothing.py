"""Errors whose text cannot be had, as of those that name a closed row, or that are no Exception: their step fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from redraft.actors import PermanentError, StepError, Workflow, critic, generator, publisher, step
from redraft.app import read_settings, refine
from redraft.events.messages.plan import Retry


class Row:
    """As a row of a database that is closed."""

    def __repr__(self) -> str:
        raise RuntimeError("detached: no session")


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class OddText(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]


class NoTextOfStep(StepError):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Panic(BaseException):
    """As test frameworks raise, and bindings of libraries in Rust: it is no Exception."""


def missing() -> object:
    return {}[Row()]  # type: ignore[index]


def raises(error: Callable[[], BaseException]) -> Callable[[], object]:
    def act() -> object:
        raise error()

    return act


ERRORS = [
    pytest.param(missing, id="key-error-of-a-row"),
    pytest.param(raises(NoText), id="no-text"),
    pytest.param(raises(OddText), id="odd-text"),
    pytest.param(raises(NoTextOfStep), id="step-error"),
    pytest.param(raises(lambda: PermanentError(Row())), id="permanent"),  # type: ignore[arg-type]
    pytest.param(raises(lambda: StepError(Row())), id="temporary"),  # type: ignore[arg-type]
    pytest.param(raises(lambda: SystemExit(Row())), id="exit"),  # type: ignore[arg-type]
    pytest.param(raises(lambda: StopIteration(Row())), id="stop-iteration"),
    pytest.param(raises(Panic), id="panic"),
    pytest.param(raises(GeneratorExit), id="generator-exit"),
]


@generator
def write(brief):
    return "a text"


@publisher
def save(draft):
    return "somewhere"


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "async"])
@pytest.mark.parametrize("act", ERRORS)
async def test_an_error_that_cannot_say_what_it_is_fails_its_step(act: Callable[[], object], is_async: bool):
    if is_async:

        @critic(name="judge")
        async def judge(draft):
            return act()
    else:

        @critic(name="judge")
        def judge(draft):
            return act()

    workflow = Workflow("w").start_with(write, step(judge, retry=Retry(1))).finally_(save)
    async with asyncio.timeout(60):
        result = await refine(workflow, "brief", settings=read_settings(store="memory:"))
    assert result.outcome == "failed"
    assert "judge" in result.reason
