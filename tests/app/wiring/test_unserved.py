"""An actor that no worker serves: people are told at once, its step is given up, and a late worker leaves it alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.deployments import Deployment, deployment

from redraft.events.messages.domain_events import RunEnded, StepFailed


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Deployment]:
    (tmp_path / "redraft.toml").write_text("queue_wait = 1\n")
    with deployment(tmp_path) as made:
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
