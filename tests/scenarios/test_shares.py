"""Coordinators that divide the runs: they join, one is killed, and one ends in order; no run is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.deployments import DEADLINE, PARTITIONS, Deployment, deployment


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as made:
        yield made


def share(there: Deployment, name: str) -> list[int]:
    """The partitions that a coordinator reads, as it told last."""
    told = there.said(name, "share of the inbox")
    return list(told[-1]["partitions"]) if told else []


def divided(there: Deployment, *names: str) -> bool:
    shares = [share(there, name) for name in names]
    return all(shares) and sorted(number for each in shares for number in each) == list(range(PARTITIONS))


def shares_checked(there: Deployment) -> tuple[str, str]:
    checks = json.loads(there.call("doctor", "--json").out)["checks"]
    return next((each["level"], each["message"]) for each in checks if each["name"] == "shares")


@pytest.mark.check
def test_coordinators_divide_the_runs_and_take_over_from_one_that_is_killed(there: Deployment) -> None:
    first = there.start("first", "coordinator")
    there.until("the first has all", lambda: divided(there, "first"))
    there.start("second", "coordinator")
    there.until("each has its share", lambda: divided(there, "first", "second"))
    there.start("worker", "worker", "loop.py")
    there.ended(*(there.submit() for _ in range(4)))
    assert shares_checked(there) == ("ok", f"{PARTITIONS} partitions of the inbox, held by 2 coordinators")
    first.kill()
    assert first.wait(DEADLINE) != 0
    runs = [there.submit() for _ in range(6)]
    there.ended(*runs)
    there.until("the second has all", lambda: divided(there, "second"))
    for process in there.processes[1:]:
        process.terminate()
        assert process.wait(DEADLINE) == 0
    (told,) = there.said("second", "decided")
    assert told["conflicts"] == 0
    level, message = shares_checked(there)
    assert (level, f"{PARTITIONS} without one" in message) == ("warn", True)
