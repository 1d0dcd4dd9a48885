"""The actors that ask a model, against a real server that speaks OpenAI's protocol and answers from a script."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import Json, ModelServer, instructions_of

from redraft.actors.runtime.working.call import Call
from redraft.actors.workflow.actor import Actor
from redraft.app.builtin.llm.actors import llm_critic, llm_generator, llm_refiner
from redraft.app.builtin.llm.prompt import FOLDER, read_prompt
from redraft.app.builtin.llm.verify import verify_critic
from redraft.app.builtin.llm.watching import JsonText
from redraft.app.models.configuration import Models
from redraft.events.messages.commands import (
    Critiqued,
    CritiqueDraft,
    Failed,
    Generate,
    Generated,
    OutcomeMessage,
    Refine,
    Refined,
    Request,
    Work,
)
from redraft.events.messages.content import Brief, Critique, History, Round, new_draft
from redraft.events.messages.plan import Option

KEY = "sk-scripted-0123456789abcdef"
DRAFT = new_draft(1, "Tides come once a day.\n")
FAST = {"retry-after-ms": "1"}
GOOD = {
    "score": 7,
    "strengths": ["short"],
    "weaknesses": ["vague"],
    "suggestions": ["say why"],
    "errors": [{"quote": "once  a day", "message": "it is twice"}],
}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)


def request(timeout: float = 20.0, **options: Any) -> Request:
    return Request("r/p#1", "r", "p", "llm", 1, timeout, Brief("Why tides exist"), options)


def models(server: ModelServer, name: str = "openai:gpt-4o") -> Models:
    return Models(name, server.url)


async def perform(actor: Actor, work: Work) -> OutcomeMessage:
    over = asyncio.Event()
    call = Call(actor, work, over.set)
    await asyncio.wait_for(over.wait(), 60)
    return call.outcome()


async def judged(server: ModelServer, timeout: float = 20.0, **options: Any) -> OutcomeMessage:
    return await perform(llm_critic(models(server)), CritiqueDraft(request(timeout, **options), DRAFT))


async def refined(server: ModelServer, **options: Any) -> OutcomeMessage:
    history = History((Round(DRAFT.ref, 0.4, ("shorter",), ("say why",)),), advice=("Think of children",))
    work = Refine(request(**options), DRAFT, Critique(0.4, errors=("it is twice",)), history)
    return await perform(llm_refiner(models(server)), work)


async def written(actor: Actor, **options: Any) -> OutcomeMessage:
    return await perform(actor, Generate(request(**options)))


def failure(outcome: OutcomeMessage, kind: str = "error", *, retryable: bool = True) -> str:
    assert isinstance(outcome, Failed), outcome
    assert (outcome.kind, outcome.retryable) == (kind, retryable), outcome.message
    assert KEY not in outcome.message
    return outcome.message


def reply(**changes: Any) -> Json:
    return {"reply": {**GOOD, **changes}}


async def test_a_critique_is_read_from_the_models_reply_and_normalised():
    with ModelServer([reply()]) as server:
        outcome = await judged(server)
    assert isinstance(outcome, Critiqued)
    said = outcome.critique
    assert said.score == pytest.approx(6 / 9)
    assert (said.strengths, said.weaknesses, said.suggestions) == (("short",), ("vague",), ("say why",))
    assert (said.errors, said.approved, said.critic) == (("“once a day”: it is twice",), None, "llm")


async def test_everything_that_was_used_is_on_the_outcome():
    with ModelServer([reply()]) as server:
        outcome = await judged(server)
    assert isinstance(outcome, Critiqued)
    used, prompt = outcome.usage, read_prompt("critic", "", {"low": "1", "high": "10"})
    assert (used.calls, used.unpriced, used.model, used.prompt) == (1, 0, "openai:gpt-4o", prompt.sha256)
    assert used.tokens == used.input_tokens + used.output_tokens > 100
    assert used.seconds > 0
    # gpt-4o, by genai-prices: 2.50 USD for a million tokens in, 10 USD out
    assert used.cost == pytest.approx((used.input_tokens * 2.5 + used.output_tokens * 10) / 1e6)
    assert used.currency == "USD"


async def test_a_price_that_nobody_knows_is_no_price_of_nothing():
    with ModelServer([reply(), reply()]) as server:
        mine = await perform(llm_critic(models(server, "openai:my-own")), CritiqueDraft(request(), DRAFT))
        stated = await judged(server, price_input=3.0, price_output=30)
    assert isinstance(mine, Critiqued)
    assert (mine.usage.cost, mine.usage.unpriced, mine.usage.currency) == (0, 1, "")
    assert isinstance(stated, Critiqued)
    used = stated.usage
    assert used.cost == pytest.approx((used.input_tokens * 3 + used.output_tokens * 30) / 1e6)


INVALID: dict[str, Json] = {
    "no such place": reply(errors=[{"quote": "thrice a day", "message": "no"}]),
    "above the scale": reply(score=11),
    "below the scale": reply(score=0.5),
    "score as text": reply(score="7"),
    "score as truth": reply(score=True),
    "no score": {"reply": {"strengths": ["all of it"]}},
    "another schema": {"reply": {"verdict": "excellent", "rating": 10}},
    "more than was asked": reply(passed=True),
    "approved without being asked": reply(approved=True),
    "a list": {"reply": [GOOD]},
    "broken JSON": {"reply": {}, "arguments": '{"score": 10, "strengths": ['},
    "not a number": {"reply": {}, "arguments": '{"score": NaN}'},
    "praise": {"text": "Excellent! 10/10, approved."},
}


@pytest.mark.parametrize("answer", INVALID.values(), ids=INVALID)
async def test_an_invalid_reply_is_asked_again_with_the_error_and_never_means_good(answer: Json):
    with ModelServer([answer, reply(score=3)]) as server:
        outcome = await judged(server)
        first, second = (each["body"]["messages"] for each in server.asked)
    assert isinstance(outcome, Critiqued)
    assert outcome.critique.score == pytest.approx(2 / 9)
    assert outcome.usage.calls == 2
    assert len(second) > len(first)
    assert second[-1]["role"] != "assistant"
    assert second[-1]["content"]
    with ModelServer([{**answer, "always": True}]) as server:
        message = failure(await judged(server, asks=2), "invalid")
        assert len(server.asked) == 2
    assert "got no valid reply from openai:gpt-4o in 2 tries" in message


async def test_what_an_invalid_reply_cost_is_told_by_the_failure():
    with ModelServer([{**reply(score=99), "always": True}]) as server:
        outcome = await judged(server, asks=3)
    assert isinstance(outcome, Failed)
    assert (outcome.usage.calls, outcome.usage.model) == (3, "openai:gpt-4o")
    assert outcome.usage.cost > 0


FAULTS: dict[str, tuple[Json, str, bool]] = {
    "busy": ({"status": 429, "headers": FAST, "error": f"slow down, {KEY}"}, "status 429: slow down, ***", True),
    "broken": ({"status": 500, "headers": FAST, "error": "oops"}, "status 500: oops", True),
    "overloaded": ({"status": 503, "headers": FAST, "error": "later"}, "status 503: later", True),
    "wrong key": ({"status": 401, "error": f"Incorrect API key provided: {KEY}"}, "key provided: ***", False),
    "forbidden": ({"status": 403, "error": f"{KEY} may not"}, "status 403: *** may not", False),
    "no such model": ({"status": 404, "error": "no such model", "code": "model_not_found"}, "no such model", False),
    "bad request": ({"status": 400, "error": "too long"}, "status 400: too long", False),
    "out of money": (
        {"status": 429, "headers": FAST, "error": "pay first", "code": "insufficient_quota"},
        "status 429: pay first",
        False,
    ),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("answer", "told", "retryable"), FAULTS.values(), ids=FAULTS)
async def test_an_error_of_the_server_is_one_line_without_the_key(
    answer: Json, told: str, retryable: bool, stream: bool
):
    with ModelServer([{**answer, "always": True}]) as server:
        chosen = Models("openai:gpt-4o", server.url, (lambda _path, _text: None) if stream else None)
        outcome = await perform(llm_critic(chosen), CritiqueDraft(request(), DRAFT))
    message = failure(outcome, retryable=retryable)
    assert told in message
    assert "\n" not in message


async def test_retry_after_is_heeded():
    with ModelServer([{"status": 429, "headers": {"Retry-After": "1"}}, reply()]) as server:
        outcome = await judged(server)
        first, second = (each["time"] for each in server.asked)
    assert isinstance(outcome, Critiqued)
    assert outcome.usage.calls == 1
    assert second - first >= 1


async def test_an_error_that_passes_is_asked_again():
    with ModelServer([{"status": 500, "headers": FAST}, {"status": 503, "headers": FAST}, reply()]) as server:
        assert isinstance(await judged(server), Critiqued)


async def test_a_slow_answer_is_cut_off_at_the_deadline():
    with ModelServer([{**reply(), "delay": 2}]) as server:
        assert "took longer than 0.5 s" in failure(await judged(server, timeout=0.5), "timeout")


async def test_what_was_answered_before_a_deadline_is_counted():
    with ModelServer([reply(score=99), {**reply(), "delay": 20}]) as server:
        outcome = await judged(server, timeout=5)
        assert len(server.asked) == 2
    failure(outcome, "timeout")
    assert isinstance(outcome, Failed)
    assert outcome.usage.calls == 1
    assert outcome.usage.tokens > 100


@pytest.mark.parametrize("stream", [False, True])
async def test_a_connection_that_is_cut_fails_the_step(stream: bool):
    with ModelServer([{**reply(), "cut": 300, "always": True}]) as server:
        chosen = Models("openai:gpt-4o", server.url, (lambda _path, _text: None) if stream else None)
        outcome = await perform(llm_critic(chosen), CritiqueDraft(request(), DRAFT))
    failure(outcome)


async def test_an_answer_that_is_no_json_fails_the_step():
    with ModelServer([{"raw": "<html>busy</html>", "always": True}]) as server:
        assert isinstance(await judged(server), Failed)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_is_no_reply(stream: bool):
    with ModelServer([{"refusal": f"I will not, {KEY}", "always": True}]) as server:
        chosen = Models("openai:gpt-4o", server.url, (lambda _path, _text: None) if stream else None)
        for outcome in (
            await perform(llm_critic(chosen), CritiqueDraft(request(), DRAFT)),
            await written(llm_generator(chosen)),
        ):
            assert isinstance(outcome, Failed)
            assert KEY not in outcome.message


async def test_nobody_is_there():
    server = ModelServer([])
    with server:
        pass
    told = failure(await judged(server))
    assert "could not be asked" in told
    assert "cannot be reached; start that server, or correct REDRAFT_MODEL_URL" in told


async def test_nobody_is_at_a_server_of_ones_own_that_the_providers_own_setting_names(monkeypatch: pytest.MonkeyPatch):
    server = ModelServer([])
    with server:
        pass
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    told = failure(await perform(llm_critic(Models("openai:gpt-4o")), CritiqueDraft(request(), DRAFT)))
    assert server.url in told
    assert "cannot be reached; start the server there, or correct OPENAI_BASE_URL or REDRAFT_MODEL_URL" in told


async def test_a_reply_that_holds_the_key_is_refused():
    with ModelServer([{"text": f"My key is {KEY}."}]) as server:
        message = failure(await written(llm_generator(models(server))), retryable=False)
    assert "holds the value of OPENAI_API_KEY" in message


async def test_a_generator_gives_the_text_and_may_have_its_own_instructions():
    with ModelServer([{"for": "Write for children", "text": "The Moon pulls the sea."}]) as server:
        outcome = await written(llm_generator(models(server)), instructions="Write for children.", temperature=0.5)
        body = server.asked[0]["body"]
    assert isinstance(outcome, Generated)
    assert outcome.text == "The Moon pulls the sea."
    assert body["temperature"] == 0.5
    assert "Why tides exist" in body["messages"][-1]["content"]


async def test_a_refiner_gives_text_changes_and_what_it_would_not_change():
    answer = {
        "text": "Tides come twice a day.",
        "changes": ["once is twice"],
        "declined": [{"suggestion": "say why", "reason": "the brief forbids it"}],
    }
    with ModelServer([{"reply": answer}]) as server:
        outcome = await refined(server)
        told = server.asked[0]["body"]["messages"][-1]["content"]
    assert isinstance(outcome, Refined)
    assert (outcome.text, outcome.changes, outcome.exit) == ("Tides come twice a day.\n", ("once is twice",), False)
    assert outcome.declined == ("say why — the brief forbids it",)
    for part in ("Why tides exist", DRAFT.text, "it is twice", "shorter", "Think of children"):
        assert part in told


async def test_a_refiner_that_declines_everything_says_why_and_is_done():
    declined = [{"suggestion": "say why", "reason": "it is said"}]
    with ModelServer([{"reply": {}}, {"reply": {"declined": declined}}]) as server:
        outcome = await refined(server)
        again = server.asked[1]["body"]["messages"][-1]["content"]
    assert isinstance(outcome, Refined)
    assert (outcome.text, outcome.exit) == (DRAFT.text, True)
    assert outcome.declined == ("say why — it is said",)
    assert "declined does not say why" in again


async def test_an_empty_text_is_no_revision():
    with ModelServer([{"reply": {"text": " \n", "changes": ["all"]}, "always": True}]) as server:
        assert "text is empty" in failure(await refined(server, asks=1), "invalid")


async def test_a_fence_around_the_text_is_taken_off():
    with ModelServer([{"reply": {"text": "```python\nx = 1\n```\n", "changes": ["all"]}}]) as server:
        outcome = await refined(server)
    assert isinstance(outcome, Refined)
    assert outcome.text == "x = 1\n"


@pytest.mark.parametrize("output", ["native", "prompted"])
async def test_a_model_without_tools_can_be_asked_in_other_ways(output: str):
    with ModelServer([reply()]) as server:
        outcome = await judged(server, output=output)
        assert not server.asked[0]["body"].get("tools")
    assert isinstance(outcome, Critiqued)


async def test_the_responses_protocol_is_spoken_to_openai_itself(monkeypatch: pytest.MonkeyPatch):
    text = {"for": "You write", "text": "The Moon."}
    with ModelServer([reply(), text, reply(), text]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        for watch in (None, lambda _path, _text: None):
            chosen = Models("openai:gpt-4o", watch=watch)
            critique = await perform(llm_critic(chosen), CritiqueDraft(request(), DRAFT))
            assert isinstance(critique, Critiqued)
            assert critique.usage.tokens > 0
            first = await written(llm_generator(chosen))
            assert isinstance(first, Generated)
            assert first.text == "The Moon."
        assert {each["path"] for each in server.asked} == {"/v1/responses"}


async def test_what_a_model_writes_can_be_watched_as_it_comes():
    pieces: list[str] = []
    with ModelServer([{"text": "The Moon pulls the sea, and the sea rises."}, reply()]) as server:
        watched = Models("openai:gpt-4o", server.url, lambda path, text: pieces.append(f"{path}>{text}"))
        outcome = await written(llm_generator(watched))
        assert isinstance(outcome, Generated)
        assert [each.removeprefix("p>") for each in pieces if each != "p>"][:2] == ["The Moon pul", "ls the sea, "]
        assert "".join(each.removeprefix("p>") for each in pieces) == outcome.text
        pieces.clear()
        critique = await perform(llm_critic(watched), CritiqueDraft(request(), DRAFT))
        assert isinstance(critique, Critiqued)
        assert critique.usage.tokens > 0
        lines = "".join(each.removeprefix("p>") for each in pieces).splitlines()
        assert f"score: {GOOD['score']}" in lines
        assert not any(sign in "".join(lines) for sign in '{}[]"')


async def test_a_reply_that_is_asked_for_again_is_said_to_those_who_watch():
    pieces: list[str] = []
    with ModelServer([reply(score=99), reply()]) as server:
        watched = Models("openai:gpt-4o", server.url, lambda _, text: pieces.append(text))
        assert isinstance(await perform(llm_critic(watched), CritiqueDraft(request(), DRAFT)), Critiqued)
    shown = "".join(pieces)
    assert shown.index("score: 99") < shown.index("(asked again: ") < shown.index(f"score: {GOOD['score']}")


@given(
    st.dictionaries(
        st.text("abc", min_size=1),
        st.recursive(st.text(st.characters(exclude_categories=("Cs", "Cc"))), lambda of: st.lists(of, max_size=3)),
    ),
    st.booleans(),
    st.integers(1, 7),
)
def test_json_that_comes_in_pieces_is_shown_as_its_text(value: dict[str, Any], ascii_only: bool, size: int):
    def told(each: Any, *, listed: bool) -> str:
        if isinstance(each, str):
            return f"\n- {each}" if listed else each
        return "".join(told(inner, listed=True) for inner in each)

    encoded, text = f"```json\n{json.dumps(value, ensure_ascii=ascii_only)}\n```", JsonText()
    shown = "".join(text.feed(encoded[at : at + size]) for at in range(0, len(encoded), size))
    assert shown == "".join(f"\n{key}: {told(each, listed=False)}" for key, each in value.items())


async def test_a_borderline_score_is_asked_for_again_and_the_median_counts():
    with ModelServer([reply(score=7), reply(score=4, errors=[]), reply(score=6)]) as server:
        outcome = await judged(server, samples=3, borderline=0.7)
    assert isinstance(outcome, Critiqued)
    assert outcome.critique.score == pytest.approx(5 / 9)
    assert sorted(outcome.critique.samples) == pytest.approx([3 / 9, 5 / 9, 6 / 9])
    assert outcome.usage.calls == 3
    assert len(outcome.critique.errors) == 1


async def test_a_score_far_from_the_border_is_not_asked_for_again():
    with ModelServer([reply(score=2)]) as server:
        outcome = await judged(server, samples=3, borderline=0.7)
    assert isinstance(outcome, Critiqued)
    assert outcome.critique.samples == ()


async def test_one_bad_sample_fails_the_judgement():
    with ModelServer([reply(), {**reply(score=99), "always": True}]) as server:
        outcome = await judged(server, samples=3, asks=1)
        assert isinstance(outcome, Failed)
        assert outcome.usage.calls == len(server.asked) == 3


async def test_the_verdict_is_the_models_only_where_the_plan_gives_it():
    with ModelServer([reply(approved=True)]) as server:
        outcome = await judged(server, verdict=True)
    assert isinstance(outcome, Critiqued)
    assert outcome.critique.approved is True


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"model": "openai:m"}, True),
        ({"model": "openai:m", "prompt": "critic", "instructions": "See notes.md."}, True),
        ({}, False),
        ({"model": ""}, False),
        ({"model": "openai:m", "prompt": "mine.md"}, False),
        ({"model": "openai:m", "questions_prompt": "mine.txt"}, False),
        ({"model": "openai:m", "answers_prompt": "prompts/mine.md"}, False),
    ],
)
def test_who_judges_with_a_file_or_the_workers_own_model_looks_at_more_than_is_given(
    options: dict[str, Option], expected: bool
):
    assert llm_critic(Models()).is_hermetic(options) is verify_critic(Models()).is_hermetic(options) is expected


async def test_a_prompt_of_ones_own_takes_the_place_of_ours():
    Path("mine.md").write_text("Judge the rhymes from {low} to {high}.")
    with ModelServer([{"for": "Judge the rhymes from 0 to 5.", **reply(score=5)}]) as server:
        outcome = await judged(server, prompt="mine.md", scale=[0, 5])
        assert instructions_of(server.asked[0]["body"]).startswith("Judge the rhymes")
    assert isinstance(outcome, Critiqued)
    assert outcome.critique.score == 1.0
    assert outcome.usage.prompt == read_prompt("mine.md", "", {"low": "0", "high": "5"}).sha256


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"prompt": "/etc/hostname.md"}, "is absolute"),
        ({"prompt": ".env"}, "ends with .md or .txt"),
        ({"prompt": "../secret.md"}, "leads up"),
        ({"prompt": "away.md"}, "leads out of the working folder"),
        ({"prompt": "none.md"}, "cannot be read"),
        ({"prompt": "empty.md"}, "is empty"),
        ({"prompt": "critik"}, "did you mean 'critic'?"),
        ({"modle": "x"}, "did you mean 'model'?"),
        ({"scale": [5, 5]}, "two rising numbers"),
        ({"samples": 2}, "odd number"),
        ({"samples": 11}, "option samples"),
        ({"asks": 0}, "option asks"),
        ({"temperature": 3.0}, "option temperature"),
    ],
)
async def test_wrong_options_are_one_line_and_no_model_is_asked(options: Json, told: str, tmp_path: Path):
    Path("empty.md").write_text(" \n")
    outside = tmp_path.parent / f"{tmp_path.name}.md"
    outside.write_text("secret")
    Path("away.md").symlink_to(outside)
    with ModelServer([reply()]) as server:
        assert told in failure(await judged(server, **options), retryable=False)
        assert not server.asked


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", "no model is configured: give --model"),
        ("gpt-5", "name the provider too, such as openai:gpt-5"),
        ("nonsense:gpt", "unknown model: nonsense:gpt"),
        ("anthropic:claude-sonnet-4-5", "set the ANTHROPIC_API_KEY environment variable"),
        ("ollama:llama3", "set the OLLAMA_BASE_URL environment variable"),
    ],
)
async def test_a_model_that_cannot_be_asked_is_one_line(name: str, told: str, monkeypatch: pytest.MonkeyPatch):
    for variable in ("ANTHROPIC_API_KEY", "OLLAMA_BASE_URL", "OLLAMA_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    outcome = await written(llm_generator(Models(name)))
    assert told in failure(outcome, retryable=False)


@pytest.fixture
def every_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(variable, "none-0123456789")
    for variable in ("OLLAMA_BASE_URL", "VLLM_BASE_URL"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9/v1")


@pytest.mark.usefixtures("every_provider")
@pytest.mark.parametrize(
    "name",
    ["openai:gpt-5", "openai-chat:gpt-5", "anthropic:claude-sonnet-4-5", "google:gemini-2.5-pro", "ollama:q", "vllm:q"],
)
def test_models_of_every_provider_are_known_by_their_names(name: str):
    from redraft.app.models.provider import model_fault

    assert model_fault(name) == ""


def test_prompts_ship_with_redraft():
    assert {"generator", "critic", "refiner", "code"} <= {each.stem for each in FOLDER.glob("*.md")}
