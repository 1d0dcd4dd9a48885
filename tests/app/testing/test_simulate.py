"""`simulate`: a user's own workflow and actors under faults, and what is told when something is wrong."""

from __future__ import annotations

import asyncio
import itertools
import os
import queue
import select
import socket
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from time import sleep as wait_by_the_clock

import httpx
import msgspec
import pytest
from tests.app.testing.faults.every import EVERY

from redraft.actors import Actor, Critique, Workflow, critic, generator, publisher, refiner, score, step
from redraft.actors.workflow.workflow import approve
from redraft.app.testing import Odds, Outside, RealWork, SimulationFailed, simulate
from redraft.events.errors import ActorError
from redraft.events.messages.domain_events import DraftPublished
from redraft.events.messages.envelope import Recorded

ROUGH = Odds(killed_at_work=0.3)
"""So that what is wrong is found by the first seeds."""


@generator
async def write(brief):
    await asyncio.sleep(3)
    return brief.text


@critic
def judge(draft):
    return Critique(min(1, len(draft.text) / 24), suggestions=("say more",))


@refiner
async def improve(draft):
    return draft.text + ", and so on"


@publisher
async def post(draft):
    return "message box"


LETTER = (
    Workflow("message")
    .start_with(write)
    .repeat_until(score >= 0.9, max_iterations=5, name="Loop", body=[judge, improve])
    .finally_(post)
)


class Mail:
    """Stands in for a mail server that drops what it was sent before, by its key."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._keys = outside.kept.setdefault("keys", set())

    async def send(self, text: str, key: object) -> None:
        await asyncio.sleep(0.2)
        if key not in self._keys:
            self._keys.add(key)
            self._outside.did(f"mailed: {text}")


def careless(outside: Outside) -> list[Actor]:
    @publisher
    async def post(draft):
        await Mail(outside).send(draft.text, object())
        return "mail"

    return [post]


def forgetful(outside: Outside) -> list[Actor]:
    sent: set[str] = set()

    @publisher
    async def post(draft):
        if draft.text not in sent:
            await Mail(outside).send(draft.text, object())
            sent.add(draft.text)
        return "mail"

    return [post]


def hasty(outside: Outside) -> list[Actor]:
    sent = outside.kept.setdefault("sent", set())

    @publisher
    async def post(draft):
        if draft.text not in sent:
            sent.add(draft.text)
            await Mail(outside).send(draft.text, object())
        return "mail"

    return [post]


def careful(outside: Outside) -> list[Actor]:
    @publisher
    async def post(draft, context):
        await Mail(outside).send(draft.text, f"{context.run} {context.path}")
        return "mail"

    return [post]


def all_mailed(outside: Outside, events: Sequence[Recorded]) -> None:
    published = sum(isinstance(event.data, DraftPublished) for event in events)
    assert len(outside.effects) >= published, f"{published} published, {len(outside.effects)} mailed"


def failure(*arguments: object, **options: object) -> SimulationFailed:
    with pytest.raises(SimulationFailed) as found:
        simulate(*arguments, **options)  # type: ignore[arg-type]
    return found.value


@pytest.mark.check
def test_what_is_done_twice_is_found_and_replayed():
    found = failure(LETTER, careless, seeds=60, odds=ROUGH)
    assert [each.partition(":")[0] for each in found.wrong] == ["doubled"]
    first, wrong, *others = str(found).splitlines()
    assert first.endswith(
        f"goes wrong with seed {found.seed}; replay it: simulate(message, actors, seeds=[{found.seed}], odds=odds)"
    )
    assert wrong.startswith("  wrong: doubled: 'mailed: ")
    assert sum("outside: mailed: " in each for each in others) == 2
    assert any(each.endswith("nobody knows") for each in others)
    again = failure(LETTER, careless, seeds=[found.seed], odds=ROUGH)
    assert str(again) == str(found)


@pytest.mark.check
def test_the_story_has_only_the_faults_that_it_takes():
    found = failure(LETTER, careless, seeds=[3])
    (fault,) = found.faults
    assert "is killed when post was done with post of run" in fault
    quiet = msgspec.structs.replace(Odds(), killed_at_work=0.0)
    assert simulate(LETTER, careless, seeds=[found.seed], odds=quiet).faults > 1


@pytest.mark.check
def test_what_is_only_remembered_is_gone_with_a_crash():
    assert failure(LETTER, forgetful, seeds=60, odds=ROUGH).wrong[0].startswith("doubled: ")


@pytest.mark.check
def test_what_is_noted_before_it_is_done_is_lost_with_a_crash():
    found = failure(LETTER, hasty, seeds=60, odds=ROUGH, check=all_mailed)
    assert found.wrong[0].startswith("check: ")
    assert "published" in found.wrong[0]
    assert str(found).splitlines()[0].endswith(f"seeds=[{found.seed}], check=all_mailed, odds=odds)")
    assert isinstance(found.__cause__, AssertionError)
    simulate(LETTER, hasty, seeds=20, odds=ROUGH)


@pytest.mark.check
def test_a_publisher_that_heeds_keys_goes_well():
    tried = simulate(LETTER, careful, seeds=40, odds=ROUGH, check=all_mailed)
    assert tried.seeds == 40
    assert tried.runs == sum(tried.outcomes.values()) >= 40
    assert tried.outcomes["accepted"] > 30
    assert tried.faults > 40
    assert tried.calls > 4 * tried.runs


@pytest.mark.check
def test_who_publishes_under_a_new_name_each_time_is_found():
    numbers = itertools.count()

    def actors(outside: Outside) -> list[Actor]:
        kept = outside.kept.setdefault("numbers", itertools.count())

        @publisher
        async def post(draft):
            return f"post-{next(kept)}"

        return [post]

    found = failure(LETTER, actors, seeds=60, odds=ROUGH)
    assert found.wrong[0].startswith("two receipts: post of run ")
    assert next(numbers) == 0


def test_the_checker_of_records_looks_too():
    """A defect of Redraft itself, planted, is found by a user's workflow."""
    (fault,) = (each for each in EVERY if each.name == "one iteration too many")
    fixed = critic(name="judge")(lambda draft: Critique(0.1))
    never = Workflow("never").start_with(write).repeat_until(score >= 0.9, max_iterations=1, body=[fixed, improve])
    with fault.planted():
        assert failure(never, seeds=3).wrong[0].startswith("iteration: ")
    simulate(never, seeds=3)


