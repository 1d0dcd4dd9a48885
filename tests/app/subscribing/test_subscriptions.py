"""Subscriptions with a name: where they go on, what is tried again, what is parked, and who serves them."""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, NoReturn

import pytest
import structlog
from tests.app.subscribers import (
    DEADLINE,
    Handler,
    World,
    beginning,
    delivering,
    new_events,
    store_world,
    taken,
    until,
    write_run,
)
from tests.appending import append_to

from redraft.app import DeliveryError, Retry, open_readonly
from redraft.app.settings.settings import Settings
from redraft.app.subscribing.delivery import SubscriptionServer, backoff
from redraft.app.subscribing.feed import StoreFeed
from redraft.events.backends import open_store, open_subscriptions
from redraft.events.encryption.cipher import new_master_key, read_master_key
from redraft.events.encryption.keyring import Encryption
from redraft.events.errors import IncompatibleStore, InputError
from redraft.events.messages.envelope import Recorded
from redraft.events.subscriptions.subscriptions import ParkedEvent, Subscriptions


class Panic(BaseException):
    """As bindings of libraries in Rust raise: it is no Exception."""


async def tried_again(names: Subscriptions, name: str) -> ParkedEvent:
    """The one event that is parked, once what was asked for it has been done."""
    async with asyncio.timeout(DEADLINE):
        while True:
            (parked,) = await names.parked(name)
            if not parked.retry:
                return parked
            await asyncio.sleep(0.01)


async def test_a_name_goes_on_where_it_was(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 30)
    async with there.open() as client:
        assert [each.position for each in await taken(client, 10, name="index")] == list(range(1, 11))
        found = await names.get("index")
        assert (found.position, found.parked, found.failing) == (9, 0, None), "the tenth was not done with"
        assert [each.position for each in await taken(client, 21, name="index")] == list(range(10, 31))
        assert (await names.get("index")).position == 29
    async with there.open() as client:
        waiting = asyncio.create_task(taken(client, 3, 25, name="index"))
        await write_run(there.store, "b", 2)
        assert [each.position for each in await waiting] == [30, 31, 32]


async def test_a_new_name_begins_where_it_is_told_to(there: World) -> None:
    await write_run(there.store, "a", 10)
    async with there.open() as client:
        assert [each.position for each in await taken(client, 3, 7, name="late")] == [8, 9, 10]


async def test_what_is_not_wanted_is_passed_over_for_good(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 30)
    await append_to(there.store, "b", 0, new_events("b", [beginning("book")]))
    handler = Handler()
    async with there.open() as client, delivering(client, "books", handler, workflow="book"):
        await until(names, "books", lambda found: found.position == 31)
        assert handler.taken == [31]
        await write_run(there.store, "c", 5)
        assert (await until(names, "books", lambda found: found.position == 36)).wants == '{"workflows":["book"]}'
    assert handler.taken == [31]


async def test_events_are_handled_in_order_each_once(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 120)
    handler = Handler()
    async with there.open() as client, delivering(client, "index", handler):
        await asyncio.gather(*(write_run(there.store, f"r{number}", 50) for number in range(4)))
        await handler.until(lambda: len(handler.taken) == 320)
        await until(names, "index", lambda found: found.position == 320)
    assert handler.taken == list(range(1, 321))


async def test_a_plain_function_is_called_in_a_thread(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 5)
    calls: list[tuple[int, bool]] = []

    def handle(event: Recorded) -> None:
        calls.append((event.position, threading.current_thread() is threading.main_thread()))

    async with there.open() as client:
        task = asyncio.create_task(client.deliver("index", handle))
        await until(names, "index", lambda found: found.position == 5)
        task.cancel()
        await asyncio.wait({task})
    assert calls == [(number, False) for number in range(1, 6)]


async def test_a_handler_that_fails_is_tried_again_with_the_same_event(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 5)
    handler = Handler(
        lambda event: ValueError("not now") if handler.tried.count(3) < 3 and event.position == 3 else None
    )
    async with there.open() as client, delivering(client, "index", handler):
        await handler.until(lambda: len(handler.taken) == 5)
        found = await until(names, "index", lambda found: found.position == 5)
    assert handler.tried == [1, 2, 3, 3, 3, 4, 5]
    assert handler.taken == [1, 2, 3, 4, 5]
    assert (found.failing, found.parked) == (None, 0)


