"""`redraft run --batch`: many briefs, a progress bar, and a table of how they ended."""

from __future__ import annotations

import asyncio
import io
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TextIO

from redraft.app.batch import Ended, Item, key_of, read_batch, run_batch
from redraft.app.cli.faults import FAILED, UNACCEPTED, say
from redraft.app.cli.interrupts import interrupts
from redraft.app.cli.order import Given, prepared
from redraft.app.cli.output import out, print_json
from redraft.app.compose import open_house
from redraft.app.loop import run
from redraft.app.models import models_of
from redraft.app.outlets import Outlets
from redraft.app.settings import Settings, read_settings
from redraft.events.domain_events import StepRequested
from redraft.events.errors import InputError, RedraftError
from redraft.events.plan import Plan
from redraft.events.tags import checked_tags
from redraft.projections.plain import counted, outcome_text, plain, score_text, usage_text

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID
    from rich.table import Table

    from redraft.actors.roles import Actor
    from redraft.app.compose import House

GRACE: Final = 10.0
"""Seconds that the steps under way have to end after the first signal."""

_BRIEF: Final = 50


class Bar(Protocol):
    def advance(self, ended: Ended) -> None: ...


def conduct_batch(given: Given, store: str | None, *, json: bool, quiet: bool) -> int:
    """Runs the briefs of a file and tells how each ended; returns the exit code. Raises RedraftError."""
    settings = read_settings(store=store)
    models = models_of(settings)
    results = sys.stdout if json else None
    with redirect_stdout(sys.stderr):  # what the user's own functions print must not mix with the results
        name = _workflow(given)
        items = read_batch(Path(given.batch), settings.draft_limit, checked_tags(given.tags))
        longest = max((item.brief for item in items), key=lambda brief: len(brief.text))
        outlets = Outlets(io.StringIO(), Path.cwd(), models=models, webhook_hosts=settings.webhook_hosts)
        plan, actors, written = prepared(given, name, outlets, longest)
        keys = [key_of(written, item, given.key) for item in items]
        done: list[Ended] = []
        with _bar(len(items), quiet=quiet) as bar:
            signal = run(_conducted(settings, plan, actors, items, keys, given.concurrency, done, bar, results))
    if not json:
        out().print(_table(sorted(done, key=lambda each: each.line), items))
    say(_summary(done, len(items)))
    if signal:
        say("interrupted; the same command goes on where it was")
        return 128 + signal
    outcomes = {each.result.outcome for each in done}
    return FAILED if "failed" in outcomes else UNACCEPTED if outcomes - {"accepted"} else 0


def _workflow(given: Given) -> str:
    """The workflow that is named; a batch has no other source than its file."""
    for option, there in {"--resume": bool(given.resume), "--text": given.as_text, "--watch": given.watch}.items():
        if there:
            raise InputError(f"--batch runs the briefs of a file; leave {option} out")
    if given.concurrency < 1:
        raise InputError(f"--concurrency {given.concurrency}: at least 1 run has to go on at a time")
    if given.out and "{run}" not in given.out:
        raise InputError(f"--out {given.out}: every run would write this file; put {{run}} into its name")
    match given.words:
        case []:
            return given.workflow or "prose"
        case [workflow] if not given.workflow:
            return workflow
        case _:
            raise InputError("--batch names the source; give the workflow, and nothing beside it")


