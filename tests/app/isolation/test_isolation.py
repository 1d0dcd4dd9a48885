"""Actors in processes of their own: what hangs or crashes there takes nobody along."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.app.cli_calls import call
from tests.app.deployments import DEADLINE

from redraft.actors import Actor, critic
from redraft.actors.runtime.working.active_calls import ALONE
from redraft.actors.runtime.working.worker import Worker
from redraft.app.isolation.isolated_actor import Isolation, open_isolation
from redraft.app.workflows.user_file import actors_in
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import INBOX, BusMessage, work_queue
from redraft.events.errors import ActorError
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import (
    Completed,
    Critiqued,
    CritiqueDraft,
    Failed,
    Message,
    OutcomeMessage,
    Request,
    RunStep,
    Work,
)
from redraft.events.messages.content import Brief, Critique, new_draft
from redraft.events.messages.envelope import Origin
from redraft.events.messages.run_state import Values
from redraft.events.messages.usage import Usage

ACTORS = """
import asyncio, ctypes, os, time
from pathlib import Path
from redraft.actors import (
    Critique, Workflow, WithState, condition, critic, generator, publisher, refiner, score, step, Retry
)

HERE = Path(__file__).parent

def does(draft, context):
    context.spent(tokens=5)
    with (HERE / "pids.txt").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    if "hang" in draft.text:
        ctypes.PyDLL(None).sleep(600)
    if "crash" in draft.text:
        ctypes.string_at(0)
    if "kill" in draft.text:
        os.kill(os.getpid(), 9)
    if "hold" in draft.text:
        while (HERE / "hold").exists():
            time.sleep(0.01)
    print("this goes to standard error")

@critic(isolation="process", scale=(0, 10))
def judge(draft, brief, context):
    does(draft, context)
    said = (brief.text, context.run, context.path, context.idempotency_key, context.attempt, context.timeout)
    said = (*said, context.options, [each.text for each in (*context.outputs, *context.beside)])
    return Critique(5, weaknesses=(repr(said), str(os.getpid())))

@critic
def plain(draft, context):
    does(draft, context)
    return Critique(1, weaknesses=(str(os.getpid()),))

@critic(isolation="process")
def environment(draft, context):
    return Critique(0, weaknesses=tuple(sorted(name for name in os.environ if name.startswith("REDRAFT_"))))

@critic(isolation="process")
async def metered(draft, context):
    from redraft.actors import Usage
    with context.metered(lambda: Usage(7)):
        await asyncio.sleep(100)

@step(isolation="process")
def research(draft, context):
    return {"pid": os.getpid(), "known": context.state, "nested": {"list": [1, None, {"deep": True}]}}

@condition(isolation="process")
def good_enough(facts):
    return facts.score >= 0.8 or f"{facts.score} with {dict(facts.state)} in {os.getpid()}"

@critic(isolation="process")
def teller(draft, context):
    return WithState("more", {"heard": [*context.state.heard, draft.text]})

@generator
def write(brief): return brief.text

@publisher
def save(draft): return "nowhere"

def flow(name, judging):
    return Workflow(name).start_with(write).repeat_until(score > 0, max_iterations=1, name="Loop", body=[judging])

