"""Messages whose properties cannot be decoded end no process: they are set aside, and people can look at them."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from tests.app.deployments import Deployment, deployment
from tests.events.forged_properties import FORGED, TOLD, put_forged
from tests.events.rabbit_server import URL

from redraft.events.bus.port import INBOX, work_queue
from redraft.events.rabbit.topology import Kind, Names

pytestmark = pytest.mark.check

PROCESSES = ("coordinator", "worker")
NUMBER = len(FORGED)


def put(there: Deployment) -> None:
    """On the inbox, and on the queue of a worker."""
    names = Names(there.prefix)
    for queue in (INBOX, work_queue("critic", "judge")):
        asyncio.run(put_forged(URL, names.there(queue)))


def listed(there: Deployment) -> list[dict[str, str]]:
    return list(there.json("dead-letters", "list"))


def require_undisturbed(there: Deployment) -> None:
    for name in PROCESSES:
        assert there.said(name, "interrupted") == []
        assert len(there.said(name, "serving")) == 1
    assert [each.poll() for each in there.processes] == [None, None]


@pytest.mark.parametrize("queues", ["quorum", "classic"])
def test_properties_that_cannot_be_decoded_end_no_process(tmp_path: Path, queues: Kind) -> None:
    with deployment(tmp_path, queues=queues) as there:
        there.start("coordinator", "coordinator")
        there.start("worker", "worker", "loop.py")
        for name in PROCESSES:
            there.serving(name)
        there.ended(there.submit())
        put(there)
        there.ended(there.submit())
        there.until("all are set aside", lambda: len(listed(there)) == 2 * NUMBER)
        assert Counter(each["name"] for each in listed(there)) == {TOLD: 2 * NUMBER}
        require_undisturbed(there)

        first = listed(there)[0]["id"]
        assert there.call("dead-letters", "retry", first).code == 0
        there.until("it is set aside again", lambda: [each["id"] for each in listed(there)].count(first) == 0)
        there.until("it is set aside again", lambda: len(listed(there)) == 2 * NUMBER)
        assert there.call("dead-letters", "discard", listed(there)[0]["id"]).code == 0
        assert len(listed(there)) == 2 * NUMBER - 1
        asyncio.run(put_forged(URL, Names(there.prefix).dead_letters))
        assert len(listed(there)) == 3 * NUMBER - 1
        said = there.call("dead-letters", "discard", "--all")
        assert said.code == 0, said
        assert listed(there) == []
        there.ended(there.submit())
        require_undisturbed(there)