async def _conducted(
    settings: Settings,
    plan: Plan,
    actors: tuple[Actor, ...],
    items: Sequence[Item],
    keys: Sequence[str],
    concurrency: int,
    done: list[Ended],
    bar: Bar,
    results: TextIO | None,
) -> int:
    """Runs them all; gives the number of the signal that came before they had ended, or 0."""

    def ended(each: Ended) -> None:
        done.append(each)
        bar.advance(each)
        if results is not None:
            with redirect_stdout(results):
                print_json({"line": each.line, "id": each.id, **_document(each)})

    with interrupts() as signals:
        async with open_house(settings, actors) as house:
            after = await house.store.head()
            working = asyncio.create_task(run_batch(house, plan, items, keys, concurrency, ended))
            await asyncio.wait({working, signals.first}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                _raise_first(working)
                return 0
            house.drain()
            say("stopping when the steps under way have ended; press Ctrl-C again to stop at once")
            idle = asyncio.create_task(_idle(house, after))
            await asyncio.wait({working, idle, signals.second}, timeout=GRACE, return_when=asyncio.FIRST_COMPLETED)
            for task in (idle, working):
                task.cancel()
            await asyncio.wait({idle, working})
            return signals.number


def _raise_first(working: asyncio.Task[None]) -> None:
    """Of several errors the one that people can act on."""
    try:
        working.result()
    except BaseExceptionGroup as errors:
        told = next((each for each in errors.exceptions if isinstance(each, RedraftError)), errors.exceptions[0])
        raise told from None


async def _idle(house: House, after: int) -> None:
    """Returns when everything that was asked for when it began has been answered."""
    open_steps: set[tuple[str, str, int]] = set()
    async for event in house.client.subscribe(after, follow=False):
        _note(open_steps, event.run, event.data)
        after = event.position
    waited = set(open_steps)
    if not waited:
        return
    async for event in house.client.subscribe(after):
        _note(waited, event.run, event.data, new=False)
        if not waited:
            return


def _note(steps: set[tuple[str, str, int]], run_id: str, event: object, *, new: bool = True) -> None:
    path, attempt = getattr(event, "path", None), getattr(event, "attempt", None)
    if not isinstance(path, str) or not isinstance(attempt, int):
        return
    if isinstance(event, StepRequested):
        if new:
            steps.add((run_id, path, attempt))
    else:
        steps.discard((run_id, path, attempt))


@contextmanager
def _bar(total: int, *, quiet: bool) -> Iterator[Bar]:
    """A progress bar on a terminal, a line for each run elsewhere, nothing if it is to be quiet."""
    if quiet:
        yield _Silent()
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(file=sys.stderr)) as progress:
            yield _Drawn(progress, progress.add_task("runs", total=total))
    else:
        yield _Told(total)


class _Silent:
    def advance(self, ended: Ended) -> None:
        """Says nothing."""


class _Told:
    """A line for each run that has ended."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._ended = 0

    def advance(self, ended: Ended) -> None:
        self._ended += 1
        result = ended.result
        score = f", score {score_text(result.score)}" if result.score is not None else ""
        told = f"{plain(ended.id, 40)} {outcome_text(result.outcome)}{score}, run {result.run}"
        print(f"{self._ended}/{self._total} {told}", file=sys.stderr, flush=True)  # noqa: T201


class _Drawn:
    """A progress bar that says how many ended how."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self._counts: Counter[str] = Counter()

    def advance(self, ended: Ended) -> None:
        self._counts[outcome_text(ended.result.outcome)] += 1
        told = ", ".join(f"{number} {outcome}" for outcome, number in self._counts.most_common())
        self._progress.update(self._task, advance=1, description=told)


def _document(ended: Ended) -> dict[str, object]:
    return {name: getattr(ended.result, name) for name in ended.result.__struct_fields__}


def _table(done: Sequence[Ended], items: Sequence[Item]) -> Table:
    from rich.table import Table
    from rich.text import Text

    briefs = {item.line: item.brief.text for item in items}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, right in (("id", False), ("outcome", False), ("score", True), ("iterations", True), ("run", False)):
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    table.add_column("brief", no_wrap=True)
    for each in done:
        result = each.result
        table.add_row(
            plain(each.id, 40),
            outcome_text(result.outcome),
            score_text(result.score) if result.score is not None else "",
            str(result.iterations),
            result.run,
            Text(plain(briefs[each.line].lstrip().partition("\n")[0], _BRIEF), overflow="ellipsis"),
        )
    return table


def _summary(done: Sequence[Ended], total: int) -> str:
    counts = Counter(outcome_text(each.result.outcome) for each in done)
    told = ", ".join(f"{number:,} {outcome}" for outcome, number in counts.most_common()) or "none ended"
    left = f", {total - len(done):,} not ended" if len(done) < total else ""
    usage = sum((each.result.usage for each in done[1:]), done[0].result.usage) if done else None
    used = f"; {usage_text(usage)}" if usage is not None and not usage.is_nothing else ""
    return f"{counted(total, 'brief')}: {told}{left}{used}"
