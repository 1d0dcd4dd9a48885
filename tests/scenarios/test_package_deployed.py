"""A package of ten files is mended on RabbitMQ and PostgreSQL, though every process is killed on the way."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from model_server import ModelServer, instructions_of, read_script
from tests.app.model_deployments import deployed
from tests.app.quick_python import quick_python

from redraft.events.backends import open_store
from redraft.events.messages.domain_events import DraftMade, RunEnded
from redraft.events.messages.folders import FOLDER

pytestmark = pytest.mark.check

EXAMPLES = Path(__file__).parents[2] / "examples"
WORKER = ("worker", "source", "public-names", "pytest", "ruff", "llm", "stdout")


def test_a_package_is_mended_through_kills_and_each_content_is_stored_once(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("shop", "shop_tests"):
        shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789abcdef")
    first, second = read_script(EXAMPLES / "answers" / "shop.jsonl")
    slow = {"always": True, "delay": 1.0}
    answers = [{**second, "about": "RATES[country] / 100", **slow}, {**first, **slow}]  # whatever is asked how often
    with ModelServer(answers) as server, deployed(tmp_path, postgres_url) as made:
        made.python = quick_python(tmp_path)
        made.model_url = server.url
        starts = {"coordinator": ("coordinator",), "another": ("coordinator",), "worker": WORKER}
        running = {name: made.start(name, *verb) for name, verb in starts.items()}
        for name in running:
            made.serving(name)
        said = made.call("submit", "code", "shop", "--tests", "shop_tests", "--model", "openai:gpt-4o")
        assert said.code == 0, said.err
        run = said.out.strip()
        for asked in (1, 3):
            made.until("the model is asked to mend", lambda asked=asked: mending(server) >= asked)
            for name in starts:
                running[name].kill()
                running[name].wait()
                running[name] = made.start(name, *starts[name])
        made.ended(run)
        events = [event.data for event in made.history(run)]
        audited = made.call("audit", run, "--verify")
        assert audited.code == 0, audited.err
    last = events[-1]
    assert isinstance(last, RunEnded)
    assert (last.outcome, last.iterations) == ("accepted", 3)
    drafts = [event.draft for event in events if isinstance(event, DraftMade)]
    assert [len(draft.files) for draft in drafts] == [10, 10, 11]
    assert {draft.media_type for draft in drafts} == {FOLDER}
    rows = asyncio.run(stored(postgres_url, run))
    for text in (
        "What it costs to send a cart.",
        "The items that somebody buys.",
        "Rates of value added tax, in percent.",
    ):
        assert rows.count(text) == 1


def mending(server: ModelServer) -> int:
    return sum(instructions_of(each["body"]).startswith("You mend") for each in server.asked)


async def stored(url: str, run: str) -> str:
    async with open_store(url) as store:
        return "".join(state.decode() for _, _, state, _ in await store.raw(run))
