"""The limits of a model, in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from model_server import ModelServer

from redraft.actors.runtime.working.call import Call
from redraft.app import read_settings
from redraft.app.builtin.llm.actors import llm_critic
from redraft.app.models.configuration import Local, Models, RateLimits
from redraft.app.settings.settings import ModelLimit
from redraft.events.errors import InputError
from redraft.events.messages.commands import Critiqued, CritiqueDraft, Request
from redraft.events.messages.content import Brief, new_draft


async def test_a_model_with_a_limit_is_asked_no_more_often_at_once_and_others_are() -> None:
    turns = RateLimits({"a": ModelLimit(max_concurrent=2)})
    most: dict[str, int] = {"a": 0, "b": 0}
    now = dict(most)

    async def ask(model: str) -> None:
        async with turns.of(model):
            now[model] += 1
            most[model] = max(most[model], now[model])
            await asyncio.sleep(0)
            now[model] -= 1

    await asyncio.gather(*(ask(model) for model in ("a", "b") for _ in range(9)))
    assert most == {"a": 2, "b": 9}


async def test_a_turn_is_kept_for_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    local, passed = Local(), 0.0
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda clock=loop.time: clock() + passed)

    async def taken() -> None:
        async with local.take("x", 2, keep=3600):
            pass

    await asyncio.gather(taken(), taken())
    third = asyncio.create_task(taken())
    for passed in (0.0, 3000.0):  # noqa: B007  the clock goes by it
        for _ in range(5):
            await asyncio.sleep(0)
        assert not third.done()
    passed = 3601.0
    await third


def test_limits_come_from_the_settings_and_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRAFT_MODEL_LIMITS", '{"openai:gpt-5": {"max_concurrent": 8, "requests_per_minute": 60}}')
    assert read_settings().model_limits == {"openai:gpt-5": ModelLimit(max_concurrent=8, requests_per_minute=60)}
    monkeypatch.setenv("REDRAFT_MODEL_LIMITS", '{"openai:gpt-5": {"max_concurrent": 0}}')
    with pytest.raises(InputError, match="REDRAFT_MODEL_LIMITS"):
        read_settings()


class Counting:
    """Turns in one process that count how many are held."""

    def __init__(self) -> None:
        self.local = Local()
        self.held = self.most = self.taken = 0

    @asynccontextmanager
    async def take(self, name: str, turns: int, keep: float = 0.0) -> AsyncIterator[None]:
        async with self.local.take(name, turns, keep):
            self.taken += 1
            self.held += 1
            self.most = max(self.most, self.held)
            yield
            self.held -= 1


async def test_the_actors_that_ask_a_model_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    reply = {"score": 7, "strengths": [], "weaknesses": [], "suggestions": [], "errors": []}
    counting, turns = Counting(), RateLimits({"openai:gpt-4o": ModelLimit(max_concurrent=2)})
    turns.share(counting)
    with ModelServer([{"reply": reply, "delay": 0.05}] * 6) as server:
        judge = llm_critic(Models("openai:gpt-4o", server.url, turns=turns))
        overs = [asyncio.Event() for _ in range(6)]
        calls = [
            Call(judge, CritiqueDraft(_request(n), new_draft(1, "Tides.")), over.set) for n, over in enumerate(overs)
        ]
        await asyncio.wait_for(asyncio.gather(*(over.wait() for over in overs)), 60)
    assert all(isinstance(call.outcome(), Critiqued) for call in calls)
    assert (counting.taken, counting.most) == (6, 2)


def _request(number: int) -> Request:
    return Request(f"r/p{number}#1", "r", f"p{number}", "llm", 1, 30.0, Brief("Why tides exist"))
