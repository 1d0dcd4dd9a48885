"""People's own free steps, conditions and changes of the state: under faults, and on recorded answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from redraft.actors import (
    ConditionFacts,
    Context,
    Draft,
    Receipt,
    StepError,
    WithState,
    Workflow,
    condition,
    critic,
    generator,
    publisher,
    refiner,
    step,
)
from redraft.app.testing import NotRecorded, Outside, run_recorded, simulate
from redraft.events.messages.domain_events import RunEnded, StateChanged
from redraft.events.messages.envelope import Recorded


class Calls:
    """A workflow with actors that note that they were called; `sources` is what its research finds."""

    def __init__(self, sources: Sequence[str] = ("moon", "sea")) -> None:
        self.made: list[str] = []

        @step
        async def research(context: Context) -> dict[str, list[str]]:
            self.made.append("research")
            return {"sources": list(sources)}

        @generator
        def write(brief: object) -> str:
            return "Tides"

        @critic
        def judge(draft: Draft, context: Context) -> WithState:
            """Has no score: a text is all that it says."""
            self.made.append("judge")
            return WithState("say more", {"longest": len(draft.text)})

        @step(writes=["words"])
        def count(draft: Draft, context: Context) -> dict[str, int]:
            self.made.append("count")
            if self.made.count("count") == 2:
                raise StepError("it was busy")
            return {"words": len(draft.text.split())}

        @condition
        def long_enough(facts: ConditionFacts) -> bool | str:
            self.made.append("long_enough")
            return facts.state.words >= 4 or f"it has {facts.state.words} words"

        @refiner
        def improve(draft: Draft, context: Context) -> str:
            self.made.append("improve")
            return f"{draft.text} {context.state.sources[draft.version % 2]}"

        @publisher
        def post(draft: Draft) -> WithState:
            return WithState(Receipt("the shelf"), {"posted": True})

        body = [count, judge, long_enough, improve]
        self.workflow = (
            Workflow("letter")
            .start_with(research, write)
            .repeat_until("long_enough and state.words > 1", max_iterations=6, name="Loop", body=body)
            .finally_(post)
        )


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answers") / "answers.json"
    calls = Calls()
    story = asyncio.run(run_recorded(calls.workflow, "a brief", path, record=True))
    assert (story.result.outcome, story.result.text) == ("accepted", "Tides sea moon sea")
    assert calls.made.count("count") == 5, "one attempt failed"
    return path


async def test_free_steps_conditions_and_changes_are_given_again_and_nobody_is_asked(answers: Path) -> None:
    calls = Calls()
    story = await run_recorded(calls.workflow, "a brief", answers)
    assert calls.made == []
    assert (story.result.outcome, story.result.text) == ("accepted", "Tides sea moon sea")
    story.check(max_iterations=4)
    changed = [each.data.state for each in story.events if isinstance(each.data, StateChanged)]
    assert changed == [{"sources": ["moon", "sea"]}, *({"words": number} for number in (1, 2, 3, 4))]
    assert "it was busy" in story.text()
    said = [each.critique for each in story.result.critiques]
    assert [each.suggestions for each in said if each.critic == "judge"] == [("say more",)] * 4
    assert [each.weaknesses for each in said if each.critic == "long_enough"][-2:] == [("it has 3 words",), ()]
    assert story.events[-2].data.state == {"posted": True}


async def test_an_answer_to_another_state_is_not_the_recorded_one(answers: Path) -> None:
    said = "no answer of the generator write is recorded for write: what it is asked has changed"
    with pytest.raises(NotRecorded, match=said):
        await run_recorded(Calls(["sun", "sea"]).workflow, "a brief", answers, live=["research"])


@pytest.mark.check
def test_own_free_steps_and_conditions_are_called_under_faults() -> None:
    def ended_well(outside: Outside, events: Sequence[Recorded]) -> None:
        ends = [each.data for each in events if isinstance(each.data, RunEnded)]
        assert {each.outcome for each in ends} <= {"accepted", "failed"}

    calls = Calls()
    found = simulate(calls.workflow, seeds=25, check=ended_well)
    assert found.outcomes["accepted"] > 20
    assert {"research", "count", "long_enough"} <= set(calls.made)
