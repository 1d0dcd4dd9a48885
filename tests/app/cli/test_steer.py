"""`redraft guide`, `limits`, `pause`, `resume`, `cancel`: on a store alone, beside a process, and over RabbitMQ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.cli_calls import call, one_line, said, spawn, start, until
from tests.app.deployments import Deployment, deployment

from redraft.events.messages.domain_events import RunCancelled, RunEnded

LOOP = """
import asyncio
from pathlib import Path
from redraft.actors import Critique, Retry, Workflow, critic, generator, publisher, refiner, score, step

HERE = Path(__file__).parent

async def hold(name):
    (HERE / f"at-{name}").touch()
    try:
        while (HERE / f"hold-{name}").exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        (HERE / f"stopped-{name}").touch()
        raise

@generator
def write(brief):
    return brief.text

@critic
async def judge(draft):
    await hold("judge")
    return Critique(min(1, draft.text.count("!") / 4))

@refiner
async def improve(draft, history):
    await hold("improve")
    return draft.text + "!" + "".join(history.advice)

loop = Workflow("loop").start_with(write)
loop = loop.repeat_until(score >= 1, max_iterations=9, name="Loop", body=[judge, improve])

@publisher
async def send(draft):
    if (HERE / "away-send").exists():
        raise OSError("away")
    (HERE / "sent.txt").write_text(draft.text)
    await hold("send")