once = Retry(attempts=1)
isolated = flow("isolated", step(judge, timeout=2, retry=once)).finally_(save)
patient = flow("patient", step(judge, timeout=600, retry=once)).finally_(save)
ordinary = flow("ordinary", step(plain, timeout=300, retry=once)).finally_(save)
"""
DRAFT = new_draft(1, "a draft")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "isolated.py").write_text(ACTORS)
    return tmp_path


def actor(folder: Path, name: str) -> Actor:
    [found] = [each for each in actors_in(folder / "isolated.py") if each.name == name]
    return found


def asked(text: str, timeout: float = 20.0, sent: int = 1) -> CritiqueDraft:
    others = {"outputs": (new_draft(2, "earlier"),), "beside": (new_draft(3, "beside"),)}
    request = Request("r/p#2", "r", "p", "judge", 2, timeout, Brief("the brief"), {"k": [1, "x"]}, **others, sent=sent)
    return CritiqueDraft(request, new_draft(1, text))


STATE: Values = {"heard": ["a"], "tests": {"pass": False, "of": 3}, "share": 0.5, "none": None}


async def worked(isolation: Isolation, doer: Actor, work: Work) -> OutcomeMessage:
    over = asyncio.Event()
    call = isolation.begin(doer, work, over.set, False)
    await asyncio.wait_for(over.wait(), DEADLINE)
    return call.outcome()


@pytest.mark.check
async def test_a_free_step_a_condition_and_changes_beside_a_result_are_carried_out_in_a_process(folder: Path) -> None:
    """Values travel there and back as JSON."""
    names = ("research", "good_enough", "teller")
    research, good_enough, teller = (actor(folder, name) for name in names)
    request = replace(asked("b").request, state=STATE)
    draft = new_draft(1, "b")
    async with open_isolation([research, good_enough, teller]) as isolation:
        done = await worked(isolation, research, RunStep(request))
        verdict = await worked(isolation, good_enough, CritiqueDraft(request, draft, None, Critique(0.5)))
        told = await worked(isolation, teller, CritiqueDraft(request, draft))
    assert isinstance(done, Completed), done
    assert done.state.pop("pid") != os.getpid()
    assert done.state == {"known": STATE, "nested": {"list": [1, None, {"deep": True}]}}
    assert isinstance(verdict, Critiqued), verdict
    assert verdict.critique.measures == {"good_enough": 0}
    (why,) = verdict.critique.weaknesses
    assert why.startswith(f"0.5 with {STATE} in ")
    assert not why.endswith(f" {os.getpid()}")
    assert isinstance(told, Critiqued), told
    assert (told.critique.suggestions, told.state) == (("more",), {"heard": ["a", "b"]})


async def judged(
    isolation: Isolation, judge: Actor, text: str, timeout: float = 20.0, *, alone: bool = False
) -> OutcomeMessage:
    over = asyncio.Event()
    call = isolation.begin(judge, asked(text, timeout), over.set, alone)
    await asyncio.wait_for(over.wait(), DEADLINE)
    return call.outcome()


def pid(outcome: OutcomeMessage) -> int:
    assert isinstance(outcome, Critiqued), outcome
    return int(outcome.critique.weaknesses[-1])


def failure(outcome: OutcomeMessage) -> tuple[str, str]:
    assert isinstance(outcome, Failed), outcome
    return outcome.kind, outcome.message


def is_alive(process: int) -> bool:
    """Whether it runs; one that nobody has reaped does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.check
async def test_it_is_given_all_that_it_would_be_given_here_and_is_used_again(folder: Path) -> None:
    judge = actor(folder, "judge")
    async with open_isolation([judge]) as isolation:
        outcome = await judged(isolation, judge, "fine")
        assert isinstance(outcome, Critiqued)
        said = ("the brief", "r", "p", "r/p", 2, 20.0, {"k": [1, "x"]}, ["earlier", "beside"])
        assert outcome.critique == Critique(0.5, weaknesses=(repr(said), str(pid(outcome))), critic="judge")
        assert outcome.usage == Usage(5)
        assert pid(outcome) != os.getpid()
        assert pid(await judged(isolation, judge, "fine")) == pid(outcome)
        many = await asyncio.gather(*(judged(isolation, judge, "fine") for _ in range(10)))
        assert 1 < len({pid(each) for each in many}) <= 8
    for each in many:
        assert not is_alive(pid(each))


