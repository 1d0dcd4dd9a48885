"""Starts or resumes a run, shows its progress, lets a person interrupt it, and prints its result."""

from __future__ import annotations

import asyncio
import io
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from redraft.actors.plans.paths import steps_in
from redraft.actors.workflow.actor import Actor
from redraft.app.cli.running.progress import RunProgress, Screen
from redraft.app.cli.running.run_request import RunRequest, begin_run, new_request, resume_request
from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.exit_codes import FAILED, UNACCEPTED
from redraft.app.cli.shared.options import RunOptions
from redraft.app.cli.shared.output import print_json, print_result, print_text
from redraft.app.cli.shared.signals import Interrupts, interrupts, until_done
from redraft.app.cli.shared.slow import say_if_slow
from redraft.app.client.client import Client
from redraft.app.client.result import Result, result_of
from redraft.app.models.configuration import models_of
from redraft.app.process.lifecycle import run as run_loop
from redraft.app.process.logs import libraries, shown_url
from redraft.app.process.user_output import user_output
from redraft.app.settings.settings import Settings, read_settings
from redraft.app.subscribing.subscriber import is_end
from redraft.app.telemetry.sdk import exporting
from redraft.app.wiring.deployment import open_client
from redraft.app.wiring.local import LocalRuntime, open_local
from redraft.app.wiring.stores import open_store_of
from redraft.app.workflows.publish_targets import ActorEnvironment
from redraft.events.errors import InputError
from redraft.events.messages.commands import StartRun
from redraft.events.messages.content import NOTICE
from redraft.events.messages.domain_events import Outcome
from redraft.events.messages.scales import score_text
from redraft.projections.display import counted, outcome_text, plain, usage_text

UNFIT: Final[frozenset[Outcome]] = frozenset({"failed", "rejected"})
"""Outcomes of runs whose draft is not for use: it is printed as part of the JSON document only, beside its outcome."""


def print_end(result: Result, *, text: bool, json: bool, quiet: bool, texts: bool = False) -> int:
    """Prints the result as JSON, or its `text` if that is wanted, and one line about it; gives the exit code.

    The JSON has the `texts` of all attempts where they are wanted. Of a run that failed or was rejected it prints no
    text, and says how to look at it. What critics say that they did not judge has a line each.
    """
    withheld = text and result.draft is not None and result.outcome in UNFIT
    if json:
        print_json(result if texts else result.without_texts())
    elif result.draft and text and not withheld:
        print_text(result.text)
    if not quiet or result.outcome != "accepted":
        say(_sentence(result) + (f"; its last draft: redraft show {result.run} --text" if withheld else ""))
        for notice in _list_notices(result):
            say(notice)
    match result.outcome:
        case "accepted":
            return 0
        case "failed":
            return FAILED
        case _:
            return UNACCEPTED


def _list_notices(result: Result) -> Iterable[str]:
    """Returns the parts that critics did not judge, each once, in the order of the critiques."""
    return dict.fromkeys(
        f"{plain(each.critique.critic)}: {plain(notice)}"
        for each in result.critiques
        if isinstance(notice := each.critique.details.get(NOTICE), str)
    )


def _sentence(result: Result) -> str:
    score = f"score {score_text(result.score, result.scale)}" if result.score is not None else "no score"
    used = "" if result.usage.is_nothing else f"{usage_text(result.usage)}, "
    iterations = counted(result.iterations, "iteration")
    return f"{outcome_text(result.outcome)}, {score}, {iterations}, {used}run {result.run}: {result.reason}"


GRACE: Final = 10.0
"""Seconds that the steps under way have to end after the first signal; what they cost would be paid again."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A signal ended the process before the run ended. `recorded`: the run is in the log, and can go on."""

    signal: int
    run: str
    recorded: bool


def run_locally(given: RunOptions, store: str | None, *, json: bool, quiet: bool) -> int:
    """Starts or resumes a run in this process and prints its end; returns the exit code. Raises RedraftError."""
    if given.texts and not json:
        raise InputError("--texts is for --json: add --json, or leave it out")

    def request(environment: ActorEnvironment, settings: Settings) -> RunRequest:
        if given.resume:
            return resume_request(given, environment, settings)
        return new_request(given, environment, settings.max_draft_bytes)

    return run_request_locally(request, store, json=json, quiet=quiet, watch=given.watch, texts=given.texts)


def run_request_locally(
    prepare_request: Callable[[ActorEnvironment, Settings], RunRequest],
    store: str | None,
    *,
    json: bool,
    quiet: bool,
    watch: bool = False,
    texts: bool = False,
) -> int:
    """Runs any request in this process and prints its end. `watch` shows the output of models as it comes.

    `texts`: the JSON has the texts before and after each refinement.
    """
    settings = read_settings(store=store)
    screen = Screen(sys.stderr, quiet=quiet)
    models = models_of(settings, screen.write if watch else None)
    stream = io.StringIO() if json else sys.stdout
    environment = ActorEnvironment(stream, Path.cwd(), screen.pause, models, settings.webhook_hosts)
    end: Result | Interrupted | None
    with user_output():
        request = prepare_request(environment, settings)
        end = result_of(request.past) if request.has_ended else None
        if end is None:
            with exporting("run", say):
                end = run_loop(_run_to_end(settings, request, screen))
    if isinstance(end, Interrupted):
        return _report_interrupted(end, store, settings)
    publishes = any(step.role == "publisher" for _, step in steps_in(request.plan.steps))
    return print_end(end, text=request.has_ended or not publishes, json=json, quiet=quiet, texts=texts)


