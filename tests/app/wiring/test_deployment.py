"""The parts of a deployment that need no server: settings, logs, health, what a worker serves, dead letters."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from tests.app.cli_calls import call, one_line
from tests.dead_letters import dead_letters_on

from redraft.actors.runtime.admission import Authority
from redraft.actors.runtime.coordinating.command_handler import CommandHandler
from redraft.actors.runtime.coordinating.coordinator import Coordinator
from redraft.actors.runtime.relaying.relay import Relay
from redraft.actors.runtime.working.worker import Worker
from redraft.actors.values import ignore
from redraft.app.cli.serving.supervisor import processes_for
from redraft.app.client.client import Client
from redraft.app.process.health import alive_beside, health_file
from redraft.app.process.library_logs import quiet
from redraft.app.process.lifecycle import opened, retry_forever, together
from redraft.app.process.logs import libraries, new_log, redacted
from redraft.app.settings.settings import read_settings
from redraft.app.subscribing.feed import StoreFeed
from redraft.app.subscribing.subscriber import Subscriber
from redraft.app.wiring.dead_letter_replies import DeadLetterReplies
from redraft.app.workflows.actor_registry import actors_for
from redraft.app.workflows.publish_targets import ActorEnvironment
from redraft.app.workflows.sources import read_source
from redraft.events.backends import open_store
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import INBOX, BusMessage, work_queue
from redraft.events.errors import BusError, IncompatibleStore, InputError, StoreError
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import CritiqueDraft, Request
from redraft.events.messages.content import Brief, new_draft
from redraft.events.messages.domain_events import RunEnded, StepFailed, StepRequested
from redraft.events.messages.envelope import Origin
from redraft.events.store.event_store import NewEvent

SECRET = "hunter2"  # noqa: S105
ACTORS = """
from redraft.actors import Critique, Workflow, critic, generator, score

@generator
def write(brief):
    return brief.text

@critic
def judge(draft):
    return Critique(1.0)

@critic(name="second-look")
def again(draft):
    return Critique(1.0)