@pytest.mark.check
async def test_one_that_hangs_in_c_and_holds_the_lock_is_killed_at_its_deadline(folder: Path) -> None:
    judge = actor(folder, "judge")
    async with open_isolation([judge]) as isolation:
        before = pid(await judged(isolation, judge, "fine"))
        outcome = await judged(isolation, judge, "hang", timeout=1)
        assert failure(outcome) == ("timeout", "judge took longer than 1 s, and its process was killed")
        assert outcome.usage == Usage(5)
        assert not is_alive(before)
        assert pid(await judged(isolation, judge, "fine")) != before


@pytest.mark.check
async def test_one_that_crashes_fails_that_attempt_alone(folder: Path) -> None:
    judge = actor(folder, "judge")
    async with open_isolation([judge]) as isolation:
        outcome, other = await asyncio.gather(judged(isolation, judge, "crash"), judged(isolation, judge, "fine"))
        assert failure(outcome) == ("error", "judge ended its process: ended by SIGSEGV")
        assert outcome.usage == Usage(5)
        assert pid(other)


@pytest.mark.check
async def test_what_a_meter_says_is_counted_though_the_deadline_comes(folder: Path) -> None:
    metered = actor(folder, "metered")
    async with open_isolation([metered]) as isolation:
        outcome = await judged(isolation, metered, "fine", timeout=3)
        assert failure(outcome)[0] == "timeout"
        assert outcome.usage == Usage(7)


@pytest.mark.check
async def test_it_is_not_given_what_holds_passwords(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REDRAFT_STORE", "REDRAFT_BUS", "REDRAFT_MODEL"):
        monkeypatch.setenv(name, "x")
    environment = actor(folder, "environment")
    async with open_isolation([environment]) as isolation:
        outcome = await judged(isolation, environment, "fine")
        assert isinstance(outcome, Critiqued)
        assert "REDRAFT_MODEL" in outcome.critique.weaknesses
        assert not {"REDRAFT_STORE", "REDRAFT_BUS"} & {*outcome.critique.weaknesses}


@pytest.mark.check
async def test_a_call_that_is_abandoned_leaves_no_process(folder: Path) -> None:
    judge = actor(folder, "judge")
    (folder / "hold").touch()
    async with open_isolation([judge]) as isolation:
        call = isolation.begin(judge, asked("hold"), lambda: pytest.fail("nobody is to be told"), False)
        async with asyncio.timeout(DEADLINE):
            while not (folder / "pids.txt").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await asyncio.wait({call.abandon()})
        assert not is_alive(int((folder / "pids.txt").read_text()))


@pytest.mark.check
async def test_a_request_that_took_two_workers_along_is_carried_out_alone(folder: Path) -> None:
    plain = actor(folder, "plain")
    async with open_isolation([plain]) as isolation:
        first, second = [await judged(isolation, plain, "fine", alone=True) for _ in range(2)]
        assert os.getpid() not in (pid(first), pid(second))
        assert pid(first) != pid(second)
        kind, why = failure(await judged(isolation, plain, "kill", alone=True))
        assert (kind, why.endswith("ended by SIGKILL when it was carried out alone")) == ("lost", True)
        assert failure(await judged(isolation, plain, "hang", timeout=1, alone=True))[0] == "lost"


@asynccontextmanager
async def working(actors: list[Actor], isolation: Isolation) -> AsyncIterator[LocalBus]:
    async with LocalBus() as bus:
        worker = Worker(actors, bus, lambda: "id", start_isolated=isolation.begin)
        task = asyncio.create_task(worker.run())
        try:
            yield bus
        finally:
            task.cancel()
            await asyncio.wait({task})


async def answered(bus: LocalBus, name: str, text: str, sent: int) -> Message:
    work = asked(text, sent=sent)
    work = CritiqueDraft(replace(work.request, actor=name, confirmed=True), work.draft)
    kind, body = encode_message(work)
    await bus.publish(
        work_queue("critic", name), [BusMessage(kind, body, Origin("i", "coordinator", "", "r"), "r", work)]
    )
    async with bus.consume(INBOX, 1) as inbox, asyncio.timeout(DEADLINE):
        [delivery] = await inbox.take(1)
        await inbox.ack([delivery])
        assert not isinstance(delivery.bus_message.content, CritiqueDraft)
        assert delivery.bus_message.content is not None
        return delivery.bus_message.content


@pytest.mark.check
async def test_the_third_worker_that_gets_a_request_carries_it_out_alone(folder: Path) -> None:
    plain = actor(folder, "plain")
    async with open_isolation([plain]) as isolation, working([plain], isolation) as bus:
        here = await answered(bus, "plain", "fine", ALONE - 2)
        assert isinstance(here, Critiqued)
        assert pid(here) == os.getpid()
        alone = await answered(bus, "plain", "fine", ALONE)
        assert isinstance(alone, Critiqued)
        assert pid(alone) != os.getpid()


@pytest.mark.check
async def test_what_cannot_be_loaded_again_is_refused_at_the_start(folder: Path, tmp_path: Path) -> None:
    @critic(isolation="process")
    def within(draft):
        return Critique(1)

    async def refused(each: Actor, told: str) -> None:
        with pytest.raises(ActorError, match=told):
            async with open_isolation([each]):
                pass

    await refused(within, "the critic within cannot be isolated: it is made inside of a function; define it at the top")
    typed: dict[str, Actor] = {}
    exec(  # noqa: S102 - what is typed at a prompt is in no file
        "from redraft.actors import critic\n@critic(isolation='process')\ndef typed(draft): ...", typed
    )
    await refused(typed["typed"], "the critic typed cannot be isolated: it is in no file that another process could")
    judge = actor(folder, "judge")
    (folder / "isolated.py").write_text(ACTORS.replace("def judge(", "def other(").replace("step(judge", "step(other"))
    await refused(judge, "there is no critic 'judge' in .*isolated.py when it is loaded again")
    (folder / "isolated.py").write_text(ACTORS.replace("return Critique(5", "return Critique(6"))
    await refused(judge, "isolated.py was changed since the worker began; start the worker again")
    (folder / "isolated.py").write_text("import os; os._exit(3)")
    await refused(judge, "its process ended while it was loaded: exit code 3")


async def test_where_no_process_can_be_started_it_is_told_at_the_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(folder / "python that was taken away"))
    with pytest.raises(ActorError, match="judge cannot be isolated: its process cannot be started: No such file"):
        async with open_isolation([actor(folder, "judge")]):
            pass