@pytest.mark.check
def test_people_whom_the_plan_names_decide():
    asks = Workflow("asks").start_with(write).then(judge, approve("Editor", approvers=["dora"])).finally_(post)
    tried = simulate(asks, seeds=8)
    assert tried.outcomes["accepted"] >= 4


async def _connects() -> None:
    await asyncio.open_connection("127.0.0.1", 9)


async def _asks_http() -> None:
    async with httpx.AsyncClient() as client:
        await client.get("http://localhost:9/")


async def _runs() -> None:
    await asyncio.create_subprocess_exec("true")


async def _sleeps() -> None:
    time.sleep(3600)  # noqa: ASYNC251 - what is tried


async def _threads() -> None:
    threading.Thread(target=print).start()


async def _blocks() -> None:
    await asyncio.to_thread(socket.create_connection, ("localhost", 9))


async def _shells() -> None:
    subprocess.run(["true"], check=True)  # noqa: ASYNC221 - what is tried


async def _sleeps_by_another_name() -> None:
    wait_by_the_clock(3600)  # noqa: ASYNC251 - what is tried


async def _waits_for_a_thread() -> None:
    threading.Event().wait(3600)


async def _takes_from_a_queue() -> None:
    queue.Queue[int]().get(timeout=3600)


async def _selects() -> None:
    select.select([], [], [], 3600)


async def _finds_a_name() -> None:
    socket.gethostbyaddr("127.0.0.1")


async def _commands() -> None:
    os.system("true")  # noqa: ASYNC221, S605 - what is tried


