"""Two callers begin a run with one key at the same moment, and each with a brief of its own: one of them is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from redraft.actors import Critique, Draft, Workflow, critic, generator
from redraft.actors.workflow.workflow import repeat
from redraft.app import read_settings
from redraft.app.runs.refine import refine_on
from redraft.app.wiring.local import open_local
from redraft.events.errors import InputError
from redraft.events.messages.content import Brief
from redraft.events.messages.envelope import Recorded


@generator
async def write(brief: Brief) -> str:
    return f"on {brief.text}"


@critic
async def judge(draft: Draft) -> Critique:
    return Critique(1.0)


FLOW = Workflow("flow").start_with(write).then(repeat("Loop", until="score >= 0.9", max_iterations=1, body=[judge]))


class ReadBefore:
    """A store whose first answer is that of the moment before the other caller's start was recorded."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._is_first = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, *where: Any, **more: Any) -> Sequence[Recorded]:
        first, self._is_first = self._is_first, False
        return () if first else await self._store.read(*where, **more)


async def test_a_key_gives_nobody_the_result_of_another_brief(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings = read_settings(store=f"sqlite:///{tmp_path}/runs.db")
    actors = list(FLOW.actors.values())
    async with open_local(settings, actors) as runtime:
        assert (await refine_on(runtime.client, FLOW, "one", key="k")).text == "on one"
    async with open_local(settings, actors) as runtime:
        monkeypatch.setattr(runtime.client, "_store", ReadBefore(runtime.store))
        with pytest.raises(InputError, match="key 'k' was used for another brief"):
            await refine_on(runtime.client, FLOW, "two", key="k")
