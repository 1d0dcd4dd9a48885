"""A model and a program judge by the criteria that the plan declares, on its scale."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from model_server import Json, ModelServer
from msgspec.structs import replace
from tests.app.builtin.test_llm import DRAFT, GOOD, failure, models, perform, request

from redraft.app.builtin.llm.actors import llm_critic
from redraft.app.builtin.programs.command import command_critic
from redraft.events.messages.commands import Critiqued, CritiqueDraft, OutcomeMessage
from redraft.events.messages.content import Mark
from redraft.events.messages.plan import Criterion

SCALE = (1.0, 10.0)
CRITERIA = (Criterion("accuracy", "every claim is right", weight=3.0), Criterion("tone", scale=(0.0, 100.0)))
SHARES = (Mark("accuracy", 0.5, 0.9, "half of it", "once a day"), Mark("tone", 1.0, 0.6, "plain"))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789abcdef")
    monkeypatch.chdir(tmp_path)


def reply(accuracy: float = 5.5, tone: float = 100, **changes: object) -> Json:
    first = {"score": accuracy, "reason": "half of it", "quote": "once a day", "confidence": 0.9}
    second = {"score": tone, "reason": "plain", "confidence": 0.6}
    others = {name: value for name, value in GOOD.items() if name != "score"}
    return {"reply": {**others, "criteria": {"accuracy": first, "tone": second}, **changes}}


async def judged(server: ModelServer, **options: object) -> OutcomeMessage:
    asked = replace(request(**options), scale=SCALE, criteria=CRITERIA)
    return await perform(llm_critic(models(server)), CritiqueDraft(asked, DRAFT))


async def test_a_model_scores_each_criterion_with_a_reason_a_quote_and_its_confidence():
    with ModelServer([reply()]) as server:
        outcome = await judged(server)
    assert isinstance(outcome, Critiqued), outcome
    said = outcome.critique
    assert said.criteria == SHARES
    assert (said.score, said.confidence, said.scale) == (pytest.approx(0.625), 0.6, SCALE)


async def test_the_model_is_told_what_each_criterion_means():
    with ModelServer([reply()]) as server:
        await judged(server)
    asked = str(server.asked[0])
    assert "- accuracy: every claim is right (from 1 to 10)" in asked
    assert "- tone: tone (from 0 to 100)" in asked


async def test_a_reply_without_a_criterion_or_with_a_wrong_quote_is_asked_again():
    short = reply()
    del short["reply"]["criteria"]["tone"]
    wrong = reply()
    wrong["reply"]["criteria"]["accuracy"]["quote"] = "never said"
    with ModelServer([short, wrong, reply(accuracy=11)]) as server:
        outcome = await judged(server)
    assert "got no valid reply" in failure(outcome, "invalid")
    assert len(server.asked) == 3
    assert "criteria.accuracy.quote is not in the draft" in str(server.asked[2])


async def test_the_median_of_several_samples_is_that_of_each_criterion():
    with ModelServer([reply(1), reply(10), reply(5.5)]) as server:
        outcome = await judged(server, samples=3)
    assert isinstance(outcome, Critiqued), outcome
    assert outcome.critique.criteria[0].score == 0.5
    assert outcome.critique.score == pytest.approx(0.625)
    assert sorted(outcome.critique.samples) == pytest.approx([0.25, 0.625, 1.0])


async def program(code: str, parser: str) -> OutcomeMessage:
    run = [sys.executable, "-c", code]
    asked = replace(request(run=run, parser=parser), scale=SCALE, criteria=CRITERIA if parser == "json" else ())
    return await perform(command_critic, CritiqueDraft(asked, DRAFT))


async def test_a_program_prints_its_scores_by_criterion():
    outcome = await program(
        'print(\'{"criteria": {"accuracy": 5.5, "tone": {"score": 100}}, "errors": ["x"]}\')', "json"
    )
    assert isinstance(outcome, Critiqued), outcome
    said = outcome.critique
    assert (said.score, said.errors) == (0.625, ("x",))
    assert said.criteria == (Mark("accuracy", 0.5), Mark("tone", 1.0))


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("print(7)", "printed no critique as JSON"),
        ("print('{\"x\":' + '[' * 5000)", "printed no critique as JSON"),
        ("print('{\"score\": 5}')", "no score for accuracy"),
    ],
)
async def test_a_program_that_prints_no_such_critique_fails(code: str, fault: str):
    outcome = await program(code, "json")
    kind = "error" if "JSON" in fault else "invalid"
    assert fault in failure(outcome, kind, retryable=False)


async def test_an_exit_code_is_the_highest_or_the_lowest_score_of_any_scale():
    good, bad = await program("", "exit"), await program("raise SystemExit(1)", "exit")
    assert isinstance(good, Critiqued)
    assert isinstance(bad, Critiqued)
    assert (good.critique.score, bad.critique.score) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("borderline", "margin", "asked"),
    [(5, None, 1), (6, None, 3), (5, 2, 3), (4.1, 1, 1), (0.5, None, 1), (0.6, None, 3), (0.9, 0.5, 3)],
)
async def test_the_borderline_and_its_margin_are_on_the_scale(borderline: float, margin: float | None, asked: int):
    near = {} if margin is None else {"margin": margin}
    with ModelServer([reply(), reply(), reply()]) as server:  # accuracy 5.5 and tone 100: 0.625, or 6.6 of 10
        outcome = await judged(server, samples=3, borderline=borderline, **near)
    assert isinstance(outcome, Critiqued), outcome
    assert len(server.asked) == asked


async def test_a_borderline_that_is_on_no_scale_is_refused():
    with ModelServer([reply()]) as server:
        outcome = await judged(server, samples=3, borderline=12)
    assert "option borderline is 12; write a score from 1 to 10" in failure(outcome, "error", retryable=False)


def counting(**counts: object) -> Json:
    others = {name: value for name, value in GOOD.items() if name != "score"}
    return {"reply": {**others, "score": 7, "measures": counts}}


async def counted(server: ModelServer, **options: object) -> OutcomeMessage:
    asked = replace(request(**options), measures=("claims", "jokes"))
    return await perform(llm_critic(models(server)), CritiqueDraft(asked, DRAFT))


async def test_a_model_counts_what_the_plan_has_it_count():
    with ModelServer([counting(claims=1), counting(claims=3, jokes=0)]) as server:
        outcome = await counted(server, measures={"claims": "claims about the moon"})
    assert isinstance(outcome, Critiqued), outcome
    assert outcome.critique.measures == {"claims": 3, "jokes": 0}
    assert "- claims: claims about the moon" in str(server.asked[0])
    assert len(server.asked) == 2  # the first reply lacked one


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"measures": {}}, {}),
        ({"measures": {"claims": None}}, {}),
        ({"measures": {"claims": 3}}, {"claims": 3}),
        ({}, {}),
    ],
)
async def test_a_model_may_leave_out_a_measure_that_ends_with_a_question_mark(said: Json, found: Json):
    others = {name: value for name, value in GOOD.items() if name != "score"}
    with ModelServer([{"reply": {**others, "score": 7, **said}}]) as server:
        asked = replace(request(measures={"claims?": "claims about the moon"}), measures=("claims?",))
        outcome = await perform(llm_critic(models(server)), CritiqueDraft(asked, DRAFT))
    assert isinstance(outcome, Critiqued), outcome
    assert outcome.critique.measures == found
    assert "- claims: claims about the moon" in str(server.asked[0])


async def test_a_measure_that_only_some_samples_count_is_the_median_of_those():
    with ModelServer([counting(claims=4), counting(), counting(claims=2)]) as server:
        asked = replace(request(measures={"claims?": "claims"}, samples=3), measures=("claims?",))
        outcome = await perform(llm_critic(models(server)), CritiqueDraft(asked, DRAFT))
    assert isinstance(outcome, Critiqued), outcome
    assert outcome.critique.measures == {"claims": 3}


async def test_the_median_of_several_samples_is_that_of_each_measure():
    with ModelServer([counting(claims=each, jokes=0) for each in (1, 9, 4)]) as server:
        outcome = await counted(server, samples=3)
    assert isinstance(outcome, Critiqued), outcome
    assert outcome.critique.measures == {"claims": 4, "jokes": 0}
