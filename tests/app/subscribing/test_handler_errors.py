"""Whatever a handler raises, and whatever that says, is told, counted and parked; the others go on."""

from __future__ import annotations

import asyncio
import math

import pytest
from tests.app.subscribers import Handler, World, delivering, until, write_run

from redraft.app import DeliveryError, Retry
from redraft.app.subscribing.delivery import backoff
from redraft.events.messages.envelope import Recorded
from redraft.events.subscriptions.subscriptions import Failing, ParkedEvent, Subscriptions
from redraft.projections.display import error_text


class Speechless(Exception):
    """As errors are whose message is made of what they were not given."""

    def __str__(self) -> str:
        raise AttributeError("no reason")


class SpeechlessDelivery(DeliveryError):
    """A refusal of this kind: it says nothing, and knows nothing of when to try again."""

    def __init__(self) -> None:
        self.permanent = True

    def __str__(self) -> str:
        raise AttributeError("no reason")


class SpeechlessTimeout(Speechless, TimeoutError):
    pass


@pytest.mark.parametrize(
    ("fault", "attempts", "says"),
    [
        (ValueError("cannot read \udcff.txt"), 3, r"ValueError: cannot read \udcff.txt"),
        (DeliveryError("cannot read \udcff.txt"), 3, r"cannot read \udcff.txt"),
        (TimeoutError("no answer of \udcff"), 3, r"no answer of \udcff"),
        (Speechless(), 3, "Speechless"),
        (SpeechlessTimeout(), 3, "it took longer than 60 s"),
        (SpeechlessDelivery(), 1, "SpeechlessDelivery"),
        (DeliveryError("later", retry_after="soon"), 3, "later"),  # type: ignore[arg-type]
        (DeliveryError("later", retry_after=math.nan), 3, "later"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else "",
)
async def test_what_a_handler_raises_is_counted_and_parked(
    there: World, names: Subscriptions, fault: Exception, attempts: int, says: str
) -> None:
    await write_run(there.store, "a", 3)
    handler = Handler(lambda event: fault if event.position == 2 else None)
    async with there.open() as client, delivering(client, "index", handler):
        await until(names, "index", lambda found: found.position == 3)
        (parked,) = await names.parked("index")
        assert (parked.position, parked.attempts, parked.error) == (2, attempts, says)
        assert await names.retry(parked)
        await handler.until(lambda: handler.tried.count(2) == attempts + 1)
        await write_run(there.store, "b", 1)
        await until(names, "index", lambda found: found.position == 4)
    assert handler.taken == [1, 3, 4]


async def test_a_plain_function_may_raise_it_too(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 2)

    def handle(event: Recorded) -> None:
        raise Speechless

    async with there.open() as client:
        task = asyncio.create_task(client.deliver("index", handle, retry=Retry(2, 0.001)))
        assert (await until(names, "index", lambda found: found.position == 2)).parked == 2
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
    assert [each.error for each in await names.parked("index")] == ["Speechless"] * 2


async def test_an_error_that_no_database_takes_is_kept_with_signs_in_its_place(names: Subscriptions) -> None:
    mine = await names.take("index", "{}", "me", 0)
    said = "a \0 strange\n\udcff name"
    await names.failed(mine, Failing(1, 1, said, mine.created))
    failing = (await names.get("index")).failing
    assert failing is not None
    assert failing.error == r"a strange \udcff name"
    parked = ParkedEvent("index", 1, "id", "a", 1, "run.started.v1", 1, said, mine.created)
    await names.park(mine, parked)
    await names.still_parked(parked)
    assert [each.error for each in await names.parked("index")] == [r"a strange \udcff name"]


@pytest.mark.parametrize("asked", ["soon", math.nan, math.inf, -math.inf, -5, -1e-9, True, None, [], 1j])
def test_a_pause_that_is_no_number_of_seconds_counts_as_none(asked: object) -> None:
    policy = Retry(attempts=9, initial=0.5, maximum=10.0)
    assert backoff(policy, 1, asked) == 0.5  # type: ignore[arg-type]


@pytest.mark.parametrize(("asked", "waits"), [(0, 0.5), (7, 7.0), (10**400, 3600.0)])
def test_a_pause_in_whole_seconds_is_waited_for(asked: int, waits: float) -> None:
    assert backoff(Retry(attempts=9, initial=0.5, maximum=10.0), 1, asked) == waits


def test_an_error_that_cannot_say_what_it_is_is_told_as_its_class() -> None:
    """Also those of projections, and of libraries whose logs are heard."""
    assert error_text(Speechless()) == "Speechless"