@pytest.mark.parametrize(
    ("does", "told"),
    [
        (_connects, "opens a socket"),
        (_asks_http, "looks up an address"),
        (_runs, "starts a program"),
        (_sleeps, "waits by the real clock (write await asyncio.sleep(...) instead"),
        (_threads, "starts a thread"),
        (_blocks, "looks up an address"),
        (_shells, "starts a program"),
        (_commands, "starts a program"),
        (_sleeps_by_another_name, "waits by the real clock (write await asyncio.sleep(...) instead"),
        (_waits_for_a_thread, "waits for another thread"),
        (_takes_from_a_queue, "waits for another thread"),
        (_selects, "waits for a socket or a pipe"),
        (_finds_a_name, "looks up an address"),
    ],
)
def test_real_work_is_named_and_not_done(does: Callable[[], Awaitable[None]], told: str):
    @publisher
    async def post(draft):
        try:
            await does()
        except Exception:  # noqa: BLE001 - what is swallowed is told all the same
            return "nowhere"
        return "somewhere"

    with pytest.raises(RealWork, match="pass a stand-in for it") as found:
        simulate(LETTER, [post], seeds=1)
    assert f"publisher post {told}" in str(found.value)


def test_code_beside_a_simulation_may_do_what_it_likes():
    simulate(LETTER, seeds=1)
    subprocess.run(["true"], check=True)
    with socket.socket():
        pass


def test_a_function_that_is_not_async_works_on_the_loop():
    threads: set[int] = set()

    @publisher
    def post(draft):
        threads.add(threading.get_ident())
        return "message box"

    simulate(LETTER, [post], seeds=3)
    assert threads == {threading.get_ident()}


def test_where_every_run_fails_nothing_is_tried():
    @publisher
    async def post(draft):
        return {}["nowhere"]

    (wrong,) = failure(LETTER, [post], seeds=3).wrong
    assert wrong.startswith("failed: every run failed, though no fault was injected: at post, post raised KeyError")


def test_actors_that_are_missing_or_do_real_work_are_named():
    prints = LETTER.finally_(step("stdout", role="publisher", name="print"))
    with pytest.raises(ActorError, match="print: the publisher stdout does real work; pass an actor of this name"):
        simulate(prints, seeds=1)
    with pytest.raises(ActorError, match="there is no critic 'somebody'"):
        simulate(Workflow("w").start_with(write).then(step("somebody", role="critic")), seeds=1)


def test_a_check_may_return_false_and_what_else_it_raises_is_its_own():
    assert failure(LETTER, seeds=1, check=lambda outside, events: False).wrong == ("check: it returned False",)
    with pytest.raises(ZeroDivisionError):
        simulate(LETTER, seeds=1, check=lambda outside, events: 1 / 0)


def test_what_differs_each_time_is_said():
    numbers = itertools.count()

    @publisher
    async def post(draft):
        await asyncio.sleep(next(numbers))
        return "message box"

    wrong = failure(LETTER, [post], seeds=[1], odds=ROUGH, check=lambda outside, events: False).wrong
    assert wrong[0] == "check: it returned False"
    assert wrong[-1].startswith("unsteady: the same seed is another history each time")


def test_briefs_are_the_users_own():
    texts: set[str] = set()

    @generator
    async def write(brief):
        texts.add(brief.text)
        return brief.text

    simulate(LETTER, {"write": write}, seeds=6, briefs=["Moons", "Stars"])
    assert texts == {"Moons", "Stars"}


async def test_a_loop_within_a_loop_is_refused():
    with pytest.raises(RuntimeError, match="not async"):
        simulate(LETTER, seeds=1)


def test_what_a_function_returns_is_read_as_a_worker_reads_it():
    @critic(name="judge", fields={"grade": "score"})
    def graded(draft):
        return {"grade": min(1, len(draft.text) / 24), "tone": "dry"}

    @publisher
    def post_quietly(draft):
        return None

    loop = Workflow("message").start_with(write)
    loop = loop.repeat_until(score >= 0.9, max_iterations=5, name="Loop", body=[graded, improve]).finally_(post_quietly)
    simulate(loop, [write, graded, improve, post_quietly], seeds=5)