slow = Retry(attempts=3, initial=60)
sent = Workflow("sent").start_with(write).then(step(judge)).finally_(step(send, retry=slow))
"""


@pytest.fixture(autouse=True)
def folder(home: Path) -> Path:
    (home / "loop.py").write_text(LOOP)
    return home


def kept(run: str = "last") -> list[dict[str, object]]:
    return [json.loads(line) for line in said("events", "--run", run, "--json").splitlines()]


def kept_if_any() -> list[dict[str, object]]:
    return kept() if call("events", "--run", "last").code == 0 else []


@pytest.fixture
def killed(folder: Path) -> Path:
    """A run whose process was killed while its first critic was at work."""
    (folder / "hold-judge").touch()
    with start("run", "loop.py:loop", "Tides", folder=folder) as process:
        until((folder / "at-judge").exists)
        process.kill()
    (folder / "hold-judge").unlink()
    return folder


def test_a_run_that_is_cancelled_while_its_publisher_works_says_that_it_may_have_delivered(folder: Path) -> None:
    (folder / "hold-send").touch()
    with start("run", "loop.py:sent", "Tides", folder=folder) as process:
        until((folder / "at-send").exists)
        said("cancel", "last", "--by", "ann")
        process.communicate()
    assert (folder / "sent.txt").read_text() == "Tides"
    assert "dropped: it may have delivered: no answer of it was counted" in said("show", "last")
    said("audit", "last", "--export", "audit.html")
    assert "no longer needed · it may have delivered" in (folder / "audit.html").read_text()


def test_a_publisher_that_only_waits_for_its_next_attempt_has_not_delivered(folder: Path) -> None:
    (folder / "away-send").touch()
    with start("run", "loop.py:sent", "Tides", folder=folder) as process:
        until(lambda: any(each["name"] == "step.failed.v1" for each in kept_if_any()))
        said("cancel", "last", "--by", "ann")
        process.communicate()
    assert "dropped: send raised OSError: away" in said("show", "last").replace("\n", " ")
    assert "it may have delivered" not in said("show", "last")


def test_what_is_said_while_nobody_works_is_heeded_when_the_run_goes_on(killed: Path) -> None:
    assert said("guide", "last", "?", "--by", "ann", "--reason", "to ask").endswith(": ann advised (to ask): ?\n")
    assert "ann changed Loop: it makes at most 1 iteration now" in said(
        "limits", "last", "--max-iterations", "1", "--by", "ann"
    )
    over = call("run", "--resume", "last", "-w", "loop.py:loop", "--json")
    assert over.code == 3, over.err
    result = json.loads(over.out)
    assert (result["outcome"], result["iterations"], result["draft"]["text"]) == ("exhausted", 1, "Tides!?")
    guided = next(event for event in kept() if event["name"] == "run.guided.v1")
    assert guided["actor"] == "ann"
    assert {"by": "ann", "advice": "?", "reason": "to ask"}.items() <= guided["data"].items()  # type: ignore[attr-defined]


def test_another_condition_ends_the_loop(killed: Path) -> None:
    said("limits", "last", "--until", "score >= 0.5")
    assert json.loads(said("run", "--resume", "last", "-w", "loop.py:loop", "--json"))["score"] == 0.5


def test_a_paused_run_does_not_go_on_until_it_is_resumed(killed: Path) -> None:
    said("pause", "last", "--by", "ann", "--reason", "facts are checked")
    assert one_line(call("run", "--resume", "last", "-w", "loop.py:loop")).endswith(
        "is paused; first: redraft resume " + kept()[0]["run"]  # type: ignore[operator]
    )
    assert "paused by ann: facts are checked; go on with: redraft resume" in said("show", "last")
    assert json.loads(said("list", "--json"))[0]["status"] == "paused"
    assert call("pause", "last").code == 2
    said("resume", "last")
    assert call("resume", "last").code == 2
    assert spawn("run", "--resume", "last", "-w", "loop.py:loop", folder=killed).code == 0


def test_a_run_in_another_process_is_paused_guided_resumed_and_goes_on(folder: Path) -> None:
    (folder / "hold-judge").touch()
    with start("run", "loop.py:loop", "Tides", "--json", folder=folder) as process:
        until((folder / "at-judge").exists)
        said("pause", "last", "--by", "ann")
        said("guide", "last", "?", "--by", "ann")
        (folder / "hold-judge").unlink()
        until(lambda: any(event["name"] == "draft.critiqued.v1" for event in kept()))
        assert kept()[-1]["name"] == "draft.critiqued.v1"
        said("resume", "last", "--by", "ann")
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert json.loads(out)["draft"]["text"] == "Tides!?!!!"
    assert "ann paused the run" in err


def test_a_run_in_another_process_is_cancelled_and_its_call_is_stopped(folder: Path) -> None:
    (folder / "hold-judge").touch()
    with start("run", "loop.py:loop", "Tides", "--json", folder=folder) as process:
        until((folder / "at-judge").exists)
        said("cancel", "last", "--reason", "no need", "--by", "ann")
        out, err = process.communicate(timeout=30)
    assert process.returncode == 3, err
    assert (json.loads(out)["outcome"], json.loads(out)["reason"]) == ("cancelled", "no need")
    assert (folder / "stopped-judge").exists()


@pytest.mark.parametrize(
    "verb", ["guide", "pause --reason", "cancel --reason", "quarantine --reason", "limits --reason"]
)
def test_words_in_another_encoding_are_refused_and_the_run_goes_on(killed: Path, verb: str) -> None:
    """As a terminal of Latin-1 sends them: Python reads such a byte as half a character."""
    name, *option = verb.split()
    words = ["last", *option, "caf\udce9", *(["--max-iterations", "2"] if name == "limits" else [])]
    refused = call(name, *words)
    assert (refused.code, refused.out) == (2, "")
    assert one_line(refused).startswith("argument 'caf\\udce9' is not UTF-8")
    assert [each["name"] for each in kept()][-1] == "step.requested.v1"


def test_a_name_in_another_encoding_is_refused(killed: Path) -> None:
    with start("guide", "last", "shorter", folder=killed, USER="caf\udce9", LOGNAME="caf\udce9") as process:
        _, err = process.communicate(timeout=60)
    assert (process.returncode, "by: character 4 cannot be written as UTF-8; remove it" in err) == (2, True), err
    assert [each["name"] for each in kept()][-1] == "step.requested.v1"


def test_nothing_can_be_said_to_a_run_that_has_ended_or_is_not_there(folder: Path) -> None:
    assert call("run", "loop.py:loop", "Tides!!!!").code == 0
    for verb in (["guide", "last", "more"], ["limits", "last", "--max-iterations", "3"], ["pause", "last"]):
        refused = call(*verb)
        assert refused.code == 2
        assert "has ended and takes no more messages" in one_line(refused)
    assert call("cancel", "nowhere").code == 4
    assert call("cancel", "last", "--store", "sqlite:///elsewhere.db").code == 5
    assert not (folder / "elsewhere.db").exists()


def test_advice_fits_where_a_run_is_worked_on(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for bus in ("", "amqp://guest:guest@127.0.0.1:1/"):  # no broker knows of what `redraft run` began
        monkeypatch.setenv("REDRAFT_BUS", bus or "local:")
        assert "if no process works on it: redraft run --resume" in one_line(call("resume", "last"))


def test_limits_that_cannot_be_are_refused_with_the_place(killed: Path) -> None:
    before = len(kept())
    for arguments, line in (
        ([], "nothing is changed; give --until, --max-iterations, or both"),
        (["--until", "scor > 1"], "--until: condition, column 1: 'scor' is not known; did you mean score?"),
        (["--max-iterations", "0"], "Loop: max_iterations is 0; write a whole number, 1 to 1,000,000"),
        (["--max-iterations", "2", "--loop", "Inner"], "loop: there is no loop 'Inner'; it has Loop"),
    ):
        refused = call("limits", "last", *arguments)
        assert refused.code == 2
        assert one_line(refused) == line
    assert one_line(call("guide", "last", "  ")).startswith("the advice is empty")
    assert len(kept()) == before


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as made:
        (tmp_path / "loop.py").write_text(LOOP)
        yield made


def test_a_deployment_is_steered_and_a_cancellation_stops_the_call_in_its_worker(there: Deployment) -> None:
    (there.folder / "hold-judge").touch()
    there.start("coordinator", "coordinator")
    there.start("worker", "worker", "loop.py")
    run = there.submit()
    there.until("the critic is at work", (there.folder / "at-judge").exists)
    assert there.json("guide", run, "?", "--by", "ann")["event"] == "run.guided.v1"
    assert there.json("pause", run, "--by", "ann")["by"] == "ann"
    assert there.json("resume", run, "--by", "ben")["event"] == "run.resumed.v1"
    cancelled = there.json("cancel", run, "--reason", "no need", "--by", "ann")
    assert cancelled["event"] == "run.cancelled.v1"
    there.until("the call is stopped", (there.folder / "stopped-judge").exists)
    there.ended(run)
    *_, stopped, ended = [event.data for event in there.history(run)]
    assert isinstance(stopped, RunCancelled)
    assert isinstance(ended, RunEnded)
    assert (stopped.by, ended.outcome, ended.reason) == ("ann", "cancelled", "no need")
    other = there.submit()
    (there.folder / "hold-judge").unlink()
    there.ended(other)
    assert there.json("show", other)["ended"]["outcome"] == "accepted", "the worker goes on with other runs"


def test_without_a_coordinator_a_word_waits_in_the_inbox(there: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = there.start("coordinator", "coordinator")
    run = there.submit()
    there.until("it has begun", lambda: len(there.json("list")) == 1)
    coordinator.kill()
    coordinator.wait()
    for name, value in there.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("redraft.app.runs.steering.PATIENCE", 0.1)
    spoken = call("pause", run, "--by", "ann", "--json")
    assert (spoken.code, json.loads(spoken.out)["event"]) == (0, None)
    assert "no coordinator has handled it yet" in spoken.err
    there.start("coordinator", "coordinator")
    there.until("it is paused", lambda: there.json("list")[0]["status"] == "paused")