async def test_what_fails_too_often_is_parked_and_the_others_go_on(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 8)
    faults = {2: ValueError("a \0 strange\nname"), 6: DeliveryError("never", permanent=True)}
    handler = Handler(lambda event: faults.get(event.position))
    async with there.open() as client, delivering(client, "index", handler):
        await until(names, "index", lambda found: found.position == 8)
        assert handler.tried == [1, 2, 2, 2, 3, 4, 5, 6, 7, 8]
        first, second = await names.parked("index")
        log = await there.log()
        assert (first.id, first.run, first.version, first.event) == (log[1].id, "a", 2, log[1].name)
        assert (first.attempts, first.error, first.retry) == (3, "ValueError: a strange name", False)
        assert (second.position, second.attempts, second.error) == (6, 1, "never")
        assert (await names.get("index")).parked == 2


async def test_of_an_encrypted_event_nothing_is_kept_that_its_handler_said(tmp_path: Path) -> None:
    key, url = new_master_key(), f"sqlite:///{tmp_path / 'log.db'}"
    encryption = Encryption(read_master_key(key, "here"))
    fault = Handler(lambda event: ValueError(f"cannot index {event.data.brief.text}"))  # type: ignore[union-attr]
    async with open_store(url, encryption=encryption) as store, open_subscriptions(url) as names:
        await append_to(store, "a", 0, new_events("a", [beginning("book")]))
        reader = open_readonly(Settings(store=url, encrypt_key=key))
        async with reader as runtime, delivering(runtime.client, "index", fault):
            await until(names, "index", lambda found: found.parked == 1)
        (parked,) = await names.parked("index")
    assert fault.tried == [1, 1, 1]
    assert parked.error == "ValueError: what it says is left out, as the run is encrypted"
    text = beginning("book").brief.text.encode()
    assert not any(text in file.read_bytes() for file in tmp_path.iterdir())


async def test_a_parked_event_is_tried_again_when_it_is_asked_for(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 3)
    broken = {2}
    handler = Handler(lambda event: KeyError("the index is gone") if event.position in broken else None)
    async with there.open() as client, delivering(client, "index", handler):
        await until(names, "index", lambda found: found.position == 3)
        (parked,) = await names.parked("index")
        assert await names.retry(parked)
        await handler.until(lambda: handler.tried.count(2) == 4)
        again = await tried_again(names, "index")
        assert again.attempts == 4
        broken.clear()
        assert await names.retry(again)
        await until(names, "index", lambda found: found.parked == 0)
    assert handler.taken == [1, 3, 2]
    assert not await names.retry(again)
    assert not await names.discard(again)


async def test_a_parked_event_can_be_discarded(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 3)
    handler = Handler(lambda event: ValueError("no") if event.position == 2 else None)
    async with there.open() as client, delivering(client, "index", handler):
        await until(names, "index", lambda found: found.position == 3)
        (parked,) = await names.parked("index")
        assert await names.discard(parked)
        assert await names.parked("index") == []
    assert len(await there.log()) == 3, "the log keeps it"


async def test_the_failures_are_counted_over_the_end_of_a_process(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 3)
    handler = Handler(lambda event: ValueError("no") if event.position == 2 else None)
    slow = Retry(attempts=3, initial=600.0, maximum=600.0)
    async with there.open() as client:
        for failures in (1, 2):
            async with delivering(client, "index", handler, retry=slow):
                found = await until(
                    names, "index", lambda found, n=failures: bool(found.failing and found.failing.attempts == n)
                )
                assert found.position == 1
                assert found.failing
                assert (found.failing.position, found.failing.error) == (2, "ValueError: no")
        async with delivering(client, "index", handler, retry=slow):
            assert (await until(names, "index", lambda found: found.position == 3)).parked == 1
    assert handler.tried == [1, 2, 2, 2, 3]


async def test_a_handler_that_takes_too_long_has_failed(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 2)

    async def hang(event: Recorded) -> None:
        if event.position == 1:
            await asyncio.Event().wait()

    async with there.open() as client:
        task = asyncio.create_task(client.deliver("index", hang, retry=Retry(1), timeout=0.01))
        assert (await until(names, "index", lambda found: found.position == 2)).parked == 1
        task.cancel()
        await asyncio.wait({task})
    assert (await names.parked("index"))[0].error == "it took longer than 0.01 s"


