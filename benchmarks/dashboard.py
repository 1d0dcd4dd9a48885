"""The cost and the speed of the dashboard: `python benchmarks/dashboard.py [--events N] [--seconds 20] [--json]`.

A log of N events, by default a million, is filled first (kept with --store). Then 64 loops of trivial actors go on at
once, as in `loop.py`, in the process that serves the pages; or, with --beside, in another, while `redraft serve
--read-only` serves them. --work SECONDS is what each of their steps takes (0 leaves the processor no rest).

Measured: the runs page (50 rows), asked for one after another; the time from an event to the fragment that shows it, at
a run's page; loops a second and CPU time with no page open and with 150 lists and 50 pages of one run, in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import httpx
import msgspec
from httpx import codes
from stories import fill

from redraft.actors import Actor, Critique, Draft, Receipt, Workflow, critic, generator, publisher, refiner, score
from redraft.app import Client, Settings, open_local, read_settings
from redraft.app.dashboard.routes import build_pages
from redraft.app.process.lifecycle import run
from redraft.app.process.logs import new_log
from redraft.app.server.access.sessions import Sessions
from redraft.app.server.listening import address_of, open_socket
from redraft.app.server.offers import Offers
from redraft.app.server.service import Service
from redraft.app.server.serving import answer_http
from redraft.app.wiring.local import open_readonly
from redraft.events.backends import open_store

AT_ONCE: Final = 64
LISTS, RUNS = 150, 50
"""The pages that are open at the same time."""

WATCHING: Final = Path(__file__).with_name("watching.py")
TEXT: Final = ("Tides exist because gravity weakens with distance. " * 41)[:2048]
WORK: dict[str, float] = {"step": 0.0, "watched": 0.3}
"""The seconds of a step of the 64 runs, and of the run whose page is open."""


@generator
async def write() -> str:
    await asyncio.sleep(WORK["step"])
    return TEXT


@critic
async def judge(draft: Draft) -> Critique:
    await asyncio.sleep(WORK["step"])
    return Critique(0.5, suggestions=("say why the far side bulges too",))


@refiner
async def improve(draft: Draft) -> str:
    await asyncio.sleep(WORK["step"])
    return draft.text[1:] + draft.text[0]


@publisher
async def save(draft: Draft) -> Receipt:
    await asyncio.sleep(WORK["step"])
    return Receipt("nowhere")


@critic
async def ponder(draft: Draft) -> Critique:
    await asyncio.sleep(WORK["watched"])
    return Critique(0.5)


def workflow() -> Workflow:
    loop = Workflow("loop").start_with(write)
    return loop.repeat_until(score >= 0.9, max_iterations=3, name="Refinement", body=[judge, improve]).finally_(save)


def watched() -> Workflow:
    """A run that goes on for as long as anybody looks."""
    loop = Workflow("watched").start_with(write)
    return loop.repeat_until(score >= 0.9, max_iterations=1_000, name="Refinement", body=[ponder, improve])


ACTORS: Final[Sequence[Actor]] = (*workflow().actors.values(), ponder)


class Place(msgspec.Struct):
    """The places of loops and pages, and the processes of both."""

    client: Client
    url: str
    pids: tuple[int, ...]


class Turn(msgspec.Struct):
    """Measured for some seconds: loops a second, the CPU milliseconds of Redraft's processes for each, and those of the
    process that serves the pages, for each second."""

    loops_per_s: float
    cpu_ms_per_loop: float
    serving_ms_per_s: float


class Figures(msgspec.Struct):
    """Times in milliseconds. `cost` is the share of loops a second that open pages take, `cpu_cost` that of CPU."""

    events: int
    page_p50_ms: float
    page_p99_ms: float
    page_cpu_ms: float
    alone: Turn
    watched: Turn
    cost: float
    cpu_cost: float
    shown: int
    shown_p50_ms: float
    shown_p99_ms: float
    mb_per_s: float


@asynccontextmanager
async def together(settings: Settings) -> AsyncIterator[Place]:
    """The loops and the pages in this process, as `redraft serve` has them on `local:`."""
    made: list[Service] = []
    drain, ready = asyncio.Event(), asyncio.Event()

    def pages(service: Service, sessions: Sessions) -> object:
        made.append(service)
        return build_pages(service, sessions)

    with open_socket(settings.http) as bound:
        log = new_log(sys.stderr, "json", "benchmark")
        serving = answer_http(settings, Offers({}, ACTORS), bound, drain, ready.set, log, pages)  # type: ignore[arg-type]
        task = asyncio.create_task(serving)
        await asyncio.wait({task, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
        yield Place(made[0].runtime.client, address_of(settings.http, bound), (os.getpid(),))
        drain.set()
        await task


@asynccontextmanager
async def beside(settings: Settings) -> AsyncIterator[Place]:
    """The loops in this process, the pages in another that only looks."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    async with open_local(settings, ACTORS) as runtime:
        command = ("-m", "redraft", "serve", "--read-only", "--port", str(port), "--store", settings.store)
        quota = {"REDRAFT_HTTP": settings.http.model_dump_json(include={"requests_per_minute"})}
        serving = await asyncio.create_subprocess_exec(sys.executable, *command, env=os.environ | quota, stderr=PIPE)
        assert serving.stderr is not None  # noqa: S101 - a pipe was asked for
        while b"listening" not in await serving.stderr.readline():
            pass
        draining = asyncio.create_task(serving.stderr.read())
        yield Place(runtime.client, f"http://127.0.0.1:{port}", (os.getpid(), serving.pid))
        serving.terminate()
        await draining
        await serving.wait()


