"""Users of RabbitMQ with the rights of docs/deployment.md: what each of them can do, and what it cannot."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import uuid4

import aiormq
import pytest
from aiormq.abc import AbstractChannel
from aiormq.exceptions import ChannelAccessRefused, ChannelPreconditionFailed
from pamqp.commands import Basic
from pamqp.common import FieldValue
from tests.app.cli.test_deployment import STEPS
from tests.app.deployments import DEADLINE, Deployment
from tests.dead_letters import dead_letters_on
from tests.forked import fork
from tests.rabbit_users import Users, documented, rabbit_users, table

from redraft.events.backends import open_store
from redraft.events.bus.port import INBOX, BusMessage, DeadLetter, work_queue
from redraft.events.errors import NoSuchRun
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import (
    CancelRun,
    ConfirmStep,
    EraseRun,
    ExpireStep,
    Failed,
    Generated,
    GuideRun,
    Message,
    QuarantineRun,
    Refine,
    Refined,
    Request,
    RetryStep,
    StartRun,
    Work,
    request_id,
)
from redraft.events.messages.content import Brief, Draft
from redraft.events.messages.domain_events import DraftRefined, RunEnded, RunGuided, StepFailed, StepRequested
from redraft.events.messages.envelope import Origin
from redraft.events.messages.plan import Plan, Step
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.cloudevents import message_headers

FOLLOWER: Final = Path(__file__).parents[1] / "app" / "follower.py"
FORGED: Final = "a forged text"
REFUSED, DEAD_LETTERS, DONE = "refused by RabbitMQ", "dead-lettered", "done"
FOUR: Final = ("critic", "refiner", "operator", "subscriber")


class Place(NamedTuple):
    """A deployment whose processes have users of their own. `run` waits for its refiner."""

    there: Deployment
    users: Users
    run: str


Attempt: TypeAlias = Callable[[AbstractChannel, Place, str], Awaitable[object]]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    rights = documented()
    writer = [part.replace(r"critic\.judge", "(generator|publisher)" + r"\..*") for part in rights["critic"]]
    with rabbit_users({**rights, "writer": rights["critic"]._make(writer)}) as users:
        stands = {"critic": ["critic.judge"], "refiner": ["refiner"], "writer": ["generator", "publisher"]}
        told = {
            users.names[user]: parts
            for user, parts in {**stands, "operator": ["operator"], "server": ["operator", "refiner"]}.items()
        }
        settings = {"REDRAFT_USERS": json.dumps(told)}
        store = f"sqlite:///{tmp_path / 'store.db'}"
        there = Deployment(tmp_path, "redraft", store, "quorum", users.urls["coordinator"], settings)
        try:
            there.start("coordinator", "coordinator")
            there.serving("coordinator")
            there.start("writer", "worker", "loop.py:write", "loop.py:save", bus=users.urls["writer"])
            there.start("critic", "worker", "loop.py:judge", bus=users.urls["critic"])
            said = there.call("submit", "loop.py:loop", "a text", bus=users.urls["operator"])
            assert said.code == 0, said.err
            run = said.out.strip()
            there.until("the refiner is asked", lambda: "Loop[1]/improve" in asked(there, run))
            yield Place(there, users, run)
        finally:
            there.stop()


def asked(there: Deployment, run: str) -> list[str]:
    """The paths of the steps that were asked for."""
    with suppress(NoSuchRun, AssertionError):
        return [event.data.path for event in there.history(run) if isinstance(event.data, StepRequested)]
    return []


async def publish(
    channel: AbstractChannel,
    exchange: str,
    key: str,
    message: Message | Work,
    *,
    user: str | None = None,
    cause: str = "",
    headers: Mapping[str, FieldValue] = {},
) -> str:
    """Sends a message as a worker or client does; gives its id. `user` is whom it names."""
    name, body = encode_message(message)
    run = message.request.run if isinstance(message, Refine) else message.run
    bus_message = BusMessage(name, body, Origin(uuid4().hex, "somebody", cause), run)
    properties = Basic.Properties(
        content_type="application/json",
        headers={**message_headers(bus_message), **headers},
        message_id=bus_message.origin.id,
        user_id=user,
    )
    await channel.basic_publish(body, exchange=exchange, routing_key=key, properties=properties, mandatory=True)
    return bus_message.origin.id


def refined(place: Place) -> Refined:
    return Refined(place.run, "Loop[1]/improve", 1, FORGED)


async def draft(channel: AbstractChannel, place: Place, user: str) -> str:
    return await publish(channel, "redraft.incoming", "inbox", refined(place), user=user)


async def guide(channel: AbstractChannel, place: Place, user: str) -> str:
    return await publish(channel, "redraft.incoming", "inbox", GuideRun(place.run, "be brief", by="me"), user=user)


async def default(channel: AbstractChannel, place: Place, user: str) -> None:
    await publish(channel, "", "redraft.inbox", refined(place), user=user)


async def ask(channel: AbstractChannel, place: Place, user: str) -> None:
    await publish(channel, "redraft.commands", "refiner.improve", refined(place), user=user)


async def command(channel: AbstractChannel, place: Place, user: str) -> None:
    await publish(channel, "redraft.commands", "inbox", refined(place), user=user)


async def impersonate(channel: AbstractChannel, place: Place, user: str) -> None:
    await publish(channel, "redraft.incoming", "inbox", refined(place), user=place.users.names["coordinator"])


async def announce(channel: AbstractChannel, place: Place, user: str) -> None:
    await publish(channel, "redraft.events", "run.ended.loop", refined(place), user=user)


async def stop_others(channel: AbstractChannel, place: Place, user: str) -> None:
    await publish(channel, "redraft.cancellations", "run.cancelled.loop", refined(place), user=user)


def reads(queue: str) -> Attempt:
    async def read(channel: AbstractChannel, place: Place, user: str) -> None:
        await channel.basic_qos(prefetch_count=1)
        stream = {"x-stream-offset": "first"} if queue == "redraft.events" else {}

        async def seen(message: object) -> None:
            """What comes goes back with the channel."""

        await channel.basic_consume(queue, seen, arguments=stream)

    return read


async def purge(channel: AbstractChannel, place: Place, user: str) -> None:
    await channel.queue_purge("redraft.inbox")


async def delete(channel: AbstractChannel, place: Place, user: str) -> None:
    await channel.queue_delete("redraft.inbox")


async def divert(channel: AbstractChannel, place: Place, user: str) -> None:
    await channel.queue_unbind("redraft.inbox", "redraft.incoming", "inbox")


async def make(channel: AbstractChannel, place: Place, user: str) -> None:
    await channel.exchange_declare("redraft.more", exchange_type="fanout")


async def overhear(channel: AbstractChannel, place: Place, user: str) -> None:
    """All requests, by a queue of its own."""
    queue = (await channel.queue_declare("", exclusive=True)).queue or ""
    await channel.queue_bind(queue, "redraft.commands", "refiner.improve")


async def heed(channel: AbstractChannel, place: Place, user: str) -> None:
    queue = f"redraft.cancellations.{uuid4().hex}"
    await channel.queue_declare(queue, exclusive=True)
    await channel.queue_bind(queue, "redraft.cancellations", "#")


ATTEMPTS: Final[dict[str, Attempt]] = {
    "pause, guide, end or erase a run": guide,
    "put a message into a queue by the default exchange": default,
    "ask a refiner for work": ask,
    "put a message into the inbox by `redraft.commands`": command,
    "speak as the coordinators' user": impersonate,
    "announce an event": announce,
    "tell workers that a run was cancelled": stop_others,
    "read the inbox": reads("redraft.inbox"),
    "read a partition of the inbox": reads("redraft.inbox.0"),
    "read the critic's queue": reads("redraft.critic.judge"),
    "read the refiner's queue": reads("redraft.refiner.improve"),
    "read the dead letters": reads("redraft.dead-letters"),
    "overhear requests by a queue of its own": overhear,
    "read the stream of events": reads("redraft.events"),
    "be told which runs were cancelled": heed,
    "empty the inbox": purge,
    "delete the inbox": delete,
    "take the inbox off its exchange": divert,
    "make an exchange": make,
    "give the refiner's draft": draft,
}


async def tried(place: Place, attempt: Attempt, user: str, bus: RabbitBus) -> str:
    """What came of it: a word of the table in the guide."""
    connection = await aiormq.connect(place.users.urls[user])
    try:
        channel = await connection.channel(publisher_confirms=True)
        said = await attempt(channel, place, place.users.names[user])
    except (ChannelAccessRefused, ChannelPreconditionFailed):
        return REFUSED
    finally:
        await connection.close()
    return DONE if said is None else await became(place, str(said), bus)


async def became(place: Place, message: str, bus: RabbitBus) -> str:
    """Whether a message in the inbox was dead-lettered or recorded."""
    async with asyncio.timeout(DEADLINE), open_store(place.there.store) as store:
        while True:
            if message in [each.bus_message.origin.id for each in await dead_letters_on(bus)]:
                return DEAD_LETTERS
            if f"{message}.0" in [event.id for event in await store.read(place.run)]:
                return DONE
            await asyncio.sleep(0.05)


@pytest.mark.check
async def test_each_user_can_do_what_the_guide_says(place: Place) -> None:
    told = {row[0]: dict(zip(FOUR, row[1:], strict=True)) for row in table("tried by")}
    async with RabbitBus(place.there.bus) as bus:
        got = {}
        for what, attempt in ATTEMPTS.items():
            got[what] = {user: await tried(place, attempt, user, bus) for user in sorted(FOUR, key="refiner".__eq__)}
    assert got == told


def forgeries(run: str) -> list[Message]:
    """What a critic may want to say, and others have to."""
    path = "Loop[1]/improve"
    return [
        Refined(run, path, 1, FORGED),
        Generated(run, path, 1, FORGED),
        Failed(run, path, 1, "error", FORGED, retryable=False),
        ConfirmStep(run, path, 1, 100),
        ExpireStep(run, path, 1),
        RetryStep(run, path, 1),
        CancelRun(run, FORGED),
        EraseRun(run, FORGED),
        QuarantineRun(run, "me", FORGED),
        StartRun("another", Plan("another", (Step("generator", "write", "write"),)), Brief(FORGED)),
    ]


@pytest.mark.check
def test_what_a_critic_forges_changes_nothing_and_all_others_do_their_work(place: Place) -> None:
    there, users, run = place
    alone = there.environment(users.urls["subscriber"])
    with fork(str(FOLLOWER), folder=there.folder, environment=alone, stdout=subprocess.PIPE) as follower:
        asyncio.run(parks_what_is_forged(place))
        there.start("refiner", "worker", "loop.py:improve", bus=users.urls["refiner"])
        there.ended(run)
        events = there.history(run)
        assert [f"{path}#1" for path in asked(there, run)] == STEPS
        assert not [event for event in events if isinstance(event.data, StepFailed) or FORGED in repr(event.data)]
        assert isinstance(events[-1].data, RunEnded)
        assert events[-1].data.outcome == "accepted"
        with pytest.raises((NoSuchRun, AssertionError)):
            there.history("another")
        out, _ = follower.communicate(timeout=DEADLINE)
    assert out.splitlines() == [f"{event.position} {event.name}" for event in events]
    for process in reversed(there.processes):
        process.terminate()
        assert process.wait(DEADLINE) == 0


@pytest.mark.check
def test_a_forgery_stays_one_whoever_sends_it_again(place: Place) -> None:
    there, users, run = place
    server, critic, operator = (users.names[user] for user in ("server", "critic", "operator"))
    asyncio.run(say_as_others(place))
    told = [[critic], [critic], [""], [server, critic], [critic, operator], [critic, operator]]
    assert sorted(letters_of(place, 6)) == sorted(told)
    retried = there.call("dead-letters", "retry", "--all", bus=users.urls["server"])
    assert retried.out.count("retried") == 6, retried.err
    there.until("all are refused again", lambda: sum(map(len, letters_of(place, 6))) == 14)
    retold = [[critic, server]] * 3 + [["", server]] + [[critic, operator, server]] * 2
    assert sorted(letters_of(place, 6)) == sorted(retold)
    advice = [event.data.advice for event in there.history(run) if isinstance(event.data, RunGuided)]
    assert advice == ["of an operator, twice over"]
    assert not any(isinstance(event.data, DraftRefined) for event in there.history(run))


def letters_of(place: Place, number: int) -> list[list[str]]:
    """The users of the dead letters, once there are so many."""
    found: list[dict[str, Any]] = []

    def enough() -> bool:
        found[:] = place.there.json("dead-letters", "list")
        return len(found) == number

    place.there.until(f"there are {number} dead letters", enough)
    return [each["users"] for each in found]


async def say_as_others(place: Place) -> None:
    """Six messages that name users who may say them, and are of others; the last one is of two operators."""
    server, critic, operator = (place.users.names[user] for user in ("server", "critic", "operator"))
    advice = GuideRun(place.run, FORGED, by="me")
    both = GuideRun(place.run, "of an operator, twice over", by="me")
    said: list[tuple[str, Message, str | None, dict[str, FieldValue]]] = [
        ("critic", advice, critic, {}),
        ("critic", refined(place), critic, {}),
        ("critic", refined(place), None, {}),
        ("critic", advice, critic, {"redraft-user": server}),
        ("operator", advice, operator, {"redraft-user": critic}),
        ("operator", advice, operator, {"redraft-user": [critic, operator]}),
        ("operator", both, operator, {"redraft-user": [server, operator]}),
    ]
    for user, message, named, headers in said:
        connection = await aiormq.connect(place.users.urls[user])
        channel = await connection.channel(publisher_confirms=True)
        await publish(channel, "redraft.incoming", "inbox", message, user=named, headers=headers)
        await connection.close()


async def parks_what_is_forged(place: Place) -> None:
    critic = place.users.names["critic"]
    async with RabbitBus(place.there.bus) as bus, asyncio.timeout(DEADLINE):
        sent = await forged(place, critic)
        for _ in range(2):  # the second time a person has put them back, seeing nothing wrong with them
            dead_letters = await dead_letters_when(bus, sent)
            assert {each.user for each in dead_letters} == {critic, ""}
            assert {each.queue for each in dead_letters} == {INBOX, work_queue("critic", "judge")}
            for each in dead_letters:
                assert await bus.retry(each.id)
        await dead_letters_when(bus, sent)


async def dead_letters_when(bus: RabbitBus, sent: set[str]) -> Sequence[DeadLetter]:
    """What is dead-lettered, once all of these are."""
    while True:
        dead_letters = await dead_letters_on(bus)
        if sent <= {each.bus_message.origin.id for each in dead_letters}:
            return dead_letters
        await asyncio.sleep(0.05)


async def forged(place: Place, critic: str) -> set[str]:
    """Sends all that a critic may want to, also under another name and by ways round; gives the ids."""
    connection = await aiormq.connect(place.users.urls["critic"])
    channel = await connection.channel(publisher_confirms=True)
    behalf = {"redraft-user": place.users.names["coordinator"]}
    sent = set()
    for message in forgeries(place.run):
        for headers in ({}, behalf):
            sent.add(await publish(channel, "redraft.incoming", "inbox", message, user=critic, headers=headers))
    async with open_store(place.there.store) as store:
        cause = (await store.read(place.run))[
            -1
        ].id  # the request: what is dead-lettered of its answers may be taken for lost
    for user in (critic, None):
        sent.add(await publish(channel, "redraft.incoming", "inbox", refined(place), user=user, cause=cause))
    path = "Loop[1]/improve"
    request = Request(request_id(place.run, path, 1), place.run, path, "improve", 1, 9.0, Brief(FORGED))
    work = Refine(request, Draft(1, FORGED, "0" * 64))
    sent.add(await publish(channel, "redraft.incoming", "inbox", work, user=critic))
    there = {"redraft-queue": work_queue("refiner", "improve"), "redraft-reason": "nothing much"}
    sent.add(await publish(channel, "redraft.critic.judge", "critic.judge", work, user=critic, headers=there))
    await connection.close()
    return sent
