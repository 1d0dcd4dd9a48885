"""What nobody can work on is put on each queue of a deployment at work: it is dead-lettered, and all else flows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.chaos.histories import doubles, require_whole
from tests.chaos.scene import DEADLINE, Scene
from tests.chaos.strangers import LARGE, NOBODY, Stranger, proper, put, unreadable

from redraft.events.bus.port import INBOX
from redraft.events.messages.codec import encode_message
from redraft.events.rabbit.topology import Kind, Names

pytestmark = pytest.mark.check

RUNS = 20


async def dead_letters(there: Scene, number: int, within: float = DEADLINE) -> list[dict[str, Any]]:
    """What is dead-lettered, once it is as much as this."""
    end = time.monotonic() + within
    while len(found := await there.json("dead-letters", "list")) < number:
        assert time.monotonic() < end, (found, there.logs())
    return list(found)


def require_undisturbed(there: Scene) -> None:
    """Nothing died, and nothing was begun again."""
    events = [(line["process"], line["event"]) for line in there.lines()]
    assert not [each for each in events if each[1] in ("interrupted", "died, starts again", "not healthy")], (
        there.logs()
    )
    serving = [process for process, event in events if event == "serving"]
    assert len(serving) == len(set(serving)) == 5


def found_in(bus_messages: Sequence[dict[str, Any]], stranger: Stranger, names: Names) -> list[dict[str, Any]]:
    told = (names.there(stranger.queue), stranger.name, len(stranger.body))
    return [each for each in bus_messages if (each["queue"], each["name"], each["bytes"]) == told]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("queues", ["quorum", "classic"])
async def test_what_cannot_be_read_is_dead_lettered_with_the_reason_and_all_else_flows(
    there: Scene, queues: Kind, tell: Callable[[str], None]
) -> None:
    there.queues = queues
    await there.up()
    strangers = unreadable()
    assert max(len(each.body) for each in strangers) > LARGE
    began = time.monotonic()
    before = await there.submit(RUNS)
    await put(there, strangers)
    after = await there.submit(RUNS)
    await there.ended(before + after, 120)
    bus_messages = await dead_letters(there, len(strangers))
    tell(
        f"{len(bus_messages)} of {len(strangers)} strange messages dead-lettered, {2 * RUNS} runs ended in "
        f"{time.monotonic() - began:.1f} s"
    )
    assert len(bus_messages) == len(strangers)
    for stranger in strangers:
        [bus_message] = found_in(bus_messages, stranger, Names(there.prefix))
        assert stranger.reason in bus_message["reason"]
    await require_whole(there, before + after)
    assert doubles(there) == [0]
    require_undisturbed(there)


@pytest.mark.timeout(300)
async def test_what_is_for_a_run_that_does_not_exist_is_dead_lettered_with_the_reason_and_all_else_flows(
    there: Scene,
) -> None:
    """A worker cannot know which runs there are: what it did for none is dead-lettered when it reports it."""
    await there.up()
    strangers = [Stranger(queue, *encode_message(message), f"no run {NOBODY}") for queue, message in proper().items()]
    before = await there.submit(RUNS)
    await put(there, strangers)
    after = await there.submit(RUNS)
    await there.ended(before + after, 120)
    bus_messages = await dead_letters(there, len(strangers))
    assert {bus_message["name"] for bus_message in bus_messages} == {
        *("run.cancel.v1", "outcome.generated.v1", "outcome.critiqued.v1", "outcome.refined.v1", "outcome.published.v1")
    }
    for bus_message in bus_messages:
        assert (bus_message["queue"], bus_message["run"] in ("", NOBODY)) == (Names(there.prefix).there(INBOX), True)
        assert bus_message["reason"].endswith(f"there is no run {NOBODY}")
    require_undisturbed(there)
