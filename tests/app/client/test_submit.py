"""What `submit` and `fork` refuse before anything is sent: faulty plans, and briefs that are no texts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.app.cli_calls import call
from tests.app.subscribers import DEADLINE

from redraft.actors import Workflow, generator
from redraft.app.client.client import Client
from redraft.app.settings.settings import Settings
from redraft.app.wiring.local import LocalRuntime, open_local
from redraft.events.errors import InputError, PlanError
from redraft.events.messages.commands import Message, StartRun
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


@pytest.mark.parametrize("wrong", [Brief("Tides", None), Brief("Tides", source=7)])  # type: ignore[arg-type]
async def test_its_media_type_and_source_are_texts_too(runtime: LocalRuntime, wrong: Brief):
    with pytest.raises(InputError, match=r"the (media_type|source) of a brief is a text, and not (None|7)"):
        await runtime.client.submit(SHORT, wrong)


async def test_all_waits_for_a_run_whose_start_is_refused_end_with_the_reason(runtime: LocalRuntime):
    """Such a start is never sent by this client, which checks what it sends; a later field may be forgotten there."""
    client, sent = runtime.client, list[StartRun]()
    original = client._send
    client._send = partial(_damaged, original)  # type: ignore[method-assign]
    async with asyncio.timeout(DEADLINE):
        for key in ("", "k"):
            run = await client.submit(SHORT, "Tides", key=key, sent=sent.append)
            early = [asyncio.create_task(each) for each in (client.wait(run), client.wait(run, "draft.generated"))]
            late = [client.wait(run), *([client.require_own(sent[-1])] if key else [])]
            for waiting in (*early, *late):
                with pytest.raises(InputError, match=f"run {run} was not begun: .*source"):
                    await waiting
        client._send = original  # type: ignore[method-assign]
        assert (await client.wait(await client.submit(SHORT, "Tides", key="k"))).outcome == "accepted"


def test_redraft_run_ends_too_where_its_start_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Client, "_send", partialmethod(_damaged_of, Client._send))
    said = call("run", "--text", "The sea rises.")
    assert (said.code, said.out) == (2, "")
    assert " was not begun: " in said.err.splitlines()[-1]


async def _damaged(send: Callable[..., Awaitable[None]], message: Message, *said: str) -> None:
    if isinstance(message, StartRun):
        message = replace(message, brief=Brief("Tides", source=None))  # type: ignore[arg-type]
    await send(message, *said)


async def _damaged_of(client: Client, send: Callable[..., Awaitable[None]], message: Message, *said: str) -> None:
    await _damaged(partial(send, client), message, *said)


async def test_a_fork_takes_neither_a_faulty_plan_nor_a_brief_that_is_no_text(runtime: LocalRuntime):
    run = await runtime.client.submit(SHORT, "Tides")
    await runtime.client.wait(run)
    with pytest.raises(PlanError):
        await runtime.client.fork(run, 1, plan=TWICE)
    with pytest.raises(InputError, match="a brief is a text"):
        await runtime.client.fork(run, 1, brief=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [5, None, "caf\udce9", " "])
async def test_a_key_that_is_no_text_is_refused(runtime: LocalRuntime, key: Any):
    with pytest.raises(InputError, match=r"^key: "):
        await runtime.client.submit(SHORT, "Tides", key=key)


@pytest.mark.parametrize(
    ("by", "told"),
    [
        ("x" * 1_001, "its attribute actor has 1,001 bytes; the limit is 1,000"),
        ("é" * 501, "its attribute actor has 1,002 bytes"),
        ("a\0b", "its attribute actor holds the character U\\+0000"),
        ("a\ud800b", "its attribute actor holds half a character"),
    ],
)
async def test_who_speaks_has_a_name_that_coordinators_take(runtime: LocalRuntime, by: str, told: str):
    with pytest.raises(InputError, match=f"the message cannot be sent: {told}"):
        await runtime.client.submit(SHORT, "Tides", by=by)
    assert await runtime.store.head() == 0


@pytest.mark.parametrize("run", ["x\ny", "語" * 201, ""])
async def test_what_cannot_be_the_id_of_a_run_is_spoken_to_by_nobody(runtime: LocalRuntime, run: str):
    with pytest.raises(InputError, match=r"the message cannot be sent: .* cannot be the id of a run"):
        await runtime.client.cancel(run, "late", by="ann")
