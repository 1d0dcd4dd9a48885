"""`kill -9` of every process of a deployment during a model call: the run goes on, and pays one call a kill at most."""

from __future__ import annotations

from pathlib import Path

import pytest
from model_server import Json, ModelServer, instructions_of, read_script
from tests.app.model_deployments import ModelDeployment, deployed

from redraft.events.messages.domain_events import DraftCritiqued, DraftGenerated, DraftRefined, RunEnded

ANSWERS = Path(__file__).parents[2] / "examples" / "answers" / "tides.jsonl"
WORKER = ("worker", "llm", "stdout")


def script() -> list[Json]:
    """Tides, whatever is asked how often; every answer takes its time."""
    write, first, improve, second = read_script(ANSWERS)
    first["about"], second["about"] = "once a day", "two high tides a day"
    slow = {"always": True, "delay": 1.0}
    return [{**each, **slow} for each in (write, {**first, "about": "They come once a day"}, improve, second)]


@pytest.mark.check
@pytest.mark.parametrize("graceless", ["worker", "both"])
def test_the_run_goes_on_and_no_kill_costs_more_than_one_call(
    graceless: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789abcdef")
    with ModelServer(script()) as server, deployed(tmp_path, f"sqlite:///{tmp_path / 'store.db'}") as made:
        made.model_url = server.url
        starts = {"coordinator": ("coordinator",), "worker": WORKER}
        running = {name: made.start(name, *verb) for name, verb in starts.items()}
        for name in running:
            made.serving(name)
        run = made.call("submit", "article", "Why tides exist").out.strip()
        killed = 0
        for role in ("You write", "You judge", "You improve"):
            made.until(f"{role} is asked", lambda role=role: is_asked(server, role))
            for name in starts if graceless == "both" else [graceless]:
                running[name].kill()
                running[name].wait()
                killed += 1
                running[name] = made.start(name, *starts[name])
        made.ended(run)
        paid = [instructions_of(each["body"])[:10] for each in server.asked]
        assert killed == 3 * (2 if graceless == "both" else 1)
        assert 4 <= len(paid) <= 4 + killed, paid
        begun = [line["path"] for name in running for line in made.lines(name) if line["event"] == "begun again"]
        assert len(paid) - 4 <= len(begun) <= killed, (paid, begun)
        assert len(begun) >= 3, "each kill of the worker was during a call"
        check(made, run)


def is_asked(server: ModelServer, role: str) -> bool:
    return any(instructions_of(each["body"]).startswith(role) for each in server.asked)


def check(made: ModelDeployment, run: str) -> None:
    """The history is that of a run which nobody killed: every step has one answer."""
    events = [event.data for event in made.history(run)]
    last = events[-1]
    assert isinstance(last, RunEnded)
    assert (last.outcome, last.iterations) == ("accepted", 2)
    for kind, count in ((DraftGenerated, 1), (DraftCritiqued, 2), (DraftRefined, 1)):
        assert sum(isinstance(each, kind) for each in events) == count
