"""`redraft dead-letters`, and that no run hangs on what was dead-lettered: real processes on a real broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.app.deployments import Deployment, deployment
from tests.events.rabbit_server import URL

from redraft.events.bus.port import INBOX, BusMessage, work_queue
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import Message, PauseRun, ResumeRun, StartRun
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import RunEnded, RunPaused, StepFailed, StepRequested
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.plan import Plan, Step
from redraft.events.rabbit.bus import RabbitBus

JUDGE = work_queue("critic", "judge")
numbers = count()


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as made:
        yield made


def put(there: Deployment, queue: str, bus_message: BusMessage) -> None:
    async def put_it() -> None:
        async with RabbitBus(URL, prefix=there.prefix) as bus:
            await bus.publish(queue, [bus_message])

    asyncio.run(put_it())


def dead_letters(there: Deployment, number: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []

    def enough() -> bool:
        found[:] = there.json("dead-letters", "list")
        return len(found) == number

    there.until(f"{number} messages are dead-lettered", enough)
    return found


def test_what_nobody_can_read_is_dead_lettered_and_can_be_listed_shown_retried_and_discarded(there: Deployment) -> None:
    assert there.json("dead-letters", "list") == []
    there.start("judge", "worker", "loop.py:judge")
    put(there, JUDGE, BusMessage("draft.critique.v1", b"no JSON", Origin("e1", "somebody")))
    [one] = dead_letters(there, 1)
    assert (one["queue"], one["name"], one["bytes"]) == (f"{there.prefix}.critic.judge", "draft.critique.v1", 7)
    assert f"{there.prefix}.critic.judge" in there.call("dead-letters", "list").out
    assert "cannot be read" in str(one["reason"])
    shown = there.json("dead-letters", "show", str(one["id"])[-8:])
    assert shown["body"] == "no JSON"
    assert there.json("dead-letters", "retry", str(one["id"])) == {"retried": [one["id"]]}
    [again] = dead_letters(there, 1)
    assert again["id"] != one["id"]
    said = there.call("dead-letters", "discard", "nothing")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert there.json("dead-letters", "discard", "--all") == {"discarded": [again["id"]]}
    assert there.json("dead-letters", "list") == []


@pytest.mark.check
def test_a_run_whose_request_was_dead_lettered_goes_on(there: Deployment) -> None:
    """The critic's worker is one that cannot read the request that the relay sent: it finds another body in it."""
    there.start("coordinator", "coordinator")
    there.start("write", "worker", "loop.py:write")
    run = there.submit("--key", "k")
    [asked] = requests(there, run, "Loop[1]/judge")
    taken = take(there, JUDGE)
    assert taken.origin.id == asked.id
    put(there, JUDGE, BusMessage(taken.name, b"\x00 torn", taken.origin, taken.run))
    there.start("others", "worker", "loop.py")
    there.ended(run)
    events = there.history(run)
    [failed] = [event.data for event in events if isinstance(event.data, StepFailed)]
    assert (failed.path, failed.attempt, failed.kind) == ("Loop[1]/judge", 1, "lost")
    assert failed.retry_at is not None
    assert isinstance(events[-1].data, RunEnded)
    assert events[-1].data.outcome == "accepted"
    assert len(dead_letters(there, 1)) == 1
    lines = [line for line in there.lines("coordinator") if line["event"] == "dead letter"]
    assert [(line["run"], line["queue"]) for line in lines] == [(run, f"{there.prefix}.critic.judge")]
    checks = json.loads(there.call("doctor", "--json").out)["checks"]
    assert any("1 message set aside; see `redraft dead-letters list`" in each["message"] for each in checks)


def test_a_word_that_comes_before_the_start_of_its_run_is_not_dead_lettered(there: Deployment) -> None:
    there.start("coordinator", "coordinator")
    there.serving("coordinator")
    for said in (PauseRun("early", by="ann"), ResumeRun("early", by="ann"), PauseRun("early", by="bob")):
        put(there, INBOX, written(said))
    there.submit("--key", "fence")
    there.until("the fence is there", lambda: bool(there.json("list")))
    put(there, INBOX, written(StartRun("early", Plan("p", (Step("generator", "write", "write"),)), Brief("b"))))
    there.until("it is there", lambda: "early" in [each["run"] for each in there.json("list")])
    there.until("it is paused", lambda: isinstance(there.history("early")[-1].data, RunPaused))
    assert [each.actor for each in there.history("early")[-3:]] == ["ann", "ann", "bob"]
    assert there.json("dead-letters", "list") == []


def written(message: Message) -> BusMessage:
    name, body = encode_message(message)
    by = getattr(message, "by", "submit")
    return BusMessage(name, body, Origin(f"said{next(numbers)}", by, "", message.run), message.run)


def requests(there: Deployment, run: str, path: str) -> list[Recorded]:
    found: list[Recorded] = []

    def asked() -> bool:
        events = there.history(run) if there.lines("coordinator") and known(there, run) else ()
        found[:] = [each for each in events if isinstance(each.data, StepRequested) and each.data.path == path]
        return bool(found)

    there.until(f"{path} is asked for", asked)
    return found


def known(there: Deployment, run: str) -> bool:
    return (there.folder / "store.db").exists() and any(
        line["event"] == "run started" and line["run"] == run for line in there.lines("coordinator")
    )


def take(there: Deployment, queue: str) -> BusMessage:
    """Takes the next message out of a queue for good."""

    async def taken() -> BusMessage:
        async with RabbitBus(URL, prefix=there.prefix) as bus, bus.consume(queue, 1) as consumer:
            [delivery] = await asyncio.wait_for(consumer.take(1), 30)
            await consumer.ack([delivery])
            return delivery.bus_message

    return asyncio.run(taken())