class Lanes:
    """64 loops after each other, side by side; `done` of them have ended."""

    def __init__(self, client: Client) -> None:
        self.done = 0
        self._client = client
        self._tasks = [asyncio.create_task(self._lane()) for _ in range(AT_ONCE)]

    async def _lane(self) -> None:
        plan = workflow().plan
        while True:
            await self._client.wait(await self._client.submit(plan, "Why tides exist"))
            self.done += 1

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def cpu_seconds(pids: Sequence[int]) -> float:
    """The CPU time that these processes have used."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def turn(place: Place, lanes: Lanes, seconds: float) -> Turn:
    done, cpu, served, begun = lanes.done, cpu_seconds(place.pids), cpu_seconds(place.pids[-1:]), time.perf_counter()
    await asyncio.sleep(seconds)
    loops, taken = max(lanes.done - done, 1), time.perf_counter() - begun
    serving = (cpu_seconds(place.pids[-1:]) - served) * 1000 / taken
    return Turn(loops / taken, (cpu_seconds(place.pids) - cpu) * 1000 / loops, serving)


async def watch(place: Place, run: str) -> Process:
    """Opens the pages, once there is one of the run, which the read models know a moment after it began."""
    async with httpx.AsyncClient(base_url=place.url, timeout=60) as client, asyncio.timeout(60):
        while (await client.get(f"/runs/{run}")).status_code != codes.OK:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
    given = ("open", place.url, run, str(LISTS), str(RUNS))
    return await asyncio.create_subprocess_exec(sys.executable, WATCHING, *given, stdin=PIPE, stdout=PIPE)


async def measure(settings: Settings, seconds: float, turns: int, asked: int, *, is_beside: bool) -> Figures:
    async with (beside if is_beside else together)(settings) as place:
        lanes = Lanes(place.client)
        await asyncio.sleep(min(seconds, 5))
        command = ("ask", place.url, str(asked))
        cpu, begun = cpu_seconds(place.pids[-1:]), time.perf_counter()
        asking = await asyncio.create_subprocess_exec(sys.executable, WATCHING, *command, stdout=PIPE)
        page = json.loads((await asking.communicate())[0])
        cpu, took = cpu_seconds(place.pids[-1:]) - cpu, time.perf_counter() - begun
        alone: list[Turn] = []
        looked: list[Turn] = []
        shown: list[float] = []
        received = 0
        for _ in range(turns):
            alone.append(await turn(place, lanes, seconds))
            run = await place.client.submit(watched(), "A run that is looked at")
            looking = await watch(place, run)
            await asyncio.sleep(1)
            looked.append(await turn(place, lanes, seconds))
            seen = json.loads((await looking.communicate(b"\n"))[0])
            received += seen["bytes"]
            shown += await _delays(place.client, run, {int(n): at for n, at in seen["seen"].items()})
            await place.client.cancel(run)
        await lanes.stop()
        async with open_store(settings.store) as store:
            events = await store.head()
        rested = statistics.median(each.serving_ms_per_s for each in alone)
        return _figures(
            events,
            page,
            (cpu * 1000 - rested * took) / asked,
            alone,
            looked,
            shown,
            received / turns / (seconds + 1) / 1e6,
        )


async def _delays(client: Client, run: str, seen: dict[int, float]) -> list[float]:
    """Seconds from each event's time, which is before its commit, to the first fragment with it or a later one."""
    history = await client.history(run)
    first = min(seen, default=0)
    found = []
    for event in history:
        at = min((time for version, time in seen.items() if version >= event.version), default=None)
        if at is not None and event.version > first:
            found.append(at - event.time.timestamp())
    return found


