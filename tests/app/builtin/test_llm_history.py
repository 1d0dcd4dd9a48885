"""The actors `llm` with the history of their loop, and values of the state, in the prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
from model_server import ModelServer
from msgspec.structs import replace
from tests.app.builtin.test_llm import DRAFT, GOOD, KEY, models, perform, request

from redraft.actors import Workflow, score, step
from redraft.app.builtin.llm.actors import llm_critic, llm_generator, llm_refiner
from redraft.events.messages.commands import Critiqued, CritiqueDraft, Generate, Generated, Refine, Refined
from redraft.events.messages.content import Critique, History, Round, new_draft
from redraft.events.messages.lessons import Lesson

EARLIER = [new_draft(number, f"Text number {number} of the tides.\n") for number in range(2, 5)]
HISTORY = History(
    tuple(Round(each.ref, 0.1 * each.version, changes=(f"change {each.version}",)) for each in EARLIER),
    drafts=(EARLIER[-1],),
)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("rounds", "there"), [(0, []), (1, ["change 4", "Text number 4"]), (2, ["change 4", "change 3", "Text number 4"])]
)
async def test_a_critic_has_as_many_rounds_as_its_option_says_and_the_texts_that_came(rounds: int, there: list[str]):
    with ModelServer([{"reply": GOOD | {"errors": []}}]) as server:
        asked = request(history=rounds)
        outcome = await perform(llm_critic(models(server)), CritiqueDraft(asked, DRAFT, HISTORY))
    assert isinstance(outcome, Critiqued), outcome
    said = [
        each
        for each in ("change 2", "change 3", "change 4", "Text number 3", "Text number 4")
        if each in str(server.asked[0])
    ]
    assert sorted(said) == sorted(there)


async def test_a_critic_without_the_option_needs_no_history():
    with ModelServer([{"reply": GOOD | {"errors": []}}]) as server:
        outcome = await perform(llm_critic(models(server)), CritiqueDraft(request(), DRAFT))
    assert isinstance(outcome, Critiqued), outcome


async def test_a_critic_whose_step_alone_has_the_history_is_shown_all_of_it():
    with ModelServer([{"reply": GOOD | {"errors": []}}]) as server:
        await perform(llm_critic(models(server)), CritiqueDraft(request(), DRAFT, HISTORY))
    assert all(each in str(server.asked[0]) for each in ("change 2", "change 4", "Text number 4"))


async def test_a_generator_is_told_what_was_said_of_the_last_draft():
    with ModelServer([{"text": "Tides come twice a day."}]) as server:
        work = Generate(request(history=1), Critique(0.2, suggestions=("say why",)), HISTORY)
        outcome = await perform(llm_generator(models(server)), work)
    assert isinstance(outcome, Generated), outcome
    assert "say why" in str(server.asked[0])
    assert "change 4" in str(server.asked[0])
    assert "change 3" not in str(server.asked[0])


async def test_a_refiner_may_have_fewer_rounds_and_has_its_draft_once():
    with ModelServer([{"reply": {"text": "Twice.", "changes": ["counted"], "declined": []}}]) as server:
        history = replace(HISTORY, rounds=(*HISTORY.rounds, Round(DRAFT.ref, 0.3)))
        work = Refine(request(history=2), DRAFT, Critique(0.3), history)
        outcome = await perform(llm_refiner(models(server)), work)
    assert isinstance(outcome, Refined), outcome
    asked = str(server.asked[0])
    assert ("change 4" in asked, "change 3" in asked) == (True, False)
    assert asked.count("Tides come once a day.") == 1


def test_the_plan_gives_a_model_the_history_that_its_options_ask_for():
    judge = step("llm", role="critic", name="judge", options={"history": 3})
    improve = step("llm", role="refiner", name="improve", options={"history": 3})
    plan = Workflow("w").start_with(step("llm", role="generator", name="write"))
    made = plan.repeat_until(score >= 0.9, max_iterations=3, name="Loop", body=[judge, improve]).plan
    assert [each.history for each in made.steps[1].body] == [0, None]


async def test_a_model_is_given_the_values_of_the_state_that_its_option_names():
    with ModelServer([{"text": "Tides come twice a day."}]) as server:
        asked = replace(request(state=["audience", "missing"]), state={"audience": "children", "secret": "hush"})
        outcome = await perform(llm_generator(models(server)), Generate(asked))
    assert isinstance(outcome, Generated), outcome
    told = str(server.asked[0])
    assert ("children" in told, "hush" in told, "missing" in told) == (True, False, False)


async def test_a_model_is_given_the_lessons_of_earlier_runs_as_a_text_unless_its_option_says_no():
    lesson = Lesson("a1", "Name the moon.", "judge", "suggestion", 2, 1, mended="put in the moon")
    for options, is_told in (({}, True), ({"lessons": False}, False)):
        with ModelServer([{"text": "Tides come twice a day."}]) as server:
            asked = replace(request(**options), lessons=(lesson,))
            outcome = await perform(llm_generator(models(server)), Generate(asked))
        assert isinstance(outcome, Generated), outcome
        told = str(server.asked[0])
        assert ("LESSONS OF EARLIER RUNS" in told, "put in the moon" in told) == (is_told, is_told)
