"""How fast a long history is: `python benchmarks/history.py [--events N] [--store URL] [--json]`.

It fills a store with realistic runs through the store's own appends, and measures how fast the log is read (tail), how
long all shipped projections take to be made, and to be rebuilt beside those rows and compared with them, and how long
it takes to open a run (`show`), to list runs with a filter, and to find runs by words (`list --search`); and how long
the audit of the whole log takes, its chain of hashes and its plans apart. Peak memory is told after a tenth of the
tail, at its end, after the rebuild, and at the end.

`--store` is sqlite:///path or postgresql://... (an empty database); without it a file in a temporary folder. A store
that has events already is filled up to N, so that a second run measures without making it again.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import msgspec
from stories import fill

from redraft.app.process.lifecycle import run
from redraft.app.record.auditing.record_faults import find_faulty
from redraft.app.settings.settings import Settings, read_settings, views_path
from redraft.app.wiring.local import LocalRuntime, open_readonly
from redraft.app.wiring.rebuilding import rebuild_shipped
from redraft.events.backends import open_store
from redraft.events.store.event_store import EventStore
from redraft.projections import SHIPPED, catch_up, find_run, list_runs, open_views, tree
from redraft.projections.engine.views import Views
from redraft.projections.read_models.runs_query import RunFilter, page_of_runs

Taken: TypeAlias = tuple[float, float]
"""Seconds, and seconds of CPU time of this process and of those that it started: they tell more on a busy machine."""

ASKED: Final = 400
"""How many runs are opened, and how many lists are asked for."""


class Figures(msgspec.Struct):
    """Events a second, seconds, milliseconds, and MB of peak memory so far, in the order in which it is measured."""

    store: str
    events: int
    runs: int
    filled_per_s: float | None
    tail_per_s: float
    built_s: float
    built_cpu_s: float
    rebuilt_s: float
    rebuilt_cpu_s: float
    rebuilt_equal: bool
    open_log_ms: float
    show_p50_ms: float
    show_p99_ms: float
    list_p50_ms: float
    list_p99_ms: float
    search_p50_ms: float
    search_p99_ms: float
    chain_s: float
    chain_cpu_s: float
    plans_s: float
    plans_cpu_s: float
    faults: int
    tail_tenth_mb: float
    tail_mb: float
    rebuilt_mb: float
    audited_mb: float


async def measure(settings: Settings, events: int) -> Figures:
    async with open_store(settings.store) as store:
        there, begun = await store.head(), time.perf_counter()
        await fill(store, events)
        head, taken = await store.head(), time.perf_counter() - begun
    async with open_store(settings.store) as store:
        tail_per_s, tail_tenth_mb, tail_mb = await read(store, head)
        built, rebuilt, equal = await project(settings, store)
    rebuilt_mb = peak_mb()
    begun = time.perf_counter()
    async with open_readonly(settings) as runtime:
        open_log_ms = (time.perf_counter() - begun) * 1000
        runs = [str(run) for (run,) in await runtime.views.query("SELECT run FROM runs ORDER BY run")]
        show = percentiles([await timed(partial(opened, runtime, Random(at).choice(runs))) for at in range(ASKED)])
        lists = percentiles([await timed(partial(listed, runtime, at)) for at in range(ASKED)])
    async with open_views(views_path(settings.store), SHIPPED) as views:
        searches = percentiles([await timed(partial(searched, views, at)) for at in range(ASKED)])
    chain, plans, faults = await audit(settings)
    return Figures(
        store=settings.store.partition(":")[0],
        events=head,
        runs=len(runs),
        filled_per_s=(head - there) / taken if head > there else None,
        tail_per_s=tail_per_s,
        built_s=built[0],
        built_cpu_s=built[1],
        rebuilt_s=rebuilt[0],
        rebuilt_cpu_s=rebuilt[1],
        rebuilt_equal=equal,
        open_log_ms=open_log_ms,
        show_p50_ms=show[0],
        show_p99_ms=show[1],
        list_p50_ms=lists[0],
        list_p99_ms=lists[1],
        search_p50_ms=searches[0],
        search_p99_ms=searches[1],
        chain_s=chain[0],
        chain_cpu_s=chain[1],
        plans_s=plans[0],
        plans_cpu_s=plans[1],
        faults=faults,
        tail_tenth_mb=tail_tenth_mb,
        tail_mb=tail_mb,
        rebuilt_mb=rebuilt_mb,
        audited_mb=peak_mb(),
    )


async def read(store: EventStore, head: int) -> tuple[float, float, float]:
    """Events a second of the whole log, decoded, and peak memory after a tenth and at the end."""
    begun, count, tenth_mb = time.perf_counter(), 0, 0.0
    async for batch in store.tail(0, follow=False):
        count += len(batch)
        if not tenth_mb and count >= head // 10:
            tenth_mb = peak_mb()
    if count != head:
        raise SystemExit(f"the log has {head} events, but {count} were read")
    return count / (time.perf_counter() - begun), tenth_mb, peak_mb()


async def project(settings: Settings, store: EventStore) -> tuple[Taken, Taken, bool]:
    """Returns the time to make all shipped projections, and to rebuild them, and whether all rows were equal."""
    async with open_views(views_path(settings.store), SHIPPED) as views:
        await views.reset()
        cpu = cpu_s()
        built = await timed(lambda: catch_up(views, store)), cpu_s() - cpu
    begun, cpu = time.perf_counter(), cpu_s()
    done = await rebuild_shipped(settings)
    return built, (time.perf_counter() - begun, cpu_s() - cpu), bool(done.same) and not done.stopped


async def audit(settings: Settings) -> tuple[Taken, Taken, int]:
    """Returns the times to verify the chain of hashes and to check all runs against their plans, and the faults."""
    async with open_store(settings.store) as store:
        begun, cpu = time.perf_counter(), time.process_time()
        report = await store.verify_all()
        chain = time.perf_counter() - begun, time.process_time() - cpu
        begun, cpu = time.perf_counter(), time.process_time()
        found = await find_faulty(store, report)
        return chain, (time.perf_counter() - begun, time.process_time() - cpu), report.count + len(found)


async def opened(runtime: LocalRuntime, text: str) -> None:
    """Reads a run as `redraft show` does."""
    events = await runtime.client.history((await find_run(runtime.views, text)).run)
    if tree(events).version != len(events):
        raise SystemExit(f"run {text} has a tree of something else")


async def listed(runtime: LocalRuntime, at: int) -> None:
    """Lists runs as `redraft list` does with a filter: by workflow and outcome, one that fits nothing, or by tag."""
    match at % 3:
        case 0:
            await list_runs(runtime.views, limit=20, workflow="panel", outcome="accepted")
        case 1:
            await list_runs(runtime.views, limit=20, workflow="article", outcome="failed")
        case _:
            await list_runs(runtime.views, limit=20, tag=f"week-{at % 52 + 1}")


async def searched(views: Views, at: int) -> None:
    """Searches as `redraft list --search` does: for words that many drafts have in order, or for one of none."""
    search = ('"moon pulls harder"', "tides gravity", "absent")[at % 3]
    await page_of_runs(views, RunFilter(search=search), 20)


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """The 50th and the 99th percentile, in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100)
    return cuts[49] * 1000, cuts[98] * 1000


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await call()
    return time.perf_counter() - begun


