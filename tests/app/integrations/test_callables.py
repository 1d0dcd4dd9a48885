"""Plain callables, which know nothing of Redraft, as actors."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from tests.app.cli_calls import spawn

from redraft.actors.workflow.actor import source_version
from redraft.app import ActorError, Settings, Workflow, refine, score, state
from redraft.app.integrations.callables import (
    callable_critic,
    callable_generator,
    callable_publisher,
    callable_refiner,
    callable_step,
)


def share_of_words(text: str, word: str) -> float:
    return min(1.0, text.count(word) / 2)


async def lengthen(text: str, remarks: str) -> str:
    await asyncio.sleep(0)
    return f"{text} more"


async def test_builtins_partials_and_coroutines_are_actors(tmp_path: Path) -> None:
    kept: list[str] = []
    judge = callable_critic(partial(share_of_words, word="more"), name="judge")
    workflow = (
        Workflow("plain")
        .start_with(callable_generator(str.strip, name="strip"))
        .repeat_until(score >= 1, max_iterations=4, name="Loop", body=[judge, callable_refiner(lengthen)])
        .finally_(callable_publisher(kept.append, name="keep"))
    )
    settings = Settings(store=f"sqlite:///{tmp_path / 'store.db'}")
    result = await refine(workflow, "  a text  ", settings=settings)
    assert (result.outcome, result.text, kept) == ("accepted", "a text more more", ["a text more more"])
    assert judge.version == source_version(share_of_words)
    assert [each.location for each in result.publications] == ["keep"]


HANGS = """
import threading

from redraft.app import Workflow, step
from redraft.app.integrations.callables import callable_critic

def wait(text):
    threading.Event().wait()

w = Workflow("w").start_with(step("source", role="generator")).then(step(callable_critic(wait), timeout=0.2))
"""


def test_a_callable_that_hangs_fails_alone_and_its_process_ends(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text(HANGS)
    said = spawn("run", "hangs.py:w", "--text", "a text", folder=tmp_path)
    assert said.code == 1
    assert "wait took longer than 0.2 s" in said.err


async def test_a_callable_with_an_asynchronous_call_is_awaited(tmp_path: Path) -> None:
    class Judge:
        async def __call__(self, text: str) -> float:
            await asyncio.sleep(0)
            return 1.0

    workflow = Workflow("w").start_with(callable_generator(str.strip, name="strip")).then(callable_critic(Judge()))
    result = await refine(workflow, "a text", settings=Settings(store=f"sqlite:///{tmp_path / 'store.db'}"))
    assert (result.outcome, result.score) == ("accepted", 1.0)


async def test_a_callable_is_a_free_step_that_is_given_the_state(tmp_path: Path) -> None:
    def count(state: dict[str, int]) -> dict[str, int]:
        return {"tries": state.get("tries", 0) + 1}

    workflow = (
        Workflow("plain")
        .start_with(callable_generator(str.strip, name="strip"))
        .repeat_until(
            state.tries >= 3, max_iterations=5, name="L", body=[callable_step(count), callable_refiner(lengthen)]
        )
    )
    result = await refine(workflow, "a text", settings=Settings(store=f"sqlite:///{tmp_path / 'store.db'}"))
    assert (result.outcome, result.text) == ("accepted", "a text more more")
    assert callable_step(count).version == source_version(count)


async def test_a_refiner_is_told_what_was_said(tmp_path: Path) -> None:
    told: list[str] = []

    def improve(text: str, remarks: str) -> str:
        told.append(remarks)
        return text + "!"

    def judge(text: str) -> dict[str, object]:
        return {"score": 1.0 if "!" in text else 0.0, "suggestions": ["shout"], "errors": ["too quiet"]}

    loop = Workflow("plain").start_with(callable_generator(str.strip, name="strip"))
    loop = loop.repeat_until(
        score >= 1, max_iterations=2, name="L", body=[callable_critic(judge), callable_refiner(improve)]
    )
    settings = Settings(store=f"sqlite:///{tmp_path / 'store.db'}")
    assert (await refine(loop, "hey", settings=settings)).text == "hey!"
    assert told == ["too quiet\nshout"]


def test_a_name_that_cannot_be_is_refused() -> None:
    with pytest.raises(ActorError, match="is not a name for an actor"):
        callable_generator(lambda text: text)
