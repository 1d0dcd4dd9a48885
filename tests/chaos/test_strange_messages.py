"""What nobody can work on is put on each queue of a deployment at work: it is parked, and all else flows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.chaos.histories import doubles, require_whole
from tests.chaos.scene import DEADLINE, Scene
from tests.chaos.strangers import LARGE, NOBODY, Stranger, proper, put, unreadable

from redraft.events.bus import INBOX
from redraft.events.codec import encode_message
from redraft.events.rabbit_topology import Kind

RUNS = 20


async def parked(there: Scene, number: int, within: float = DEADLINE) -> list[dict[str, Any]]:
    """What is parked, once it is as much as this."""
    end = time.monotonic() + within
    while len(found := await there.json("parked", "list")) < number:
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


def found_in(letters: Sequence[dict[str, Any]], stranger: Stranger) -> list[dict[str, Any]]:
    told = (stranger.queue, stranger.name, len(stranger.body))
    return [each for each in letters if (each["queue"], each["name"], each["bytes"]) == told]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("queues", ["quorum", "classic"])
async def test_what_cannot_be_read_is_parked_with_the_reason_and_all_else_flows(
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
    letters = await parked(there, len(strangers))
    tell(
        f"{len(letters)} of {len(strangers)} strange messages parked, {2 * RUNS} runs ended in "
        f"{time.monotonic() - began:.1f} s"
    )
    assert len(letters) == len(strangers)
    for stranger in strangers:
        [letter] = found_in(letters, stranger)
        assert stranger.reason in letter["reason"]
    await require_whole(there, before + after)
    assert doubles(there) == [0]
    require_undisturbed(there)


@pytest.mark.timeout(300)
async def test_what_is_for_a_run_that_does_not_exist_is_parked_with_the_reason_and_all_else_flows(there: Scene) -> None:
    """A worker cannot know which runs there are: what it did for none is parked when it reports it."""
    await there.up()
    strangers = [Stranger(queue, *encode_message(message), f"no run {NOBODY}") for queue, message in proper().items()]
    before = await there.submit(RUNS)
    await put(there, strangers)
    after = await there.submit(RUNS)
    await there.ended(before + after, 120)
    letters = await parked(there, len(strangers))
    assert {letter["name"] for letter in letters} == {
        *("run.cancel.v1", "outcome.generated.v1", "outcome.critiqued.v1", "outcome.refined.v1", "outcome.published.v1")
    }
    for letter in letters:
        assert (letter["queue"], letter["run"] in ("", NOBODY)) == (INBOX, True)
        assert letter["reason"].endswith(f"there is no run {NOBODY}")
    require_undisturbed(there)
