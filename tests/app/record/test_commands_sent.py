"""What a worker saw: `show --step` gives the bytes that lay in its queue, of forks and of attempts too."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from redraft.actors import Critique, Retry, StepError, Workflow, critic, generator, refiner, score, step
from redraft.app.record.copying.with_texts import find_command
from redraft.app.settings.settings import Settings
from redraft.app.wiring.local import open_local
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import BusMessage
from redraft.events.errors import InputError
from redraft.events.messages.codec import decode_work, encode_message
from redraft.events.messages.commands import WORK_NAMES, Work


@generator
def write(brief):
    return brief.text


@critic
def judge(draft):
    return Critique(min(1.0, draft.text.count("!") / 2), suggestions=(f"louder than {draft.version}",))


@refiner
def improve(draft, context):
    if draft.version == 1 and context.attempt == 1:
        raise StepError("busy")
    return draft.text + "!"


LOUD = (
    Workflow("loud")
    .start_with(write)
    .repeat_until(
        score >= 1, max_iterations=5, name="Loop", body=[judge, step(improve, retry=Retry(attempts=2, initial=0.0))]
    )
)


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = f"sqlite:///{tmp_path / 'log.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return Settings(store=url)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Work]:
    """Every command that is put into a worker's queue from here on."""
    works: list[Work] = []
    publish, offer = LocalBus.publish, LocalBus.offer

    def note(letters: Sequence[BusMessage]) -> None:
        names = set(WORK_NAMES.values())
        works.extend(decode_work(each.name, each.body) for each in letters if each.name in names)

    async def seen(bus: LocalBus, queue: str, letters: Sequence[BusMessage]) -> None:
        note(letters)
        await publish(bus, queue, letters)

    def offered(bus: LocalBus, queue: str, letters: Sequence[BusMessage]) -> bool:
        taken = offer(bus, queue, letters)
        if taken:
            note(letters)
        return taken

    monkeypatch.setattr(LocalBus, "publish", seen)
    monkeypatch.setattr(LocalBus, "offer", offered)
    return works


async def test_it_is_the_command_that_the_worker_got_byte_for_byte(settings: Settings, sent: list[Work]):
    async with open_local(settings, LOUD.actors.values()) as runtime:
        run = await runtime.client.submit(LOUD, "Tides")
        await asyncio.wait_for(runtime.client.wait(run), 30)
        parent = list(sent)
        asked = [event.version for event in await runtime.store.read(run) if event.name == "step.requested.v1"]
        fork = await runtime.client.fork(run, asked[3])
        await asyncio.wait_for(runtime.client.wait(fork), 30)
        own = [work for work in sent if work.request.run == fork]
        for name, works in ((run, parent), (fork, own)):
            events = await runtime.store.read(name)
            for work in works:
                found = await find_command(events, work.request.path, work.request.attempt, runtime.client.history)
                assert (found.run, encode_message(found.command)) == (name, encode_message(work))
                assert found.name == WORK_NAMES[type(work)]
        events = await runtime.store.read(fork)
        before = await find_command(events, "Loop[1]/judge", None, runtime.client.history)
        assert before.run == run
        assert encode_message(before.command) == encode_message(
            next(w for w in parent if w.request.path == "Loop[1]/judge")
        )


async def test_each_attempt_has_its_own_and_the_last_is_shown_unless_another_is_named(settings: Settings):
    async with open_local(settings, LOUD.actors.values()) as runtime:
        run = await runtime.client.submit(LOUD, "Tides")
        await asyncio.wait_for(runtime.client.wait(run), 30)
        events = await runtime.store.read(run)
        last = await find_command(events, "Loop[1]/improve", None, runtime.client.history)
        first = await find_command(events, "Loop[1]/improve", 1, runtime.client.history)
        assert (first.command.request.attempt, last.command.request.attempt) == (1, 2)
        assert first.version < last.version
        for path, attempt, said in (
            ("Loop[1]/improv", None, r"has no step 'Loop\[1\]/improv' by then; did you mean Loop\[1\]/improve\?"),
            ("xyz", None, r"it has write, Loop\[1\]/judge, "),
            ("Loop[1]/improve", 3, "--attempt 3: .* in attempt 1, 2; give one of these"),
        ):
            with pytest.raises(InputError, match=said):
                await find_command(events, path, attempt, runtime.client.history)