def cpu_s() -> float:
    """CPU time of this process, and of the ended ones that it started."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_mb() -> float:
    """The most memory that this process, or one that it started, ever had."""
    most = max(resource.getrusage(whose).ru_maxrss for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return most / (1024 * 1024 if sys.platform == "darwin" else 1024)


def report(figures: Figures) -> None:
    filled = f", filled at {figures.filled_per_s:,.0f} events/s" if figures.filled_per_s else ""
    print(f"{figures.store}: {figures.events:,} events of {figures.runs:,} runs{filled}")
    print(f"tail              {figures.tail_per_s:>10,.0f} events/s")
    print(f"projections made  {figures.built_s:>10.1f} s, {figures.built_cpu_s:.1f} s of CPU time")
    print(f"and rebuilt       {figures.rebuilt_s:>10.1f} s, {figures.rebuilt_cpu_s:.1f} s of CPU time")
    print(f"open a run        {figures.show_p50_ms:>10.1f} ms p50, {figures.show_p99_ms:.1f} ms p99")
    print(f"list, filtered    {figures.list_p50_ms:>10.1f} ms p50, {figures.list_p99_ms:.1f} ms p99")
    print(f"list by words     {figures.search_p50_ms:>10.1f} ms p50, {figures.search_p99_ms:.1f} ms p99")
    print(f"open the log      {figures.open_log_ms:>10.1f} ms")
    print(f"audit: the chain  {figures.chain_s:>10.1f} s, {figures.chain_cpu_s:.1f} s of CPU time")
    print(f"and the plans     {figures.plans_s:>10.1f} s, {figures.plans_cpu_s:.1f} s of CPU time")
    print(
        f"peak memory       {figures.tail_tenth_mb:>10.0f} MB after a tenth of the tail, "
        f"{figures.tail_mb:.0f} MB after it, {figures.rebuilt_mb:.0f} MB after the rebuild, "
        f"{figures.audited_mb:.0f} MB after the audit"
    )
    if not figures.rebuilt_equal:
        print("THE REBUILT ROWS DIFFER")
    if figures.faults:
        print(f"THE AUDIT FOUND {figures.faults} FAULTS")


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--events", type=int, default=1_000_000, help="how many events (default 1000000)")
    options.add_argument("--store", default="", help="sqlite:///path, or postgresql://...: an empty database")
    options.add_argument("--json", action="store_true", help="print one JSON document")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = read_settings(store=given.store or f"sqlite:///{Path(folder) / 'history.db'}")
        figures = run(measure(settings, given.events))
    if given.json:
        print(msgspec.json.encode(figures).decode())
    else:
        report(figures)
    return 0 if figures.rebuilt_equal else 1


if __name__ == "__main__":
    sys.exit(main())