async def test_a_handler_that_waits_for_what_is_cancelled_has_failed(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 2)

    async def stumble(event: Recorded) -> None:
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        gone.cancel()
        await gone

    async with there.open() as client:
        task = asyncio.create_task(client.deliver("index", stumble, retry=Retry(2, 0.001)))
        assert (await until(names, "index", lambda found: found.position == 2)).parked == 2
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
    assert (await names.parked("index"))[0].error.startswith("CancelledError: ")


@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit])
async def test_a_handler_that_makes_an_error_of_its_cancellation_is_not_called_again(
    there: World, names: Subscriptions, error: type[BaseException]
) -> None:
    await write_run(there.store, "a", 2)
    calls: list[int] = []
    called = asyncio.Event()

    async def turn(event: Recorded) -> None:
        calls.append(event.position)
        called.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise error("boom") from None

    async with there.open() as client:
        task = asyncio.create_task(client.deliver("index", turn, retry=Retry(3, 0.001)))
        async with asyncio.timeout(DEADLINE):
            await called.wait()
            task.cancel()
            await asyncio.wait({task})
    assert task.cancelled()
    assert calls == [1]
    assert not await names.parked("index")


async def test_a_handler_that_changes_the_folder_gets_each_event_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    calls: list[int] = []

    def leave(event: Recorded) -> None:
        calls.append(event.position)
        os.chdir(tmp_path / "elsewhere")

    async with store_world("sqlite:///runs.db") as there, there.open() as client:
        await write_run(there.store, "a", 3)
        async with open_subscriptions(f"sqlite:///{tmp_path / 'runs.db'}") as names:
            for name in ("index", "another"):
                task = asyncio.create_task(client.deliver(name, leave))
                await until(names, name, lambda found: found.position == 3)
                task.cancel()
                await asyncio.wait({task})
    assert calls == [1, 2, 3, 1, 2, 3]
    assert not [*(tmp_path / "elsewhere").iterdir()]


@pytest.mark.parametrize("error", [Panic, SystemExit, GeneratorExit])
async def test_a_handler_that_raises_what_would_end_the_process_has_failed(
    there: World, names: Subscriptions, error: type[BaseException]
) -> None:
    await write_run(there.store, "a", 2)

    async def panic(event: Recorded) -> None:
        raise error("boom")

    async with there.open() as client:
        task = asyncio.create_task(client.deliver("index", panic, retry=Retry(1)))
        assert (await until(names, "index", lambda found: found.position == 2)).parked == 2
        task.cancel()
        await asyncio.wait({task})
    assert "boom" in (await names.parked("index"))[0].error


async def test_a_thread_that_cannot_be_ended_is_waited_for(there: World, names: Subscriptions) -> None:
    """Whoever puts the name elsewhere meanwhile: there is one call at a time."""
    await write_run(there.store, "a", 3)
    began, may_end = threading.Event(), threading.Event()
    under_way, calls = 0, list[tuple[int, int]]()

    def handle(event: Recorded) -> None:
        nonlocal under_way
        under_way += 1
        calls.append((event.position, under_way))
        began.set()
        assert may_end.wait(DEADLINE)
        under_way -= 1

    async with there.open() as client:
        task = asyncio.create_task(client.deliver("index", handle))
        assert await asyncio.to_thread(began.wait, DEADLINE)
        epoch = (await names.put("index", 1)).epoch
        async with asyncio.timeout(DEADLINE):
            while not any(each.cancelling() for each in asyncio.all_tasks()):  # noqa: ASYNC110 - it is told to end
                await asyncio.sleep(0.01)
        assert (len(calls), task.done()) == (1, False)
        may_end.set()
        await until(names, "index", lambda found: found.position == 3 and found.epoch > epoch)
        task.cancel()
        await asyncio.wait({task})
    assert calls == [(1, 1), (2, 1), (3, 1)]