def _figures(
    events: int,
    page: Sequence[float],
    page_cpu: float,
    alone: Sequence[Turn],
    looked: Sequence[Turn],
    shown: Sequence[float],
    mb_per_s: float,
) -> Figures:
    def middle(turns: Sequence[Turn]) -> Turn:
        numbers = zip(*((each.loops_per_s, each.cpu_ms_per_loop, each.serving_ms_per_s) for each in turns), strict=True)
        return Turn(*map(statistics.median, numbers))

    without, within = middle(alone), middle(looked)
    pages, delays = _cuts(page), _cuts(shown)
    return Figures(
        *(events, pages[49], pages[98], page_cpu, without, within, 1 - within.loops_per_s / without.loops_per_s),
        *(within.cpu_ms_per_loop / without.cpu_ms_per_loop - 1, len(shown), delays[49], delays[98], mb_per_s),
    )


def _cuts(seconds: Sequence[float]) -> list[float]:
    found = statistics.quantiles(seconds, n=100) if len(seconds) > 1 else [*seconds, 0.0][:1] * 99
    return [each * 1000 for each in found]


async def prepare(store: str, events: int) -> None:
    """Fills the log up, and lets the read models catch up with it."""
    async with open_store(store) as log:
        await fill(log, events)
    async with open_readonly(read_settings(store=store)):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=20, help="of each turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--asked", type=int, default=400, help="how often the runs page is asked for")
    parser.add_argument("--work", type=float, default=0.0, help="seconds of a step of the 64 runs")
    parser.add_argument("--store", default="", help="sqlite:///path, which is filled up and kept")
    parser.add_argument("--beside", action="store_true", help="serve the pages from a process of their own")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    WORK["step"] = given.work
    with tempfile.TemporaryDirectory() as folder:
        store = given.store or f"sqlite:///{folder}/log.db"
        run(prepare(store, given.events))
        http = {"port": 0, "requests_per_minute": 10_000_000}
        settings = read_settings(store=store, http=http)
        with suppress(KeyboardInterrupt):
            figures = run(measure(settings, given.seconds, given.turns, given.asked, is_beside=given.beside))
            report(figures, as_json=given.json)


def report(figures: Figures, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(figures).decode())
        return
    page = f"p50 {figures.page_p50_ms:.1f} ms, p99 {figures.page_p99_ms:.1f} ms, {figures.page_cpu_ms:.1f} ms CPU"
    shown = f"p50 {figures.shown_p50_ms:.0f} ms, p99 {figures.shown_p99_ms:.0f} ms ({figures.shown} events)"
    print(f"log: {figures.events:,} events, {AT_ONCE} runs going on\nruns page: {page}\nevent to open page: {shown}")
    for name, each in (("no page open", figures.alone), (f"{LISTS + RUNS} pages open", figures.watched)):
        spent = f"{each.cpu_ms_per_loop:.2f} ms CPU a loop, the server {each.serving_ms_per_s:.0f} ms/s"
        print(f"{name}: {each.loops_per_s:.1f} loops/s, {spent}")
    cost = f"{figures.cost:.1%} of the loops, {figures.cpu_cost:+.1%} CPU"
    print(f"open pages cost {cost}; {figures.mb_per_s:.1f} MB/s sent")


if __name__ == "__main__":
    main()
