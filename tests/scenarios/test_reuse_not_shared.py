"""`reuse: always` takes no verdict on what was another then: the file of a prompt, a model, what a program said."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from model_server import ModelServer
from tests.app.cli_calls import call
from tests.app.deployments import Deployment
from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq
from tests.processes import stop

from redraft.events.bus.port import INBOX, work_queue
from redraft.events.messages.domain_events import DraftCritiqued

pytestmark = pytest.mark.check

LLM = """
name: judged
steps:
  - generate: {actor: source}
  - critique: {actor: llm, name: judge, reuse: always, with: {scale: [1, 10], OPTIONS}}
"""
LOOKING = """
name: looked
steps:
  - generate: {actor: source}
  - critique: {actor: command, name: program, reuse: always, with: {run: [cat, PLACE], parser: json}}
  - critique: {actor: llm, name: unnamed, reuse: always, with: {scale: [1, 10], instructions: Be kind.}}
  - critique: {actor: llm, name: file, reuse: always, with: {model: 'openai:a', prompt: prompts/critic.md}}
  - critique: {actor: llm, name: shared, reuse: always, with: {scale: [1, 10], model: 'openai:a'}}
"""
KEYS = (("generator", "source"), ("critic", "command"), ("critic", "llm"))
SAID = {"reply": {"score": 7, "strengths": [], "weaknesses": [], "suggestions": [], "errors": []}, "always": True}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    (tmp_path / "prompts").mkdir()
    prompt(tmp_path, "A")


def prompt(folder: Path, word: str) -> None:
    (folder / "prompts" / "critic.md").write_text(f"{word}: judge between {{low}} and {{high}}.")


def test_redraft_run_refuses_a_prompt_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRAFT_MODEL_URL", "http://127.0.0.1:9/v1")
    (tmp_path / "plan.yaml").write_text(LLM.replace("OPTIONS", "prompt: prompts/critic.md"))
    said = call("run", "plan.yaml", "--text", "Hello", "--model", "openai:a")
    assert (said.code, said.err.count("\n")) == (2, 1), said.err
    assert "judge: reuse is always, but llm looks at more than it is given by its options" in said.err
    assert "give instructions in place of the file" in said.err


def test_a_model_that_is_named_at_the_start_has_verdicts_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plan.yaml").write_text(LLM.replace("OPTIONS", "instructions: Be kind."))
    with ModelServer([SAID]) as server:
        monkeypatch.setenv("REDRAFT_MODEL_URL", server.url)
        for model in ("openai:a", "openai:a", "openai:b"):
            said = call("run", "plan.yaml", "--text", "Hello", "--model", model)
            assert said.code == 0, said.err
        assert [each["body"]["model"] for each in server.asked] == ["a", "b"]
    assert call("audit", "--all", "--verify").code == 0


def test_what_a_plan_without_its_actors_says_is_not_shared_by_those_who_looked_at_more(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_rabbitmq()
    monkeypatch.delenv("REDRAFT_STORE")
    (tmp_path / "plan.yaml").write_text(LOOKING.replace("PLACE", str(tmp_path / "verdict.json")))
    with ModelServer([SAID]) as server:
        there = Deployment(tmp_path, new_prefix(), postgres_url, "quorum", settings={"REDRAFT_MODEL_URL": server.url})
        try:
            there.start("coordinator", "coordinator")
            runs = []
            for score, model in ((0.9, "openai:a"), (0.1, "openai:b")):
                (tmp_path / "verdict.json").write_text(json.dumps({"score": score}))
                prompt(tmp_path, model)
                there.settings = {**there.settings, "REDRAFT_MODEL": model}
                worker = there.start(f"worker {model}", "worker", "source", "command", "llm")
                said = there.call("submit", "plan.yaml", "--text", "Hello")
                assert said.code == 0, said.err
                runs.append(said.out.strip())
                there.ended(runs[-1])
                stop([worker])
                there.processes.remove(worker)
            first, second = ([e.data for e in there.history(run) if isinstance(e.data, DraftCritiqued)] for run in runs)
            assert [each.critique.score for each in first[:1] + second[:1]] == [0.9, 0.1]
            assert [each.hermetic for each in first] == [False, False, False, True]
            assert [each.reused is not None for each in second] == [False, False, False, True]
            assert [each["body"]["model"] for each in server.asked] == ["a", "a", "a", "b", "a"]
            assert there.call("audit", "--all", "--verify").code == 0
        finally:
            there.stop()
            asyncio.run(clear(URL, there.prefix, (INBOX, *(work_queue(*key) for key in KEYS))))