plain = Workflow("plain").start_with(write).repeat_until(score >= 1, max_iterations=1, body=[judge])
"""


@pytest.fixture
def actors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "plain.py"
    file.write_text(ACTORS)
    return file


def environment() -> ActorEnvironment:
    return ActorEnvironment(io.StringIO(), Path.cwd())


def quiet_log():
    return new_log(io.StringIO(), "json", "test")


@pytest.mark.parametrize("url", ["local:", "amqp://u:p@host/", "amqps://u:p@host:5671/v?cafile=ca.pem"])
def test_settings_take_every_bus(url: str) -> None:
    assert read_settings(bus=url).bus == url


def test_a_draft_that_rabbitmq_would_not_carry_is_refused_where_it_is_the_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRAFT_MAX_DRAFT_BYTES", str(5 * 1024**2))
    assert read_settings(bus="local:").max_draft_bytes == 5 * 1024**2
    with pytest.raises(InputError, match=r"'max_draft_bytes' is 5,242,880: through RabbitMQ .* at most 4,194,304"):
        read_settings(bus="amqp://host/")
    monkeypatch.setenv("REDRAFT_MAX_DRAFT_BYTES", str(4 * 1024**2))
    assert read_settings(bus="amqp://host/").max_draft_bytes == 4 * 1024**2


def test_a_kind_of_queues_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings().queue_type == "quorum"
    monkeypatch.setenv("REDRAFT_QUEUE_TYPE", "lazy")
    with pytest.raises(InputError, match=r"'queue_type' \(REDRAFT_QUEUE_TYPE or redraft.toml\): .*'classic'"):
        read_settings()


@pytest.mark.parametrize("url", [f"http://me:{SECRET}@host", f"rabbit:{SECRET}", ""])
def test_settings_refuse_another_bus_without_repeating_it(url: str) -> None:
    with pytest.raises(InputError, match="amqp://") as refused:
        read_settings(bus=url)
    assert SECRET not in str(refused.value)


def test_settings_show_no_password() -> None:
    assert SECRET not in repr(read_settings(bus=f"amqp://me:{SECRET}@host/", store=f"postgresql://me:{SECRET}@host/d"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"amqp://me:{SECRET}@host/v", "amqp://me:***@host/v"),
        (f"at postgresql://me:{SECRET}@x@host/d now", "at postgresql://me:***@host/d now"),
        (f"postgresql:///d?password={SECRET}&user=me", "postgresql:///d?password=***&user=me"),
        ("sqlite:////tmp/a@b.db", "sqlite:////tmp/a@b.db"),
    ],
)
def test_passwords_are_redacted(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_a_log_is_json_that_names_its_process_and_holds_no_password() -> None:
    stream = io.StringIO()
    log = new_log(stream, "auto", "judge")
    with libraries(log):
        log.warning("not reached", error=f"amqp://me:{SECRET}@host/ is away\nreally")
        logging.getLogger("aio_pika").warning("cannot reach %s", f"amqp://me:{SECRET}@host/")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["process"], first["event"], first["level"]) == ("judge", "not reached", "warning")
    assert first["error"] == "amqp://me:***@host/ is away really"
    assert second["event"] == "cannot reach amqp://me:***@host/"


def test_what_a_library_says_again_and_again_is_heard_once_and_outside_of_a_log_not_at_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stream = io.StringIO()
    aiormq, other = logging.getLogger("aiormq.connection"), logging.getLogger("somebody.else")
    with quiet():
        aiormq.error("cannot connect at all")
        with libraries(new_log(stream, "json", "worker")):
            for number in range(5):
                aiormq.error("cannot connect, try %d", number)
                other.warning("something else")
            aiormq.warning("blocked")
        other.error("told as ever")
    said = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert said == ["cannot connect, try 0", "something else", "blocked"]
    assert "cannot connect at all" not in caplog.messages
    assert caplog.messages[-1] == "told as ever"


def test_a_log_in_text_has_its_prefix_and_goes_on_when_nobody_reads() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    stream = io.StringIO()
    new_log(stream, "text", "up", "up | ").info("starting", processes=2)
    assert stream.getvalue().startswith("up | ")
    assert "starting" in stream.getvalue()
    new_log(Closed(), "text", "up").info("starting")


def test_targets_name_actors_by_file_name_function_and_role(actors: Path) -> None:
    def names(*targets: str, role=None) -> list[str]:
        return [actor.name for actor in actors_for(targets, role, environment())]

    assert names("plain.py") == ["write", "judge", "second-look"]
    assert names("plain.py:judge") == ["judge"]
    assert names("plain.py:again") == names("plain.py:second-look") == ["second-look"]
    assert names("plain.py", role="critic") == ["judge", "second-look"]
    assert names("ruff", "prose") == ["ruff", "prose"]
    assert [each.role for each in actors_for(["command"], None, environment())] == ["generator", "critic", "refiner"]


@pytest.mark.parametrize(
    ("target", "role", "told"),
    [
        ("plain.py:jugde", None, "did you mean 'judge'"),
        ("pros", None, "did you mean 'prose'"),
        ("plain.py", "publisher", "no publisher is among the generator write"),
        ("missing.py", None, "no such file"),
    ],
)
def test_a_target_that_names_nothing_is_one_line(actors: Path, target: str, role, told: str) -> None:
    with pytest.raises(InputError, match=told):
        actors_for([target], role, environment())


def test_a_worker_that_publishes_to_files_writes_below_its_own_folder_only(actors: Path) -> None:
    [save] = actors_for(["file"], None, environment())
    from redraft.actors.workflow.context import Context
    from redraft.events.errors import PermanentError
    from redraft.events.messages.content import Brief, new_draft

    context = Context("r", "save", 1, 10.0, "id", {"folder": "/", "path": "x"})
    with pytest.raises(PermanentError, match="folder"):
        save.function(draft=new_draft(1, "text"), brief=Brief("text"), context=context)


def test_the_crew_of_code_has_who_mends_and_tests_when_a_run_asks_for_it() -> None:
    names = [child.name for child in processes_for(["code"], "", (), 1)][1:]
    assert {"critic.pytest", "refiner.llm", "refiner.ruff-fix"} <= set(names)


def test_the_crew_of_a_workflow(actors: Path) -> None:
    crew = processes_for(["plain.py:plain"], "", ["judge=2"], 60)
    assert [child.name for child in crew] == ["coordinator", "generator.write", "critic.judge-1", "critic.judge-2"]
    assert crew[2].command[3:7] == ("worker", "plain.py:judge", "--role", "critic")
    assert [child.name for child in processes_for(["prose"], "", (), 1)][1:] == [
        "generator.source",
        "critic.structure",
        "critic.prose",
        "refiner.prose-fix",
        "publisher.stdout",
    ]
    for scale in ("judge=0", "jugde=2", "judge"):
        with pytest.raises(InputError, match="--scale"):
            processes_for(["plain.py"], "", [scale], 60)


@pytest.mark.parametrize(
    "arguments",
    [("up", "plain.py"), ("worker", "plain.py"), ("coordinator",), ("submit", "prose", "x"), ("dead-letters", "list")],
)
def test_without_a_broker_each_verb_says_what_to_name(actors: Path, arguments: tuple[str, ...], monkeypatch) -> None:
    monkeypatch.setenv("REDRAFT_BUS", "local:")
    said = call(*arguments)
    assert said.code == 2
    assert "REDRAFT_BUS=amqp://user:password@host:5672/" in one_line(said)
    if arguments[0] == "up":
        assert "`up` needs a broker" in said.err


@pytest.mark.parametrize("arguments", [("up", "plain.py"), ("coordinator",), ("submit", "prose", "x", "--wait")])
def test_a_store_inside_one_process_serves_no_deployment(
    actors: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDRAFT_BUS", "amqp://nobody@127.0.0.1:1/")
    said = call(*arguments, "--store", "memory:")
    assert said.code == 2
    assert "memory: is inside one process; name a store that all processes reach" in one_line(said)


def test_an_empty_key_is_refused_where_a_run_is_submitted(actors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRAFT_BUS", "amqp://nobody@127.0.0.1:1/")
    said = call("submit", "prose", "x", "--key", " ")
    assert said.code == 2
    assert "--key is empty" in one_line(said)


async def until_parked(bus: LocalBus, number: int) -> None:
    while len(await dead_letters_on(bus)) < number:  # noqa: ASYNC110 - the bus tells nobody
        await asyncio.sleep(0)


async def test_a_request_that_was_dead_lettered_is_a_failed_step_and_the_run_goes_on(actors: Path) -> None:
    """On the in-process bus: the first request to the critic is replaced by one that nobody can read."""
    source = read_source("plain.py:plain")
    ids = (f"id{number}" for number in count(1))
    queue = work_queue("critic", "judge")
    async with open_store("memory:") as store, LocalBus() as bus:
        relay = Relay(store, bus, lambda run: True)

        async def again(run: str, path: str, sent: int) -> None:
            await relay.resend(run, path, sent=sent, confirmed=True)

        named = {"new_run_id": lambda: "run", "new_message_id": lambda: next(ids)}
        client = Client(store, bus, Subscriber(StoreFeed(store)), 1000, **named)
        coordinator = Coordinator(CommandHandler(store, lambda: datetime.now(UTC), again), bus)
        writer = Worker(source.actors[:1], bus, lambda: next(ids))
        async with together([coordinator.run(), relay.run(0), writer.run()]), asyncio.timeout(30):
            await client.submit(source.plan, "a text")
            async with bus.consume(queue, 1) as reader:
                [delivery] = await reader.take(1)
                await reader.ack([delivery])
            sent = delivery.bus_message
            await bus.publish(queue, [BusMessage(sent.name, b"torn", sent.origin, sent.run)])
            stranger = BusMessage(sent.name, b"torn", sent.origin.__class__("nobody", "stranger"), sent.run)
            await bus.publish(queue, [stranger, BusMessage("", b"", stranger.origin, "no such run")])
            async with together([Worker(source.actors[1:2], bus, lambda: next(ids)).run()]):
                await until_parked(bus, 3)
            lost = DeadLetterReplies(store, bus, lambda: next(ids), ignore)
            assert await lost.look() == 1
            assert await lost.look() == 0, "each is told once"
            async for batch in store.tail(0):
                failed = [event.data for event in batch if isinstance(event.data, StepFailed)]
                if failed:
                    break
        assert [(each.path.rpartition("/")[2], each.attempt, each.kind) for each in failed] == [("judge", 1, "lost")]
        assert "cannot be read" in failed[0].message
        assert failed[0].retry_at is not None


async def test_an_answer_that_was_dead_lettered_is_a_failed_step_too(actors: Path) -> None:
    source = read_source("plain.py:plain")
    ids = (f"id{number}" for number in count(1))
    async with open_store("memory:") as store, LocalBus() as bus:
        relay = Relay(store, bus, lambda run: True)

        async def again(run: str, path: str, sent: int) -> None:
            raise AssertionError

        named = {"new_run_id": lambda: "run", "new_message_id": lambda: next(ids)}
        client = Client(store, bus, Subscriber(StoreFeed(store)), 1000, **named)
        coordinator = Coordinator(CommandHandler(store, lambda: datetime.now(UTC), again), bus)
        async with together([coordinator.run(), relay.run(0)]), asyncio.timeout(30):
            await client.submit(source.plan, "a text")
            async with bus.consume(work_queue("generator", "write"), 1) as reader:
                [delivery] = await reader.take(1)
                await reader.ack([delivery])
            came = delivery.bus_message.origin
            torn = came.__class__("answer", "generator write", came.id)
            await bus.publish(INBOX, [BusMessage("outcome.generated.v1", b"torn", torn, "run")])
            await until_parked(bus, 1)
            given = store, bus, lambda: next(ids), ignore
            assert await DeadLetterReplies(*given, Authority("me", {"somebody": ["generator"]})).look() == 0, (
                "of who may not"
            )
            assert await DeadLetterReplies(*given).look() == 1
            async for batch in store.tail(0):
                if any(isinstance(event.data, StepFailed | RunEnded) for event in batch):
                    break
        assert [event.data.path for event in batch if isinstance(event.data, StepFailed)] == ["write"]


async def test_of_a_fork_that_asks_another_actor_who_serves_that_one_may_say_that_its_request_is_lost() -> None:
    async with open_store("memory:") as store, LocalBus() as bus:
        asked = [StepRequested("judge", "critic", actor, 1, datetime.now(UTC)) for actor in ("before", "now")]
        events = [NewEvent(Origin(event.actor, "coordinator"), datetime.now(UTC), event) for event in asked]
        await store.append("run", 0, events)
        request = Request("run/judge#1", "run", "judge", "now", 1, 9.0, Brief("b"))
        name, body = encode_message(CritiqueDraft(request, new_draft(1, "a text")))
        queue = work_queue("critic", "now")
        await bus.publish(queue, [BusMessage(name, body, Origin("now", "coordinator"), "run")])
        async with bus.consume(queue, 1) as reader:
            [delivery] = await reader.take(1)
            await reader.reject(delivery, requeue=False)
        for actor, told in (("before", 0), ("now", 1)):  # messages in memory name no user
            authority = Authority("me", {"": [f"critic.{actor}"]})
            assert await DeadLetterReplies(store, bus, lambda: "id", ignore, authority).look() == told


async def test_the_health_file_is_touched_only_while_the_ping_succeeds(tmp_path: Path) -> None:
    file = tmp_path / "healthy"
    pings: list[bool] = []

    async def ping() -> None:
        pings.append(True)
        if len(pings) > 2:
            raise BusError("away")

    stream = io.StringIO()
    async with asyncio.timeout(30), health_file(file, ping, new_log(stream, "json", "test"), every=0):
        while len(pings) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0)
        touched, lived = file.stat().st_mtime_ns, alive_beside(file).stat().st_mtime_ns
        while len(pings) < 20 or alive_beside(file).stat().st_mtime_ns == lived:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert file.stat().st_mtime_ns == touched
    assert not file.exists()
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["not healthy"]


async def test_the_health_file_is_touched_only_while_nothing_is_late(tmp_path: Path) -> None:
    file = tmp_path / "healthy"
    waits = iter([0.0, 14.0, 16.0, 16.0, 2.0])
    asked: list[float] = []

    def wait() -> float:
        asked.append(next(waits, 2.0))
        return asked[-1]

    async def ping() -> None:
        pass

    stream = io.StringIO()
    told = {"a reply has been due": wait}
    async with asyncio.timeout(30), health_file(file, ping, new_log(stream, "json", "test"), told, every=0):
        while "not healthy" not in stream.getvalue():  # noqa: ASYNC110
            await asyncio.sleep(0)
        touched = file.stat().st_mtime_ns
        while "healthy again" not in stream.getvalue():
            assert len(asked) > 4 or file.stat().st_mtime_ns == touched
            await asyncio.sleep(0)
        assert file.stat().st_mtime_ns > touched
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["event"], line.get("error")) for line in lines] == [
        ("not healthy", "a reply has been due for 16 s"),
        ("healthy again", None),
    ]


@pytest.mark.parametrize("verb", ["worker plain.py", "coordinator"])
def test_what_a_process_that_was_killed_has_left_is_taken_away_before_anything_slow_begins(
    actors: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = actors.with_name("healthy")
    for each in (file, alive_beside(file)):
        each.touch()
    actors.write_text(f"import os\nassert os.listdir({str(actors.parent)!r}) == ['plain.py']\n{ACTORS}")
    monkeypatch.setenv("REDRAFT_BUS", "amqp://127.0.0.1:1/")
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{actors.with_name('store.db')}")
    assert call(*verb.split(), "--health-file", str(file), "--patience", "0").code == 5, "there is no broker"
    assert not file.exists()
    assert not alive_beside(file).exists()


async def test_a_health_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    async def ping() -> None:
        pass

    with pytest.raises(InputError, match="--health-file"):
        async with health_file(tmp_path / "no" / "file", ping, quiet_log()):
            pass


@pytest.mark.parametrize("turns", range(8))
async def test_a_part_that_fails_while_it_is_cancelled_is_not_begun_again(turns: int) -> None:
    began, fails = asyncio.Event(), asyncio.Event()

    async def part() -> None:
        began.set()
        await fails.wait()
        raise StoreError("away")

    kept_up = asyncio.create_task(retry_forever("part", part, quiet_log()))
    async with asyncio.timeout(30):
        await began.wait()
        fails.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        kept_up.cancel()
        await asyncio.wait({kept_up})
    assert kept_up.cancelled()


async def test_a_part_that_fails_as_it_is_ended_is_an_error_and_cancels_nobody() -> None:
    async def part() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise StoreError("away")

    with pytest.raises(StoreError, match="away"):
        async with together([part()]):
            await asyncio.sleep(0)
    assert (task := asyncio.current_task()) is not None
    assert task.cancelling() == 0


async def test_a_part_is_run_again_when_its_server_was_away_and_told_what_ends_it() -> None:
    scarce = OSError(24, "Too many open files")
    calls = iter([ExceptionGroup("", [ExceptionGroup("", [BusError("away")])]), BusError("away"), scarce, None])

    async def part() -> None:
        error = next(calls)
        if error is not None:
            raise error

    stream = io.StringIO()
    await retry_forever("part", part, new_log(stream, "json", "test"))
    told = [json.loads(line)["error"] for line in stream.getvalue().splitlines()]
    assert told == ["away", "away", "[Errno 24] Too many open files"]

    async def hopeless() -> None:
        raise IncompatibleStore("not ours")

    with pytest.raises(IncompatibleStore):
        await retry_forever("part", hopeless, quiet_log())


async def test_a_server_is_tried_for_as_long_as_the_patience() -> None:
    tries: list[int] = []

    class Away:
        async def __aenter__(self) -> None:
            tries.append(1)
            raise BusError("away")

        async def __aexit__(self, *exception: object) -> None:
            raise AssertionError

    with pytest.raises(BusError, match="away"):
        async with opened(Away, 0, quiet_log()):
            raise AssertionError
    assert len(tries) == 1
