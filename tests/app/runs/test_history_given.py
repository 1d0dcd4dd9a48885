"""The history for critics and generators that ask for it, with the texts of earlier drafts."""

from __future__ import annotations

from pathlib import Path

import pytest

from redraft.actors import (
    Critique,
    Draft,
    History,
    Revision,
    Workflow,
    critic,
    generator,
    outputs,
    read_plan,
    refiner,
    repeat,
    score,
    step,
)
from redraft.actors.formats.yaml_writer import print_plan
from redraft.app import Settings, read_settings, refine
from redraft.events.errors import ActorError, PlanError
from redraft.events.messages.domain_events import StepFailed


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings(store=f"sqlite:///{tmp_path / 'log.db'}")


@generator
async def write(brief) -> str:
    return "v1"


def loop(judge, improve, first=write, most: int = 4, until=score >= 1.0) -> Workflow:
    flow = Workflow("told").start_with(first)
    return flow.repeat_until(until, max_iterations=most, name="Loop", body=[judge, improve])


async def test_a_critic_is_given_what_was_tried_and_what_it_brought_and_the_texts_that_it_asks_for(settings: Settings):
    seen = []

    @critic(scale=(1, 10), criteria={"tone": "for children"}, history=2)
    async def judge(draft: Draft, history: History) -> Critique:
        texts = {each.draft.version: each for each in history.rounds}
        latest = [await history.text(number) for number in sorted(texts)[-2:]]
        seen.append((list(history.rounds), latest, await history.text(draft.version)))
        return Critique(draft.version * 2, suggestions=("longer",), criteria={"tone": draft.version * 2})

    @refiner
    async def improve(draft: Draft) -> Revision:
        return Revision(f"v{draft.version + 1}", changes=(f"made of {draft.version}",))

    result = await refine(loop(judge, improve, until="score >= 10 of 10"), "tides", settings=settings)
    assert result.outcome == "accepted"
    assert [(len(rounds), latest, now) for rounds, latest, now in seen] == [
        (0, [], "v1"),
        (1, ["v1"], "v2"),
        (2, ["v1", "v2"], "v3"),
        (3, ["v2", "v3"], "v4"),
        (4, ["v3", "v4"], "v5"),
    ]
    last = seen[-1][0][-1]
    assert (last.score, last.changes, last.before, last.criteria) == (8, ("made of 3",), 3, {"tone": 8})
    assert last.gain == 2
    assert seen[-1][0][0].gain is None


async def test_a_text_that_did_not_come_along_is_refused_with_the_remedy(settings: Settings):
    @critic(history=1)
    async def judge(draft: Draft, history: History) -> Critique:
        if draft.version == 3:
            await history.text(1)
        return Critique(0.1)

    @refiner
    async def improve(draft: Draft) -> str:
        return draft.text + "x"

    result = await refine(loop(judge, improve), "tides", settings=settings)
    assert result.outcome == "failed"
    why = "the text of draft 1 did not come with the request (those that did: 2); history: 2 beside the actor"
    assert why in result.reason


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (4, "history.text(4): draft 4 is none of those that the history tells of (1, 2, 3)"),
        (0, "history.text(0): draft 0 is none of those that the history tells of (1, 2, 3)"),
        (-1, "history.text(-1): draft -1 is none of those"),
        ("2", "history.text('2'): give the number of a draft, such as 3"),
        (True, "history.text(True): give the number of a draft, such as 3"),
    ],
)
async def test_a_text_that_no_setting_brings_is_refused_without_a_vain_remedy(
    settings: Settings, number: int, why: str
):
    @critic(history=1)
    async def judge(draft: Draft, history: History) -> Critique:
        if draft.version == 3:
            await history.text(number)
        return Critique(0.1)

    @refiner
    async def improve(draft: Draft) -> str:
        return draft.text + "x"

    result = await refine(loop(judge, improve), "tides", settings=settings)
    assert result.outcome == "failed"
    assert why in result.reason
    assert "beside the actor" not in result.reason


async def test_a_generator_in_a_loop_sees_what_was_said_of_the_last_draft(settings: Settings):
    seen = []

    @generator(history=1)
    async def again(critique, history: History) -> str:
        texts = [await history.text(each.draft.version) for each in history.rounds[-1:]]
        seen.append((critique and (critique.score, critique.suggestions), texts))
        return f"try {len(seen)}"

    @critic(scale=(1, 10))
    async def judge(draft: Draft) -> Critique:
        return Critique(draft.version * 3, suggestions=(f"not {draft.text}",))

    body = Workflow("again").repeat_until(score >= 9, max_iterations=5, name="Loop", body=[again, judge])
    result = await refine(body, "tides", settings=settings)
    assert (result.outcome, result.text) == ("accepted", "try 3")
    assert seen == [(None, []), ((3, ("not try 1",)), ["try 1"]), ((6, ("not try 2",)), ["try 2"])]


