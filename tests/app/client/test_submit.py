"""What `submit` and `fork` refuse before anything is sent: faulty plans, and briefs that are no texts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from redraft.actors import Workflow, generator
from redraft.app.settings.settings import Settings
from redraft.app.wiring.local import LocalRuntime, open_local
from redraft.events.errors import InputError, PlanError
from redraft.events.messages.content import Brief


@generator
def write(brief):
    return brief.text


SHORT = Workflow("short").start_with(write)
TWICE = replace(SHORT.plan, steps=SHORT.plan.steps * 2)


@pytest.fixture
async def runtime() -> AsyncIterator[LocalRuntime]:
    async with open_local(Settings(store="memory:"), SHORT.actors.values()) as opened:
        yield opened


@pytest.mark.parametrize("wrong", [TWICE, "short", None, write])
async def test_what_is_no_plan_that_can_be_run_is_not_submitted(runtime: LocalRuntime, wrong: Any):
    with pytest.raises(PlanError):
        await runtime.client.submit(wrong, "Tides")
    assert await runtime.store.head() == 0


@pytest.mark.parametrize("wrong", [5, None, b"Tides", Brief(5)])  # type: ignore[arg-type]
async def test_a_brief_is_a_text(runtime: LocalRuntime, wrong: Any):
    with pytest.raises(InputError, match=r"a brief is a text, and not (5|None|b'Tides')"):
        await runtime.client.submit(SHORT, wrong)


async def test_a_fork_takes_neither_a_faulty_plan_nor_a_brief_that_is_no_text(runtime: LocalRuntime):
    run = await runtime.client.submit(SHORT, "Tides")
    await runtime.client.wait(run)
    with pytest.raises(PlanError):
        await runtime.client.fork(run, 1, plan=TWICE)
    with pytest.raises(InputError, match="a brief is a text"):
        await runtime.client.fork(run, 1, brief=5)  # type: ignore[arg-type]