async def test_a_thread_that_takes_too_long_has_failed_and_the_others_go_on(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 2)
    may_end, tried = threading.Event(), list[int]()

    def hang(event: Recorded) -> None:
        tried.append(event.position)
        assert event.position > 1 or may_end.wait(DEADLINE)

    async with there.open() as client:
        task = asyncio.create_task(client.deliver("index", hang, retry=Retry(2, 0.001), timeout=0.5))
        try:
            await until(names, "index", lambda found: found.position == 2)
        finally:
            task.cancel()
            await asyncio.wait({task})
            may_end.set()
    assert tried[:3] == [1, 1, 2]
    parked = (await names.parked("index"))[0]
    assert (parked.position, parked.attempts, parked.error) == (1, 2, "it took longer than 0.5 s")


async def test_no_event_is_parked_because_earlier_calls_still_run(
    there: World, names: Subscriptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_run(there.store, "a", 4)
    may_end, tried = threading.Event(), list[int]()

    def hang(event: Recorded) -> None:
        tried.append(event.position)
        assert event.position > 2 or may_end.wait(DEADLINE)

    told = list[str]()

    def keep(_: object, __: str, line: MutableMapping[str, Any]) -> NoReturn:
        told.append(line["event"])
        raise structlog.DropEvent

    log = structlog.wrap_logger(None, processors=[keep])
    monkeypatch.setattr("redraft.app.subscribing.delivery.MOST_HUNG", 2)
    async with there.open() as client:
        task = asyncio.create_task(client.deliver("index", hang, retry=Retry(1), timeout=0.5, log=log))
        try:
            async with asyncio.timeout(DEADLINE):
                while "waits for earlier calls" not in told:  # noqa: ASYNC110 - a log tells nobody
                    await asyncio.sleep(0.01)
            assert tried == [1, 2]
            may_end.set()
            await until(names, "index", lambda found: found.position == 4)
        finally:
            may_end.set()
            task.cancel()
            await asyncio.wait({task})
    assert [each.position for each in await names.parked("index")][:2] == [1, 2]
    assert tried == [1, 2, 3, 4]


async def test_what_is_asked_again_is_not_called_beside_too_many_that_still_run(
    there: World, names: Subscriptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for its turn behind the call that makes them too many."""
    await write_run(there.store, "a", 2)
    may_end, second = threading.Event(), threading.Event()

    def hang(event: Recorded) -> None:
        if event.position == 2:
            second.set()
        assert may_end.wait(DEADLINE)

    for module in ("redraft.app.subscribing.delivery", "redraft.actors.runtime.working.threads"):
        monkeypatch.setattr(f"{module}.MOST_HUNG", 2)
    async with there.open() as client:
        task = asyncio.create_task(client.deliver("index", hang, retry=Retry(1), timeout=1.5))
        try:
            assert await asyncio.to_thread(second.wait, DEADLINE)
            assert await names.retry((await names.parked("index"))[0])
            await until(names, "index", lambda found: found.position == 2)
            may_end.set()
            await until(names, "index", lambda found: found.parked == 1)
        finally:
            may_end.set()
            task.cancel()
            await asyncio.wait({task})
    assert [(each.position, each.error) for each in await names.parked("index")] == [(2, "it took longer than 1.5 s")]


async def test_one_serves_a_name_and_another_stands_by(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 20)
    first, second = Handler(), Handler()
    async with there.open() as client, there.open() as other, delivering(client, "index", first) as serving:
        await first.until(lambda: len(first.taken) == 20)
        async with delivering(other, "index", second):
            await write_run(there.store, "b", 20)
            await first.until(lambda: len(first.taken) == 40)
            assert second.tried == []
            await until(names, "index", lambda found: found.position == 40)
            serving.cancel()
            await asyncio.wait({serving})
            await write_run(there.store, "c", 20)
            await second.until(lambda: len(second.taken) == 20)
    assert first.taken + second.taken == list(range(1, 61))


async def test_other_names_are_served_beside_it(there: World) -> None:
    await write_run(there.store, "a", 20)
    first, second = Handler(), Handler()
    async with there.open() as client, delivering(client, "one", first), delivering(client, "two", second):
        await first.until(lambda: len(first.taken) == 20)
        await second.until(lambda: len(second.taken) == 20)


async def test_whoever_serves_a_name_goes_where_it_is_put(there: World, names: Subscriptions) -> None:
    """Back to the beginning, and forwards past what never succeeds."""
    await write_run(there.store, "a", 5)
    handler = Handler(lambda event: ValueError("no") if event.position == 3 and len(handler.tried) > 5 else None)
    slow = Retry(attempts=3, initial=600.0, maximum=600.0)
    async with there.open() as client, delivering(client, "index", handler, retry=slow):
        await until(names, "index", lambda found: found.position == 5)
        await names.put("index", 0)
        await until(names, "index", lambda found: found.failing is not None)
        assert handler.tried == [1, 2, 3, 4, 5, 1, 2, 3]
        await names.put("index", 3)
        await until(names, "index", lambda found: found.position == 5)
        assert handler.tried == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]
        assert (await names.get("index")).failing is None


async def test_a_drain_while_a_name_is_taken_up_again_is_not_lost(
    there: World, names: Subscriptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_run(there.store, "a", 3)
    feed, handled = StoreFeed(there.store), list[int]()
    taking_up, answers, require = asyncio.Event(), asyncio.Event(), feed.require

    async def require_slowly(position: int, name: str) -> None:
        if position:
            taking_up.set()
            await answers.wait()
        await require(position, name)

    async def handle(event: Recorded) -> None:
        handled.append(event.position)

    monkeypatch.setattr(feed, "require", require_slowly)
    server = SubscriptionServer(feed, names, "index", handle, structlog.get_logger())
    serving = asyncio.create_task(server.run())
    try:
        await until(names, "index", lambda found: found.position == 3)
        await names.put("index", 1)
        await taking_up.wait()
        await server.drain()
        answers.set()
        await asyncio.wait_for(asyncio.shield(serving), DEADLINE / 2)
    finally:
        serving.cancel()
        await asyncio.wait({serving})
    assert handled == [1, 2, 3]


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "x" * 101, "naïve", "a/b"])
async def test_a_name_that_cannot_be_is_refused(there: World, name: str) -> None:
    async with there.open() as client:
        if name:
            with pytest.raises(InputError, match="cannot be the name of a subscription"):
                client.subscribe(name=name)
        with pytest.raises(InputError, match="cannot be the name of a subscription"):
            await client.deliver(name, Handler())


async def test_a_name_waits_for_what_comes(there: World) -> None:
    async with there.open() as client:
        with pytest.raises(InputError, match="leave out follow=False"):
            client.subscribe(name="index", follow=False)


@pytest.mark.parametrize(
    ("retry", "timeout"),
    [(Retry(0), 60.0), (Retry(initial=-1.0), 60.0), (Retry(factor=0.5), 60.0), (Retry(), math.nan)],
)
async def test_a_policy_that_cannot_be_is_refused(there: World, retry: Retry, timeout: float) -> None:
    async with there.open() as client:
        with pytest.raises(InputError, match="give at least 1 attempt"):
            await client.deliver("index", Handler(), retry=retry, timeout=timeout)


def test_the_waits_grow_and_are_bounded() -> None:
    policy = Retry(attempts=9, initial=1.0, maximum=10.0)
    assert [backoff(policy, failures) for failures in range(1, 7)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert backoff(policy, 10_000) == 10.0
    assert [backoff(policy, 1, asked) for asked in (0.5, 7.0, 1e9)] == [1.0, 7.0, 3600.0]


async def test_a_position_beyond_the_log_is_told(there: World, names: Subscriptions) -> None:
    """As when another log lies where the old one was: nothing would come for a long time."""
    await write_run(there.store, "a", 5)
    await names.take("index", "{}", "me", 7)
    async with there.open() as client:
        with pytest.raises(
            IncompatibleStore, match=r"is at 7, but the log of .* ends at 5: .* subscriptions reset index"
        ):
            await client.deliver("index", Handler())
        with pytest.raises(IncompatibleStore, match="is at 7"):
            await taken(client, 1, name="index")
        await names.put("index", 4)
        assert [each.position for each in await taken(client, 1, name="index")] == [5]


async def test_the_positions_lie_outside_of_the_log(there: World, names: Subscriptions) -> None:
    await write_run(there.store, "a", 3)
    async with there.open() as client:
        await taken(client, 3, name="index")
    assert [each.name for each in await names.all()] == ["index"]
    assert len(await there.log()) == 3
    assert await there.store.verify("a") == 3
