"""The state of a run for programs: what `refine` and clients begin with, and what the result says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from redraft.actors import Brief, Workflow, generator, refiner, state, step
from redraft.app import Settings, open_local, refine
from redraft.events.errors import InputError
from redraft.events.messages.domain_events import StateChanged
from redraft.projections.run_views.state import state_at


@generator
def write(brief, context):
    return f"{brief.text} for {context.state.audience}"


@step
def count(draft, context):
    return {"rounds": context.state.get("rounds", 0) + 1, "done": draft.text.endswith("!!")}


@refiner
def improve(draft):
    return draft.text + "!"


COUNTED = (
    Workflow("counted").start_with(write).repeat_until(state.done, max_iterations=5, name="Loop", body=[count, improve])
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store=f"sqlite:///{tmp_path / 'store.db'}", bus="local:")


async def test_refine_begins_with_values_and_gives_those_at_the_end(settings: Settings) -> None:
    brief = Brief("Tides", state={"audience": "experts", "rounds": 4})
    result = await refine(COUNTED, brief, state={"audience": "children"}, settings=settings)
    assert result.outcome == "accepted"
    assert result.score is None
    assert result.text == "Tides for children!!"
    assert result.state == {"audience": "children", "rounds": 7, "done": True}


async def test_a_fork_of_a_client_changes_values_in_the_name_of_its_author(settings: Settings) -> None:
    async with open_local(settings, COUNTED.actors.values()) as runtime:
        client = runtime.client
        run = await client.submit(COUNTED, "Tides", state={"audience": "children"})
        await client.wait(run)
        begun = await client.fork(run, 3, state={"rounds": 40}, by="script", author="ann")
        result = await client.wait(begun)
        assert result.state["rounds"] == 43
        past = await client.history(begun)
        changed = [each.data for each in past if isinstance(each.data, StateChanged) and not each.data.path]
        assert [(each.by, each.state) for each in changed] == [("ann", {"rounds": 40})]
        other = await client.fork(run, 3, brief=Brief("Waves", state={"audience": "experts"}))
        await client.wait(other)
        assert state_at(await client.history(other), 4).state == {"audience": "experts"}


@pytest.mark.parametrize("given", [{"not a name": 1}, {"audience": "x" * 300_000}, {"a": float("nan")}])
async def test_values_that_cannot_be_begin_nothing(settings: Settings, given: dict[str, object]) -> None:
    with pytest.raises(InputError):
        await refine(COUNTED, "Tides", state=given, settings=settings)  # type: ignore[arg-type]
    async with open_local(settings, COUNTED.actors.values()) as runtime:
        assert await runtime.store.head() == 0
