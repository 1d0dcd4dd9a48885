"""Each shipped workflow that asks a model, against a server with recorded answers: in one process, and on RabbitMQ and
PostgreSQL with workers of their own. The history is the same."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from model_server import Json, ModelServer, message_of, read_script
from tests.app.cli_calls import Said, call
from tests.app.model_deployments import MODEL, deployed
from tests.app.quick_python import quick_python
from tests.app.roman_module import lay_down

from redraft.events.backends import open_store
from redraft.events.messages.domain_events import DraftCritiqued, DraftGenerated, DraftRefined, RunEnded
from redraft.events.messages.envelope import Recorded

KEY = "sk-scripted-0123456789abcdef"
ANSWERS = Path(__file__).parents[3] / "examples" / "answers"
SHIPPED = {
    "article": ("tides", "Why tides exist"),
    "chain-of-verification": ("cove", "Who discovered hydrogen?"),
    "draft-critique-revise-verify": ("revision", "How long is a marathon?"),
    "self-consistency": ("consistency", "60 marbles, 42 are not red. How many in a hundred are red?"),
    "code": ("roman", "roman.py"),
}
CODE = ("--tests", "tests", "--model", MODEL)
SIDE_BY_SIDE = {"self-consistency"}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def ran(workflow: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch, *more: str) -> Said:
    monkeypatch.setenv("REDRAFT_MODEL_URL", server.url)
    monkeypatch.setenv("REDRAFT_MODEL", MODEL)
    return call("run", SHIPPED[workflow][1], "--workflow", workflow, *more)


def more(workflow: str) -> tuple[str, ...]:
    return CODE if workflow == "code" else ()


def script(workflow: str) -> list[Json]:
    return read_script(ANSWERS / f"{SHIPPED[workflow][0]}.jsonl")


def test_chain_of_verification_asks_questions_that_are_answered_without_the_draft(monkeypatch: pytest.MonkeyPatch):
    with ModelServer(script("chain-of-verification")) as server:
        said = ran("chain-of-verification", server, monkeypatch, "--json")
        assert server.left == []
        questions = [message_of(each["body"]) for each in server.asked if "<<<QUESTION " in message_of(each["body"])]
    end = json.loads(said.out)
    assert (end["outcome"], end["iterations"], end["score"]) == ("accepted", 2, 1)
    first, second = (each["critique"] for each in end["critiques"])
    assert first["score"] == pytest.approx(2 / 3)
    assert first["errors"] == [
        "“discovered by Antoine Lavoisier”: It was Henry Cavendish who discovered it; Lavoisier named it."
    ]
    assert first["strengths"] == [
        "verified: In which year was hydrogen discovered?",
        "verified: Which chemical element is the lightest?",
    ]
    assert second["score"] == 1
    assert end["draft"]["text"].startswith("Hydrogen was discovered by Henry Cavendish")
    assert len(questions) == 5
    assert not [each for each in questions if "Lavoisier in 1766" in each or "1783." in each]
    assert end["usage"]["calls"] == 11


COMPARED: dict[str, Json] = {
    "one question is left out": {"findings": [{"question": 1, "agrees": True}, {"question": 2, "agrees": True}]},
    "one is answered twice": {"findings": [{"question": n, "agrees": True} for n in (1, 2, 2)]},
    "a quote that is not there": {
        "findings": [
            {"question": 1, "agrees": False, "quote": "Marie Curie", "message": "no"},
            {"question": 2, "agrees": True},
            {"question": 3, "agrees": True},
        ]
    },
    "no word on what is wrong": {"findings": [{"question": n, "agrees": n > 1} for n in (1, 2, 3)]},
}


@pytest.mark.parametrize("reply", COMPARED.values(), ids=COMPARED)
def test_a_comparison_that_leaves_something_out_is_asked_for_again(reply: Json, monkeypatch: pytest.MonkeyPatch):
    wrong = {"for": "You compare", "reply": reply}
    with ModelServer([wrong, *script("chain-of-verification")]) as server:
        end = json.loads(ran("chain-of-verification", server, monkeypatch, "--json").out)
    assert (end["outcome"], end["usage"]["calls"]) == ("accepted", 12)


def test_a_draft_is_judged_once_then_revised_and_verified(monkeypatch: pytest.MonkeyPatch):
    with ModelServer(script("draft-critique-revise-verify")) as server:
        said = ran("draft-critique-revise-verify", server, monkeypatch, "--json")
        assert server.left == []
    end = json.loads(said.out)
    assert (end["outcome"], end["iterations"], end["score"]) == ("accepted", 2, 1)
    paths = [each["path"] for each in end["critiques"]]
    assert paths == ["critique", "Revision[1]/verify", "Revision[2]/verify"]
    assert "42.2" in end["draft"]["text"]
    shown = call("audit", "last").out
    assert "it would not change 1 thing" in shown


def test_of_several_answers_the_one_that_most_agree_on_is_published(monkeypatch: pytest.MonkeyPatch):
    with ModelServer(script("self-consistency")) as server:
        said = ran("self-consistency", server, monkeypatch, "--json")
        assert {each["body"]["temperature"] for each in server.asked} == {0.7}
    end = json.loads(said.out)
    assert (end["outcome"], end["score"]) == ("accepted", 0.6)
    assert "30" in end["draft"]["text"].splitlines()[-1]
    scores = sorted(each["critique"]["score"] for each in end["critiques"])
    assert scores == [0, 0.2, 0.6, 0.6, 0.6]


@pytest.mark.check
def test_the_same_on_rabbitmq_and_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str):
    lay_down(tmp_path)
    quick = quick_python(tmp_path)
    monkeypatch.setattr(sys, "executable", quick)
    alone: dict[str, Any] = {}
    for workflow in SHIPPED:
        with ModelServer(script(workflow)) as server:
            assert ran(workflow, server, monkeypatch, *more(workflow)).code == 0
        alone[workflow] = told(asyncio.run(history("sqlite:///store.db", "")), workflow)
    answers = [{**each, "always": False} for workflow in SHIPPED for each in script(workflow)]
    with ModelServer(answers) as server, deployed(tmp_path, postgres_url) as made:
        made.python = quick
        made.start("coordinator", "coordinator")
        made.model_url = server.url
        made.start(
            "worker", "worker", "llm", "verify", "agreement", "stdout", "source", "ruff", "pytest", "public-names"
        )
        made.model_url = ""
        made.serving("coordinator")
        made.serving("worker")
        for workflow, (_, brief) in SHIPPED.items():
            run = made.call("submit", workflow, brief, "--model", MODEL, *more(workflow)).out.strip()
            made.ended(run)
            assert told(made.history(run), workflow) == alone[workflow], workflow
        assert server.left == []
        assert KEY not in "".join(made.logs().values())


async def history(store: str, run: str) -> tuple[Recorded, ...]:
    """The events of a run; of the last one that was begun when none is named."""
    async with open_store(store) as log:
        async for batch in log.tail(0):
            return await log.read(run or batch[-1].run)
    raise AssertionError(store)


def told(events: tuple[Recorded, ...], workflow: str) -> Any:
    """What the events say, without times.

    Of steps side by side whichever answers first gets the first answer: of these only what was said is told. The checks
    of `code` are side by side too, and their answers their own: either may be the first.
    """
    if workflow in SIDE_BY_SIDE:
        texts = sorted(
            event.data.draft.text for event in events if isinstance(event.data, DraftGenerated | DraftRefined)
        )
        scores = sorted(event.data.critique.score for event in events if isinstance(event.data, DraftCritiqued))
        end = events[-1].data
        assert isinstance(end, RunEnded)
        return texts, scores, end.outcome, end.score, sorted(event.name for event in events)
    all_said = [(event.name, _plain(event.data)) for event in events]
    return sorted(all_said, key=repr) if workflow == "code" else all_said


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if key not in ("at", "due", "seconds")}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
