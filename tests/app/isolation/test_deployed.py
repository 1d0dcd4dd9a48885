"""Isolated actors in workers of a deployment: what hangs or kills its worker fails its own step and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.deployments import Deployment
from tests.app.deployments import deployment as deployed
from tests.app.isolation.test_isolation import ACTORS, is_alive
from tests.events.rabbit_server import URL, clear

from redraft.events.messages.domain_events import RunEnded, StepFailed

pytestmark = pytest.mark.check


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    (tmp_path / "isolated.py").write_text(ACTORS)
    with deployed(tmp_path) as there:
        yield there
    names = (
        "generator.write",
        "critic.judge",
        "critic.plain",
        "critic.metered",
        "critic.environment",
        "publisher.save",
    )
    asyncio.run(clear(URL, there.prefix, tuple(f"redraft.{name}" for name in names)))


def submitted(there: Deployment, flow: str, text: str) -> str:
    said = there.call("submit", f"isolated.py:{flow}", text)
    assert said.code == 0, said.err
    return said.out.strip()


def failures(there: Deployment, run: str) -> list[tuple[str, int]]:
    return [(each.data.kind, each.data.attempt) for each in there.history(run) if isinstance(each.data, StepFailed)]


def test_a_worker_with_one_that_hangs_serves_others_on_the_same_connection(deployment: Deployment) -> None:
    deployment.start("coordinator", "coordinator")
    worker = deployment.start("worker", "worker", "isolated.py", "--json")
    deployment.serving("worker")
    hanging = submitted(deployment, "patient", "hang")
    deployment.until("it hangs", (deployment.folder / "pids.txt").exists)
    fine = [submitted(deployment, flow, "fine") for flow in ("patient", "ordinary")]
    deployment.ended(*fine)
    killed = submitted(deployment, "isolated", "hang")
    deployment.ended(killed)
    assert failures(deployment, killed) == [("timeout", 1)]
    assert not any(isinstance(each.data, RunEnded) for each in deployment.history(hanging)), "it still hangs"
    events = {line["event"] for line in deployment.lines("worker")}
    assert events <= {"serving", "ready"}, events
    worker.kill()  # told to end, it would wait for what hangs


def test_what_kills_each_worker_that_takes_it_is_carried_out_alone_and_lost(deployment: Deployment) -> None:
    deployment.start("up", "up", "isolated.py", "--json")
    deadly = submitted(deployment, "ordinary", "kill")
    deployment.ended(deadly)
    assert failures(deployment, deadly) == [("lost", 1)]
    pids = (deployment.folder / "pids.txt").read_text().split()
    assert len(set(pids)) == len(pids) == 3
    fine = submitted(deployment, "ordinary", "fine")
    deployment.ended(fine)
    assert not failures(deployment, fine)


def test_workers_that_are_killed_at_random_fail_no_run(deployment: Deployment) -> None:
    (deployment.folder / "hold").touch()
    deployment.start("coordinator", "coordinator")
    deployment.start("others", "worker", "isolated.py:write", "isolated.py:save")
    pids = deployment.folder / "pids.txt"
    run = ""
    for time_ in range(1, 5):
        worker = deployment.start(f"worker{time_}", "worker", "isolated.py:plain")
        run = run or submitted(deployment, "ordinary", "hold on")
        deployment.until(
            f"it is begun {time_} times", lambda t=time_: pids.exists() and len(pids.read_text().split()) == t
        )
        worker.kill()
    (deployment.folder / "hold").unlink()
    deployment.start("worker", "worker", "isolated.py:plain")
    deployment.ended(run)
    assert not failures(deployment, run)
    begun = [int(each) for each in pids.read_text().split()]
    assert not any(is_alive(each) for each in begun[:4])