async def _run_to_end(settings: Settings, request: RunRequest, screen: Screen) -> Result | Interrupted:
    def differs(actor: Actor, version: str, run: str) -> None:
        screen.pause()
        here = actor.version or "unknown"
        say(f"{actor.role} {actor.name}: the run began with version {version} of its code, and this is {here}")

    with interrupts() as signals:
        resume = [request.run] if request.run else []
        async with open_local(settings, request.actors, resume=resume, differs=differs) as runtime:
            after = request.past[-1].position if request.past else await runtime.store.head()
            run, start = await begin_run(runtime.client, request, "redraft run")
            await runtime.client.require_own(start)
            try:
                return await _follow_run(runtime, run, after, screen, signals)
            finally:
                screen.pause()


async def _follow_run(
    runtime: LocalRuntime, run: str, after: int, screen: Screen, signals: Interrupts
) -> Result | Interrupted:
    """Returns the end of a run, at once if it has ended; else shows what happens behind this position of the log."""
    known = await runtime.store.read(run)
    if (ended := result_of(known)) is not None:
        return ended
    progress = RunProgress()
    for event in known:
        if event.position <= after:
            progress.note(event)
    return await _watch_run(runtime, run, after, progress, screen, signals)


async def _watch_run(
    runtime: LocalRuntime, run: str, after: int, progress: RunProgress, screen: Screen, signals: Interrupts
) -> Result | Interrupted:
    """Shows what happens until the run has ended or a signal came; then lets the steps under way end."""

    def drain() -> None:
        runtime.drain()
        say("stopping when the step under way has ended; press Ctrl-C again to stop at once")

    screen.show("", progress.status)
    moved = asyncio.Event()
    watching = asyncio.create_task(_watch(runtime.client, run, after, progress, screen, moved))
    try:
        if not await until_done(watching, signals, drain, partial(_idle, progress, moved), GRACE):
            return Interrupted(signals.number, run, bool(await runtime.store.read(run, upto=1)))
        await watching
        return await runtime.client.wait(run)
    finally:
        watching.cancel()


async def _watch(
    client: Client, run: str, after: int, progress: RunProgress, screen: Screen, moved: asyncio.Event
) -> None:
    """Shows progress until the run has ended, without what a fork repeats. Raises InputError where it is refused."""
    await client.wait(run, "run.started")
    async for event in client.subscribe(after, run=run):
        line = progress.note(event)
        screen.show("" if event.repeats else line, progress.status)
        moved.set()
        if is_end(event):
            return


async def _idle(progress: RunProgress, moved: asyncio.Event) -> None:
    """Returns when what is being worked on now has been answered; what is asked for after that is not waited for."""
    waiting = set(progress.open)
    while waiting & progress.open:
        moved.clear()
        await moved.wait()


def _report_interrupted(end: Interrupted, store: str | None, settings: Settings) -> int:
    if settings.store == "memory:":
        say("interrupted; the store memory: keeps nothing")
    elif not end.recorded:
        say("interrupted before anything was recorded; run it again")
    else:
        where = f" --store {shlex.quote(shown_url(store))}" if store else ""
        say(f"interrupted; go on with: redraft run --resume {end.run}{where}")
    return 128 + end.signal


def submit_request(
    settings: Settings, request: RunRequest, facts: Mapping[str, object], *, wait: bool, json: bool, quiet: bool
) -> int:
    """Submits a run and prints its id or, where that is waited for, its end; returns the exit code.

    `facts` stand beside the id in JSON.
    """
    with libraries(), exporting("submit", say):
        if wait:
            end = run_loop(_wait_for_run(settings, request, Screen(sys.stderr, quiet=quiet)))
            return end if isinstance(end, int) else print_end(end, text=True, json=json, quiet=quiet)
        run = run_loop(_submit(settings, request))
    print_result({"run": run, **facts}, [run], json=json)
    return 0


async def _submit(settings: Settings, request: RunRequest) -> str:
    async with open_client(settings, reads=request.parent is not None) as client:
        run, _ = await say_if_slow(begin_run(client, request, "redraft submit"))
        return run


async def _wait_for_end(client: Client, run: str, start: StartRun | None, after: int, screen: Screen) -> Result:
    """Returns the result of a run, and shows meanwhile what happens behind this position of the log."""
    await client.require_own(start)
    if (ended := await client.result(run)) is not None:
        return ended
    await _watch(client, run, after, RunProgress(), screen, asyncio.Event())
    return await client.wait(run)


async def _wait_for_run(settings: Settings, request: RunRequest, screen: Screen) -> Result | int:
    """Returns the result of the run, or the exit code of a signal that came first."""
    with interrupts() as signals:
        async with open_store_of(settings) as store:
            after = await store.head()
        async with open_client(settings) as client:
            run, start = await say_if_slow(begin_run(client, request, "redraft submit"))
            screen.show(f"run {run} is submitted", "waiting")
            watching = asyncio.create_task(_wait_for_end(client, run, start, after, screen))
            try:
                first: set[asyncio.Future[Any]] = {watching, signals.first}
                await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
                if watching.done():
                    return await watching
            finally:
                watching.cancel()
                screen.pause()
    say(f"interrupted; the run goes on: redraft show {run}")
    return 128 + signals.number
