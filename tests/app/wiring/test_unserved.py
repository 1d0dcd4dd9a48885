"""An actor that no worker serves: people are told at once, its step is given up, and a late worker leaves it alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pytest
from tests.app.deployments import Deployment, deployment
from tests.events.rabbit_server import URL

from redraft.events.bus.port import work_queue
from redraft.events.messages.domain_events import RunEnded, StepFailed

pytestmark = pytest.mark.check

PANEL = """
import time
from pathlib import Path
from redraft.actors import Critique, Workflow, critic, generator, parallel, score

HERE = Path(__file__).parent

@generator
def write(brief):
    return brief.text

@critic
def fast(draft):
    return Critique(1.0)

@critic
def slow(draft, context):
    with (HERE / "slow.txt").open("a") as file:
        file.write(draft.text + "\\n")
    while (HERE / "hold").exists():
        time.sleep(0.01)
    return Critique(1.0)

start = Workflow("early").start_with(write)
early = start.repeat_until(score >= 1, max_iterations=1, body=[parallel("Panel", fast, slow, wait=1)])
alone = Workflow("alone").start_with(write).repeat_until(score >= 1, max_iterations=1, body=[slow])
"""


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Deployment]:
    (tmp_path / "redraft.toml").write_text("queue_wait = 1\n")
    with deployment(tmp_path) as made:
        made.quicker = {"redraft.actors.runtime.coordinating.timekeeper.WATCH": 10}
        yield made


def test_what_nobody_serves_is_told_and_given_up_and_a_late_worker_does_not_begin_it(there: Deployment) -> None:
    there.start("coordinator", "coordinator")
    there.serving("coordinator")
    told = "no worker serves the generator write; start one: redraft worker FILE.py:write --role generator"
    said = there.call("submit", "loop.py:loop", "a text")
    run = said.out.strip()
    assert (said.code, told.replace("FILE.py", "loop.py") in said.err) == (0, True)
    there.ended(run)
    events = there.history(run)
    (failed,) = [event.data for event in events if isinstance(event.data, StepFailed)]
    assert (failed.path, failed.kind, failed.retry_at) == ("write", "unserved", None)
    assert failed.message.startswith("no worker has served the generator write for ")
    assert isinstance(events[-1].data, RunEnded)
    waited = there.call("submit", "loop.py:loop", "another text", "--wait")
    assert "write: generator write had no worker (attempt 1): " in waited.err
    checks = json.loads(there.call("doctor", "--json").out)["checks"]
    assert any(told in each["message"] for each in checks)
    there.start("late", "worker", "loop.py")
    there.serving("late")
    served = there.submit()
    there.ended(served)
    written = (there.folder / "worked.txt").read_text().splitlines()
    assert written.count("write#1") == 1, "that of the run which went on"
    assert there.json("dead-letters", "list") == []


def test_show_says_that_nobody_serves_what_a_run_waits_for(there: Deployment) -> None:
    (there.folder / "redraft.toml").unlink()
    there.start("coordinator", "coordinator")
    there.start("write", "worker", "loop.py:write")
    there.serving("write")
    run = there.submit()
    told = "no worker serves the critic judge; start one: redraft worker FILE.py:judge --role critic"
    there.until("it is shown", lambda: bool(there.json("list")) and told in there.call("show", run).out)
    there.start("others", "worker", "loop.py")
    there.ended(run)
    assert "no worker serves" not in there.call("show", run).out


def test_a_critic_that_an_ended_run_went_on_without_is_not_begun(there: Deployment) -> None:
    (there.folder / "redraft.toml").unlink()
    (there.folder / "panel.py").write_text(PANEL)
    (there.folder / "hold").touch()
    there.queues_made.append(work_queue("critic", "fast"))
    there.queues_made.append(work_queue("critic", "slow"))
    there.start("coordinator", "coordinator")
    there.start("fast", "worker", "panel.py:write", "panel.py:fast")
    there.start("slow", "worker", "panel.py:slow", "--concurrency", "1")
    for name in ("coordinator", "fast", "slow"):
        there.serving(name)

    def submit(workflow: str, brief: str) -> str:
        said = there.call("submit", f"panel.py:{workflow}", brief)
        assert said.code == 0, said.err
        return said.out.strip()

    begun = there.folder / "slow.txt"
    busy = submit("alone", "busy")
    there.until("the slow critic is at work", begun.exists)
    left = submit("early", "left")
    there.ended(left)
    last = submit("alone", "last")
    told = ("coordinator", "run ended")
    there.until("the end is told to the workers", lambda: any(line["run"] == left for line in there.said(*told)))
    (there.folder / "hold").unlink()
    there.ended(busy, last)
    assert begun.read_text().split() == ["busy", "last"]


def test_a_queue_that_is_somebody_elses_stops_the_time_of_no_other_and_doctor_names_it(there: Deployment) -> None:
    async def hold(name: str) -> list[dict[str, str]]:
        """Holds the queue until a run that waits for nobody else is given up; returns what doctor says then."""
        async with await aio_pika.connect(URL) as connection:
            channel = await connection.channel()
            await channel.declare_queue(name, exclusive=True)
            for _ in range(2):
                there.submit()
            last = there.call("submit", "panel.py:early", "a text").out.strip()
            await asyncio.to_thread(there.ended, last)
            said = await asyncio.to_thread(there.call, "doctor", "--json")
            return json.loads(said.out)["checks"]  # type: ignore[no-any-return]

    (there.folder / "panel.py").write_text(PANEL.replace("def write", "def other").replace("(write)", "(other)"))
    there.queues_made += [work_queue("generator", "other"), work_queue("critic", "fast"), work_queue("critic", "slow")]
    there.start("coordinator", "coordinator")
    there.serving("coordinator")
    locked = f"{there.prefix}.generator.write"
    checks = asyncio.run(hold(locked))
    told = f"the queue {locked} is another connection's own (exclusive): end the program that declared it"
    assert any(each["name"] == "queue" and told in each["message"] for each in checks)
    assert not any("cannot reach RabbitMQ" in each["message"] for each in checks)