async def test_a_history_is_of_the_loop_around_the_step_since_it_began(settings: Settings):
    seen: dict[str, list[tuple[list[str], tuple[str, ...], tuple[str, ...]]]] = {
        "write": [],
        "judge": [],
        "improve": [],
    }

    async def note(name: str, history: History) -> None:
        texts = [await history.text(each.draft.version) for each in history.rounds]
        seen[name].append((texts, history.fixed, history.disputed))

    @generator(history=9)
    async def again(history: History) -> str:
        await note("write", history)
        return f"chapter {len(seen['write'])}, "

    @critic(history=9)
    async def judge(draft: Draft, history: History) -> Critique:
        await note("judge", history)
        return Critique(draft.text.count("x") / 2, suggestions=(f"more in {draft.text}",))

    @refiner(history=9)
    async def improve(draft: Draft, history: History) -> Revision:
        await note("improve", history)
        return Revision(draft.text + "x", declined=(f"less in {draft.text}",))

    inner = repeat("Loop", until=score >= 1, max_iterations=3, body=[judge, improve])
    book = Workflow("book").repeat_until(outputs >= 2, max_iterations=2, name="Chapters", body=[again, inner])
    await refine(book, "tides", settings=settings)

    one = ["chapter 1, ", "chapter 1, x", "chapter 1, xx"]
    two = ["chapter 2, ", "chapter 2, x", "chapter 2, xx"]
    assert [texts for texts, _, _ in seen["write"]] == [[], one]
    assert [texts for texts, _, _ in seen["judge"]] == [one[:0], one[:1], one[:2], two[:0], two[:1], two[:2]]
    assert [texts for texts, _, _ in seen["improve"]] == [one[:1], one[:2], two[:1], two[:2]]
    assert [fixed for _, fixed, _ in seen["improve"]] == [(), (f"more in {one[0]}",), (), (f"more in {two[0]}",)]
    assert seen["improve"][2][2] == ()
    assert seen["improve"][3][2] == (f"less in {two[0]}",)


async def test_what_was_said_of_a_draft_before_the_loop_comes_with_that_draft(settings: Settings):
    seen = []

    @critic
    async def judge(draft: Draft) -> Critique:
        return Critique(draft.text.count("x") / 2)

    @refiner
    async def improve(draft: Draft, history: History) -> str:
        seen.append([each.draft.version for each in history.rounds])
        return draft.text + "x"

    flow = Workflow("told").start_with(write, judge)
    flow = flow.repeat_until(score >= 1, max_iterations=3, name="Loop", body=[improve, step(judge, name="again")])
    await refine(flow, "tides", settings=settings)
    assert seen == [[1], [2]]


async def test_a_refiner_is_given_texts_of_drafts_that_were_given_up(settings: Settings):
    seen = []

    @critic
    async def judge(draft: Draft) -> Critique:
        return Critique(0.5 if draft.version == 1 else 0.1)

    @refiner(history=5)
    async def improve(draft: Draft, history: History) -> str:
        seen.append([await history.text(each.draft.version) for each in history.rounds])
        return f"v{len(seen) + 1}"

    await refine(loop(judge, improve, most=3), "tides", settings=settings)
    assert seen == [["v1"], ["v1", "v2"], ["v1", "v2", "v3"]]


async def test_a_function_that_takes_the_history_fails_where_the_plan_gives_it_none(settings: Settings):
    @critic
    async def judge(draft: Draft, history: History) -> Critique:
        return Critique(1.0)

    @refiner
    async def improve(draft: Draft) -> str:
        return draft.text + "x"

    plan = loop(judge, improve).plan
    assert plan.steps[1].body[0].history == 0
    text = print_plan(plan).replace("history: 0", "history: 3")
    assert "history: 3" in text
    assert read_plan(text).steps[1].body[0].history == 3


def test_what_cannot_be_is_refused():
    with pytest.raises(ActorError, match="history is 21; write how many texts of earlier drafts come along, 0 to 20"):

        @critic(history=21)
        def judge(draft, history): ...

    with pytest.raises(ActorError, match="history is 2, and the function does not take 'history'"):

        @critic(history=2)
        def blind(draft): ...

    with pytest.raises(PlanError, match="history is for generators, critics and refiners; remove it"):
        step("save", role="publisher", history=1)


async def test_a_request_holds_no_more_than_the_broker_takes(settings: Settings):
    held = []

    @critic(history=20)
    async def judge(draft: Draft, history: History) -> Critique:
        held.append([each.version for each in history.drafts])
        return Critique(0.1)

    @refiner
    async def improve(draft: Draft) -> str:
        return "x" * 1_900_000 + str(draft.version)

    result = await refine(loop(judge, improve), "tides", settings=settings)
    assert held == [[], [1], [1, 2], [1, 2, 3], [3, 4]]
    assert not [event for event in result.attempts if isinstance(event, StepFailed)]


@pytest.mark.parametrize("critics_before", [0, 1])
async def test_the_drafts_of_a_history_are_those_before_the_one_that_is_given(settings: Settings, critics_before: int):
    held = []

    @critic(name="before")
    async def before(draft: Draft) -> Critique:
        return Critique(0.1)

    def note(who: str, draft: Draft, history: History) -> None:
        held.append((who, draft.version, [each.version for each in history.drafts]))

    @critic(history=2)
    async def judge(draft: Draft, history: History) -> Critique:
        note("critic", draft, history)
        assert await history.text(draft.version) == draft.text
        return Critique(0.1)

    @refiner(history=2)
    async def improve(draft: Draft, history: History) -> str:
        note("refiner", draft, history)
        assert [await history.text(each.draft.version) for each in history.rounds[-3:]][-1] == draft.text
        return f"{draft.text}!"

    flow = Workflow("told").start_with(write)
    body = [*[before] * critics_before, judge, improve]
    await refine(flow.repeat_until(score >= 1.0, max_iterations=5, body=body), "tides", settings=settings)
    assert [given for given in held if given[1] > 3] == [
        *(("critic", 4, [2, 3]), ("refiner", 4, [2, 3])),
        *(("critic", 5, [3, 4]), ("refiner", 5, [3, 4])),
        ("critic", 6, [4, 5]),
    ]