def test_the_command_line_refuses_a_closure_with_one_line(folder: Path) -> None:
    text = ACTORS.replace(
        "once =",
        "def made():\n    @critic(isolation='process')\n    def inner(draft): ...\n    return inner\n\n"
        "inner = made()\nonce =",
    )
    (folder / "isolated.py").write_text(text + "\nbad = flow('bad', inner).finally_(save)\n")
    said = call("run", f"{folder}/isolated.py:bad", "x", "--text", "--store", "memory:")
    assert said.code == 2
    assert said.err.strip().splitlines()[-1].startswith("redraft: the critic inner cannot be isolated: ")


def test_an_isolation_that_there_is_not_is_refused() -> None:
    with pytest.raises(ActorError, match="isolation is 'thread'; write 'process', or leave it out"):
        critic(name="judge", isolation="thread")(lambda draft: None)  # type: ignore[call-overload]


@pytest.mark.check
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part of it is Linux's")
def test_a_process_ends_with_its_worker_though_it_hangs(folder: Path) -> None:
    command = (sys.executable, "-m", "redraft", "run", "isolated.py:patient", "hang", "--text", "--store", "memory:")
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as worker:
        pids = folder / "pids.txt"
        until(lambda: pids.exists() and pids.read_text())
        child = int(pids.read_text())
        assert child != worker.pid
        assert is_alive(child)
        worker.send_signal(signal.SIGKILL)
    until(lambda: not is_alive(child))
