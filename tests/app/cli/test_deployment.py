"""`redraft coordinator`, `worker`, `submit` and `up` as real processes on a real broker."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import aio_pika
import psycopg
import pytest
from msgspec.structs import replace
from tests.app.deployments import DEADLINE, Deployment, deployment
from tests.events.rabbit_server import URL

from redraft.app.process.health import alive_beside
from redraft.app.settings.settings import read_settings
from redraft.app.wiring.deployment import open_client
from redraft.app.workflows.sources import read_source
from redraft.events.backends import open_lease
from redraft.events.errors import BusError
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    RunEnded,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.rabbit.bus import RabbitBus

WORKERS = ("loop.py:write", "loop.py:judge", "loop.py:improve", "loop.py:save")
STEPS = [
    "write#1",
    "Loop[1]/judge#1",
    "Loop[1]/improve#1",
    "Loop[2]/judge#1",
    "Loop[2]/improve#1",
    "Loop[3]/judge#1",
    "save#1",
]


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as made:
        yield made


@pytest.fixture(params=["quorum", pytest.param("classic", marks=pytest.mark.check)])
def on_either(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    """On queues of either kind."""
    with deployment(tmp_path, queues=request.param) as made:
        yield made


def begin(there: Deployment) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
    """The coordinator and a worker for the critic, beside one for all the others."""
    coordinator = there.start("coordinator", "coordinator")
    there.start("others", "worker", "loop.py:write", "loop.py:improve", "loop.py:save")
    return coordinator, there.start("judge", "worker", "loop.py:judge")


def whole(there: Deployment, run: str) -> None:
    """The history has every step once, in order, and ends as accepted."""
    events = there.history(run)
    assert [event.version for event in events] == list(range(1, len(events) + 1))
    asked = [event.data for event in events if isinstance(event.data, StepRequested)]
    assert [f"{each.path}#{each.attempt}" for each in asked] == STEPS
    answers = DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished
    answered = [event.data.path for event in events if isinstance(event.data, answers)]
    assert answered == [step.partition("#")[0] for step in STEPS]
    assert isinstance(events[-1].data, RunEnded)
    assert events[-1].data.outcome == "accepted"


def test_a_run_goes_through_a_coordinator_and_four_workers(tmp_path: Path, each_store: str) -> None:
    with deployment(tmp_path, each_store) as there:
        there.start("coordinator", "coordinator")
        for target in WORKERS:
            there.start(target.partition(":")[2], "worker", target)
        said = there.call("submit", "loop.py:loop", "a text", "--wait", "--json")
        assert said.code == 0, said.err
        result = json.loads(said.out)
        assert (result["outcome"], result["iterations"]) == ("accepted", 3)
        assert result["draft"]["text"] == "a text more more"
        assert "Loop[1]/judge: critic judge scored draft 1" in said.err
        assert there.worked() == STEPS
        whole(there, result["run"])
        assert there.call("submit", "loop.py:loop", "text", "--wait", "-q", "--max-iterations", "1").code == 3


@pytest.mark.check
def test_a_fresh_start_begins_nothing_again_and_logs_each_run_once(there: Deployment) -> None:
    """The requests are recorded in the moment in which the coordinator takes the lease to relay them."""
    runs = [there.submit() for _ in range(5)]
    for name in ("write", "judge", "improve", "save"):
        there.start(name, "worker", f"loop.py:{name}")
        there.serving(name)
    there.start("coordinator", "coordinator")
    for run in runs:
        there.ended(run)
    there.until("all ends are logged", lambda: len(there.said("coordinator", "run ended")) == len(runs))
    assert sorted(line["run"] for line in there.said("coordinator", "run started")) == sorted(runs)
    assert not [line for name in ("write", "judge", "improve", "save") for line in there.said(name, "begun again")]


def test_the_same_key_is_one_run(there: Deployment) -> None:
    begin(there)
    first, second = there.submit("--key", "k"), there.submit("--key", "k")
    assert first == second
    there.ended(first)
    assert there.json("submit", "loop.py:loop", "a text", "--key", "k") == {"run": first}
    again = there.call("submit", "loop.py:loop", "a text", "--key", "k", "--wait")
    assert (again.code, again.out) == (0, "a text more more")
    assert len(there.json("list")) == 1
    assert there.worked() == STEPS


@pytest.mark.check
def test_a_worker_with_another_version_than_the_plan_says_so_and_so_does_doctor(there: Deployment) -> None:
    begin(there)
    first = there.submit()
    there.ended(first)
    assert "another version" not in [line["event"] for line in there.lines("judge")]
    assert checked(there, "actors") == ("ok", "all answers came from the versions that the plans name")
    code = there.folder / "loop.py"
    code.write_text(code.read_text().replace("draft.version / 3", "draft.version / 2"))
    second = there.submit()
    there.ended(second)
    [said] = [line for line in there.lines("judge") if line["event"] == "another version"]
    assert (said["level"], said["actor"], said["run"]) == ("warning", "critic judge", second)
    assert said["here"] != said["plan"]
    assert "another version" not in [line["event"] for line in there.lines("others")]
    by = {event.actor for event in there.history(second) if isinstance(event.data, DraftCritiqued)}
    assert by == {f"critic judge@{said['here']}"}
    level, told = checked(there, "actors")
    assert (level, told.rpartition(": ")[2]) == ("warn", f"critic judge@{said['here']} in {second}")


def checked(there: Deployment, name: str, of: str = "") -> tuple[str, str]:
    """What `redraft doctor` says of this."""
    checks = there.json("doctor")["checks"]
    [check] = [each for each in checks if each["name"] == name and of in each["message"]]
    return check["level"], check["message"]


@pytest.mark.check
def test_a_worker_and_a_coordinator_killed_at_work_leave_a_whole_history(on_either: Deployment) -> None:
    (on_either.folder / "hold").touch()
    coordinator, judge = begin(on_either)
    run = on_either.submit()
    on_either.until("the critic is at work", lambda: "Loop[1]/judge#1" in on_either.worked())
    judge.kill()
    coordinator.kill()
    (on_either.folder / "hold").unlink()
    on_either.start("judge", "worker", "loop.py:judge")
    on_either.start("coordinator", "coordinator")
    on_either.ended(run)
    whole(on_either, run)
    assert Counter(on_either.worked()) - Counter(STEPS) == Counter({"Loop[1]/judge#1": 1}), "only what was cut off"


def test_sigterm_lets_a_worker_end_what_it_does_and_no_more(there: Deployment) -> None:
    (there.folder / "hold").touch()
    coordinator, judge = begin(there)
    run = there.submit()
    there.until("the critic is at work", lambda: "Loop[1]/judge#1" in there.worked())
    judge.send_signal(signal.SIGTERM)
    there.until("it drains", lambda: "draining" in [line["event"] for line in there.lines("judge")])
    assert judge.poll() is None
    (there.folder / "hold").unlink()
    assert judge.wait(30) == 0
    there.until("its answer is used", lambda: "Loop[1]/improve#1" in there.worked())
    assert "Loop[2]/judge#1" not in there.worked()
    there.start("judge", "worker", "--role", "critic", "loop.py")
    there.ended(run)
    whole(there, run)
    assert there.worked() == STEPS
    coordinator.send_signal(signal.SIGTERM)
    assert coordinator.wait(30) == 0


@pytest.mark.check
def test_coordinators_that_are_told_to_end_in_the_midst_of_runs_lose_and_double_nothing(on_either: Deployment) -> None:
    coordinator, _ = begin(on_either)
    runs = asyncio.run(submitted(on_either, 40))
    for turn in range(1, 4):
        on_either.serving("coordinator", turn)
        on_either.until("a part of it is done", partial(_have_begun, on_either, turn * 60))
        coordinator.send_signal(signal.SIGTERM)
        assert coordinator.wait(30) == 0
        assert on_either.lines("coordinator")[-1]["event"] == "ended"
        coordinator = on_either.start("coordinator", "coordinator")
    on_either.ended(*runs)
    for run in runs:
        whole(on_either, run)
    assert Counter(on_either.worked()) == Counter(STEPS * len(runs)), "nothing was done twice"
    assert on_either.json("dead-letters", "list") == []


async def submitted(there: Deployment, number: int) -> list[str]:
    workflow = read_source(f"{there.folder}/loop.py:loop")
    settings = read_settings(store=there.store, bus=URL, broker_prefix=there.prefix, queue_type=there.queues)
    async with open_client(settings, reads=False) as client:
        return [await client.submit(workflow.plan, "a text") for _ in range(number)]


def _have_begun(there: Deployment, steps: int) -> bool:
    return len(there.worked()) >= steps


@pytest.mark.check
def test_a_stream_of_a_log_that_was_set_back_is_filled_anew_once_no_coordinator_runs(there: Deployment) -> None:
    coordinator = there.start("coordinator", "coordinator")
    worker = there.start("worker", "worker", "loop.py")
    first = there.submit()
    there.ended(first)
    said = there.call("doctor", "--republish")
    assert "stop the coordinators and run this again" in said.out
    for process in (worker, coordinator):
        process.terminate()
        assert process.wait(30) == 0
    log = there.history(first)
    asyncio.run(announced_elsewhere(there, log[3:]))
    with pytest.raises(BusError, match="the log was set back"):
        asyncio.run(followed(there, len(log) + 1))
    said = there.call("doctor")
    assert said.code == 1
    told = f"stream       event {len(log)} of run {first}, announced at position {len(log)}, is not in the log: was the"
    assert told in said.out
    assert there.json("doctor", "--republish") == {"sent_again": 0, "announced_again": len(log)}
    assert f"stream       announced up to position {len(log)}" in there.call("doctor").out
    assert asyncio.run(followed(there, len(log))) == list(log)


async def announced_elsewhere(there: Deployment, log: Sequence[Recorded]) -> None:
    """Events of another log, at the same places."""
    async with RabbitBus(URL, prefix=there.prefix) as bus:
        await bus.publish_events([replace(event, id=f"{event.id}-else", hash="0" * 64) for event in log], {})


async def followed(there: Deployment, number: int) -> list[Recorded]:
    """The first events of the stream."""
    settings = read_settings(store=there.store, bus=URL, broker_prefix=there.prefix)
    async with (
        asyncio.timeout(DEADLINE),
        open_client(settings, reads=False) as client,
        aclosing(client.subscribe()) as events,
    ):
        return [await anext(events) for _ in range(number)]


@pytest.mark.check
def test_what_is_under_way_is_not_done_twice_though_it_is_sent_again(on_either: Deployment) -> None:
    """Two critics; the one that has nothing to do gets the copies of what the other is at."""
    (on_either.folder / "hold").touch()
    begin(on_either)
    on_either.start("second", "worker", "loop.py:judge", "--concurrency", "1")
    on_either.serving("second")
    runs = [on_either.submit() for _ in range(3)]
    on_either.until("all are judged", lambda: on_either.worked().count("Loop[1]/judge#1") == len(runs))
    assert on_either.json("doctor", "--republish") == {"sent_again": len(runs), "announced_again": None}
    on_either.until("the copies are taken", lambda: " 0 messages" in checked(on_either, "queue", "critic.judge")[1])
    (on_either.folder / "hold").unlink()
    on_either.ended(*runs)
    for run in runs:
        whole(on_either, run)
    assert Counter(on_either.worked()) == Counter(STEPS * len(runs))


@pytest.mark.check
def test_a_second_sigterm_stops_at_once(there: Deployment) -> None:
    (there.folder / "hold").touch()
    _, judge = begin(there)
    there.submit()
    there.until("the critic is at work", lambda: "Loop[1]/judge#1" in there.worked())
    judge.send_signal(signal.SIGTERM)
    there.until("it drains", lambda: "draining" in [line["event"] for line in there.lines("judge")])
    judge.send_signal(signal.SIGTERM)
    assert judge.wait(30) == 128 + signal.SIGTERM


def test_up_runs_all_of_it_in_one_log_and_starts_again_what_dies(on_either: Deployment) -> None:
    up = on_either.start("up", "up", "loop.py:loop", "--scale", "judge=2")

    def pids(name: str) -> list[int]:
        return [each["pid"] for each in on_either.lines("up") if each["event"] == "serving" and each["process"] == name]

    names = ["coordinator", "generator.write", "critic.judge-1", "critic.judge-2", "refiner.improve", "publisher.save"]
    on_either.until("all serve", lambda: all(pids(name) for name in names))
    os.kill(pids("coordinator")[0], signal.SIGKILL)
    os.kill(pids("refiner.improve")[0], signal.SIGKILL)
    run = on_either.submit()
    on_either.ended(run)
    whole(on_either, run)
    on_either.until("both serve again", lambda: len(pids("coordinator")) == len(pids("refiner.improve")) == 2)
    up.send_signal(signal.SIGTERM)
    assert up.wait(30) == 0
    ended = {line["process"] for line in on_either.lines("up") if line["event"] == "ended"}
    assert ended == {"up", *names}
    told = on_either.log("up").read_text()
    assert "guest:guest" not in told
    assert "a text" not in told
    assert not [name for name in names if any(_lives(pid) for pid in pids(name))]


@pytest.mark.check
def test_up_goes_on_and_ends_while_what_a_worker_started_holds_its_standard_error(there: Deployment) -> None:
    held, file = there.folder / "held", there.folder / "loop.py"
    held.touch()
    waiting = "['sh', '-c', 'while [ -e held ]; do sleep 0.1; done']"
    lasting = f"    subprocess.Popen({waiting}, cwd=HERE, start_new_session=True)\n"
    text = file.read_text().replace("import time", "import subprocess, time")
    file.write_text(text.replace("    while (HERE", f"{lasting}    while (HERE"))
    up = there.start("up", "up", "loop.py:loop")

    def pids() -> list[int]:
        served = [line for line in there.lines("up") if line["event"] == "serving"]
        return [line["pid"] for line in served if line["process"] == "critic.judge"]

    try:
        there.ended(there.submit())
        os.kill(pids()[0], signal.SIGKILL)
        there.until("it serves again", lambda: len(pids()) == 2)
        there.ended(there.submit())
        up.send_signal(signal.SIGTERM)
        assert up.wait(DEADLINE) == 0
    finally:
        held.unlink()
    assert not any(_lives(pid) for pid in pids())


@pytest.mark.check
def test_up_that_is_killed_leaves_no_process_behind(there: Deployment) -> None:
    up = there.start("up", "up", "loop.py")

    def pids() -> list[int]:
        return [line["pid"] for line in there.lines("up") if line["event"] == "serving"]

    there.until("all serve", lambda: len(pids()) == 5)
    up.kill()
    up.wait()
    there.until("they end", lambda: not any(_lives(pid) for pid in pids()))


@pytest.mark.check
def test_doctor_tells_of_the_broker_and_fills_it_again(there: Deployment) -> None:
    first = there.json("doctor")["checks"]
    assert any(f"queue {there.prefix}.inbox, queue {there.prefix}.dead-letters" in each["message"] for each in first)
    before = {(each["name"], each["level"]) for each in first}
    assert {("broker", "ok"), ("topology", "warn"), ("queue", "warn"), ("dead-letters", "ok")} <= before
    begin(there)
    for name in ("coordinator", "judge"):
        there.serving(name)
    assert checked(there, "topology")[0] == "ok", "all is there before the first run, also for those who only listen"
    run = there.submit()
    there.ended(run)
    checks = there.json("doctor")["checks"]
    told = " ".join(each["message"] for each in checks)
    assert re.search(r"RabbitMQ \d+\.\d+", told)
    assert f"{there.prefix}.critic.judge: 1 consumer, 0 messages waiting" in told
    assert "guest:guest" not in told
    assert all(each["level"] != "fail" for each in checks)
    (there.folder / "hold").touch()
    other = there.submit()
    there.until("the critic is at work", lambda: there.worked().count("Loop[1]/judge#1") == 2)
    assert "a coordinator and workers go on with it" in there.call("show", other).out
    assert there.json("doctor", "--republish") == {"sent_again": 1, "announced_again": None}
    (there.folder / "hold").unlink()
    there.ended(other)
    whole(there, other)


def test_a_health_file_is_there_while_the_process_serves(there: Deployment) -> None:
    for name, arguments in {"coordinator": ("coordinator",), "write": ("worker", "loop.py:write")}.items():
        file = there.folder / f"{name}.healthy"
        process = there.start(name, *arguments, "--health-file", str(file))
        there.until("it is healthy", file.exists)
        first = file.stat().st_mtime_ns
        there.until("it is touched again", lambda file=file, first=first: file.stat().st_mtime_ns > first)
        alive = alive_beside(file)
        assert int(alive.read_text()) == process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert not file.exists()
        assert not alive.exists()


@pytest.mark.check
def test_processes_that_are_told_of_another_kind_of_queues_say_so(there: Deployment) -> None:
    coordinator, _ = begin(there)
    there.serving("coordinator")
    there.ended(there.submit())
    there.queues = "classic"
    worker = there.start("second", "worker", "loop.py:judge")
    there.until("it is told", lambda: bool(there.said("second", "queue cannot be used")))
    assert (
        f"queue {there.prefix}.inbox is there with other settings"
        in there.said("second", "queue cannot be used")[0]["error"]
    )
    assert (
        "same setting `queue_type` (REDRAFT_QUEUE_TYPE, here classic)"
        in there.said("second", "queue cannot be used")[0]["error"]
    )
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    said = there.call("submit", "loop.py:loop", "a text")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert "REDRAFT_QUEUE_TYPE, here classic" in said.err
    said = there.call("doctor")
    assert said.code == 1
    assert f"{there.prefix}.inbox is there with other settings than REDRAFT_QUEUE_TYPE=classic asks for" in said.out
    assert f"{there.prefix}.critic.judge is there" not in said.out
    there.queues = "quorum"
    assert checked(there, "topology") == ("ok", "exchanges, inbox (quorum), dead letters and event stream are there")
    assert coordinator.poll() is None


@pytest.mark.check
def test_a_queue_of_requests_of_an_earlier_release_stops_nothing_else_and_is_used_once_it_is_deleted(
    there: Deployment,
) -> None:
    asyncio.run(make_earlier_queue(f"{there.prefix}.critic.judge", f"{there.prefix}.dead-letters"))
    begin(there)
    there.serving("coordinator")
    run = there.submit()
    there.until("it is told", lambda: bool(there.said("coordinator", "queue cannot be used")))
    assert "delete the queue, whatever is in it" in there.said("coordinator", "queue cannot be used")[0]["error"]
    assert [each.name for each in there.history(run)].count("draft.generated.v1") == 1
    said = there.call("doctor")
    assert said.code == 1
    found = f"{there.prefix}.critic.judge is there with other settings, such as those of another release"
    assert f"{found}; end what uses it" in said.out
    asyncio.run(delete_queue(f"{there.prefix}.critic.judge"))
    there.ended(run)


async def make_earlier_queue(name: str, dead_letters: str) -> None:
    """A queue of requests as releases made it that had each of them written to the disk, with a request in it."""
    arguments: dict[str, Any] = {
        "x-queue-type": "quorum",
        "x-delivery-limit": 19,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead_letters,
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
        await channel.declare_queue(name, durable=True, arguments=arguments)
        await channel.default_exchange.publish(aio_pika.Message(b"of an earlier release"), name)


async def delete_queue(name: str) -> None:
    async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
        await channel.queue_delete(name)


def test_a_relay_that_has_come_further_than_the_log_is_told_instead_of_sending_nothing(
    tmp_path: Path, each_store: str
) -> None:
    async def of_another_log(store: str) -> None:
        async with open_lease(store) as lease:
            await lease.acquire()
            await lease.save(80)

    with deployment(tmp_path, each_store) as there:
        asyncio.run(of_another_log(there.store))
        coordinator = there.start("coordinator", "coordinator")
        assert coordinator.wait(60) == 2
        [line] = [line for line in there.log("coordinator").read_text().splitlines() if line.startswith("redraft: ")]
        assert "its relay has passed on 80 events, but the log ends at 0" in line
        _follow_the_remedy(line, each_store)
        there.start("again", "coordinator", "--json")
        there.until("the next one relays", lambda: bool(there.said("again", "relaying")))
        assert there.said("again", "relaying")[0]["after"] == 0


def _follow_the_remedy(line: str, postgres: str) -> None:
    remedy = line.partition("end every coordinator, ")[2].partition(", and start them again")[0]
    if postgres:
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(remedy.removeprefix("run `").removesuffix("` in its database").encode())
    else:
        Path(remedy.removeprefix("delete ")).unlink()


@pytest.mark.check
def test_a_worker_that_is_told_no_actor_serves_the_module_of_the_settings(there: Deployment) -> None:
    said = there.call("worker", "--role", "critic")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "set REDRAFT_WORKER_MODULE=article.py" in said.err
    (there.folder / "redraft.toml").write_text('worker_module = "loop.py"')
    assert there.call("worker", "--role", "critic").code == 2, "nobody has trusted it"
    assert there.call("trust").code == 0
    there.start("judge", "worker", "--role", "critic")
    there.serving("judge")
    [line] = [line for line in there.lines("judge") if line["event"] == "serving"]
    assert line["actors"] == ["critic judge"]


@pytest.mark.parametrize(("option", "url"), [("--bus", "amqp://"), ("--store", "mysql://x")])
def test_doctor_of_a_url_that_cannot_be_one_is_exit_code_2(there: Deployment, option: str, url: str) -> None:
    said = there.call("doctor", option, url)
    assert said.code == 2
    assert [line for line in said.out.splitlines() if line.startswith("fail")]


def test_a_server_that_is_not_there_is_exit_code_5_after_the_patience(there: Deployment) -> None:
    nowhere = URL.replace(":5672", ":1")
    for arguments in (
        ("worker", "loop.py", "--patience", "0.5"),
        ("up", "loop.py", "--patience", "0"),
        ("submit", "loop.py:loop", "text"),
        ("doctor",),
    ):
        said = there.call(*arguments, "--bus", nowhere)
        assert said.code == 5, (arguments, said)
        assert "Traceback" not in said.err
        assert "guest:guest" not in said.out + said.err


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc/self/stat").exists() else True


def test_two_coordinators_share_the_runs_of_one_store(there: Deployment) -> None:
    """Each decides on some of a run's messages, and neither waits for what the other has recorded meanwhile."""
    begin(there)
    there.start("second", "coordinator")
    for name in ("coordinator", "second", "others", "judge"):
        there.serving(name)
    runs = [there.submit() for _ in range(3)]
    there.ended(*runs)
    for run in runs:
        whole(there, run)
    assert sorted(there.worked()) == sorted(STEPS * 3)


@pytest.mark.check
def test_a_fork_is_worked_on_by_the_deployment_and_its_parents_work_is_not_done_again(
    tmp_path: Path, each_store: str
) -> None:
    with deployment(tmp_path, each_store) as there:
        coordinator, _ = begin(there)
        parent = there.submit()
        there.ended(parent)
        asked = next(e.version for e in there.history(parent) if getattr(e.data, "path", "") == "Loop[2]/improve")
        told = there.json("fork", parent, "--at", str(asked), "--set", "max_iterations=9", "--tag", "fork")
        assert told["parent"] == {"run": parent, "version": asked}
        there.ended(told["run"])
        whole_fork = there.history(told["run"])
        assert [bool(event.repeats) for event in whole_fork[1:]] == [True] * (asked - 1) + [False] * (
            len(whole_fork) - asked
        )
        assert there.worked() == [*STEPS, *STEPS[4:]]
        coordinator.kill()
        coordinator.wait()
        again = there.json("fork", told["run"], "--at", str(len(whole_fork) - 4), "--key", "k")
        assert there.json("fork", told["run"], "--at", str(len(whole_fork) - 4), "--key", "k") == again
        there.start("another", "coordinator")
        there.ended(again["run"])
        assert there.history(again["run"])[-1].name == "run.ended.v1"
        assert len(there.json("list", "--tag", "fork")) == 2
        waited = there.call("fork", parent, "--at", str(asked), "--wait", "--json")
        assert (waited.code, json.loads(waited.out)["outcome"]) == (0, "accepted")
        for arguments, said in (
            (("--out", "x.md"), "--out is for a fork in this process"),
            (("--set", "x=1"), "no step"),
        ):
            refused = there.call("fork", parent, "--at", "3", *arguments)
            assert refused.code == 2
            assert said in refused.err
