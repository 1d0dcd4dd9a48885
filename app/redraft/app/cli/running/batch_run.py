"""`redraft run --batch`: many briefs, a progress bar, and a table of how they ended."""

from __future__ import annotations

import asyncio
import io
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import asdict, replace

from redraft.actors.workflow.actor import Actor
from redraft.app.cli.running.progress import RunProgress
from redraft.app.cli.running.run_locally import GRACE
from redraft.app.cli.running.run_request import prepare_batch
from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.exit_codes import FAILED, UNACCEPTED, USAGE
from redraft.app.cli.shared.options import RunOptions
from redraft.app.cli.shared.output import print_json
from redraft.app.cli.shared.signals import interrupts, until_done
from redraft.app.cli.shared.tables import print_table
from redraft.app.client.result import Result, check_values
from redraft.app.models.configuration import models_of
from redraft.app.process.lifecycle import run
from redraft.app.process.user_output import user_output
from redraft.app.runs.refine import Ended, Item, key_of, read_batch, run_batch
from redraft.app.settings.settings import Settings, read_settings
from redraft.app.telemetry.sdk import exporting
from redraft.app.wiring.local import LocalRuntime, open_local
from redraft.app.workflows.briefs import require_prose
from redraft.app.workflows.publish_targets import ActorEnvironment
from redraft.app.workflows.state_values import read_state, with_state
from redraft.events.errors import InputError, RedraftError
from redraft.events.messages.content import Files
from redraft.events.messages.plan import Plan
from redraft.events.messages.scales import score_text
from redraft.events.messages.tags import check_tags
from redraft.events.messages.usage import Usage
from redraft.projections.display import counted, outcome_text, plain, usage_text

if TYPE_CHECKING:
    from rich.progress import Progress as ProgressBar
    from rich.progress import TaskID


SET_ASIDE: Final = "set aside"
REFUSED: Final = "refused"

_BRIEF: Final = 50


@dataclass(frozen=True, slots=True)
class Batch:
    """A plan, its actors and their files, and the briefs to run it for, with a key each."""

    plan: Plan
    actors: tuple[Actor, ...]
    items: Sequence[Item]
    keys: Sequence[str]
    files: Files


def run_batch_locally(given: RunOptions, store: str | None, *, json: bool, quiet: bool) -> int:
    """Runs the briefs of a file and prints the end of each; returns the exit code. Raises RedraftError."""
    settings = read_settings(store=store)
    results, done = sys.stdout, list[Ended]()
    with user_output():
        batch = _read(given, settings)
        with _progress(len(batch.items), quiet=quiet) as show:

            def ended(each: Ended) -> None:
                done.append(each)
                show(each)
                if json:
                    with redirect_stdout(results):
                        print_json({"line": each.line, "id": each.id, **_end_facts(each, texts=given.texts)})

            with exporting("run", say):
                signal = run(_run_to_end(settings, batch, given.concurrency, ended))
    done.sort(key=lambda each: each.line)
    if not json:
        _print_table(done, batch.items)
    for each in done:
        if not isinstance(each.end, Result):
            say(f"{given.batch}:{each.line}: {each.end}")
    say(_summary(done, len(batch.items)))
    if signal:
        say("interrupted; run the same command again to continue")
        return 128 + signal
    return _exit_code({_how(each) for each in done})


def _exit_code(ends: set[str]) -> int:
    if ends & {"failed", SET_ASIDE}:
        return FAILED
    return USAGE if REFUSED in ends else UNACCEPTED if ends - {"accepted"} else 0


def _how(ended: Ended) -> str:
    """Returns in words how a run ended, or that it was set aside or refused."""
    if isinstance(ended.end, Result):
        return outcome_text(ended.end.outcome)
    return REFUSED if isinstance(ended.end, InputError) else SET_ASIDE


def _end_facts(ended: Ended, *, texts: bool) -> dict[str, object]:
    """Returns the result of a run as JSON has it; of one without a result its id, no outcome, and the `error`."""
    if isinstance(ended.end, Result):
        return asdict(ended.end if texts else ended.end.without_texts())
    return {"run": ended.run, "outcome": None, "error": str(ended.end)}


def _read(given: RunOptions, settings: Settings) -> Batch:
    """Returns the batch that the options mean. Raises InputError."""
    models = models_of(settings)
    name = _workflow(given)
    values = read_state(given.settings)
    items = [
        replace(item, brief=with_state(item.brief, values))
        for item in read_batch(Path(given.batch), settings.max_draft_bytes, check_tags(given.tag or ()))
    ]
    if not (given.workflow or given.words):
        for item in items:
            require_prose(item.brief, f"{given.batch}:{item.line}")
    longest = max((item.brief for item in items), key=lambda brief: len(brief.text))
    environment = ActorEnvironment(io.StringIO(), Path.cwd(), models=models, webhook_hosts=settings.webhook_hosts)
    plan, actors, written, files = prepare_batch(given, name, environment, longest)
    for item in items:
        _check_item(plan, item, given.batch)
    return Batch(plan, actors, items, [key_of(written, item, given.key or "") for item in items], files)


def _check_item(plan: Plan, item: Item, file: str) -> None:
    try:
        check_values(plan, item.brief.state)
    except InputError as error:
        raise InputError(f"{file}:{item.line}: {error}") from None


def _workflow(given: RunOptions) -> str:
    """The workflow that is named; a batch has no other source than its file."""
    for option, there in {"--resume": bool(given.resume), "--text": given.text, "--watch": given.watch}.items():
        if there:
            raise InputError(f"--batch runs the briefs of a file; leave {option} out")
    if given.out and "{run}" not in given.out:
        raise InputError(f"--out {given.out}: every run would write this file; put {{run}} into its name")
    match given.words:
        case []:
            return given.workflow or "prose"
        case [workflow] if not given.workflow:
            return workflow
        case _:
            raise InputError("--batch names the file of sources; give only the workflow beside it")


async def _run_to_end(settings: Settings, batch: Batch, concurrency: int, ended: Callable[[Ended], None]) -> int:
    """Runs all items; returns the number of the signal that came before their end, or 0."""

    def drain() -> None:
        runtime.drain()
        say("stopping when the steps under way have ended; press Ctrl-C again to stop at once")

    with interrupts() as signals:
        async with open_local(settings, batch.actors) as runtime:
            idle = partial(_idle, runtime, await runtime.store.head())
            running = run_batch(runtime, batch.plan, batch.items, batch.keys, concurrency, ended, batch.files)
            working = asyncio.create_task(running)
            if await until_done(working, signals, drain, idle, GRACE):
                _raise_first(working)
                return 0
            working.cancel()
            await asyncio.wait({working})
            return signals.number


def _raise_first(working: asyncio.Task[None]) -> None:
    """Raises the one of several errors that people can act on."""
    try:
        working.result()
    except BaseExceptionGroup as errors:
        known = (each for each in errors.exceptions if isinstance(each, RedraftError))
        raise next(known, errors.exceptions[0]) from None


async def _idle(runtime: LocalRuntime, after: int) -> None:
    """Returns when everything that was asked for when it began has been answered."""
    runs: defaultdict[str, RunProgress] = defaultdict(RunProgress)
    async for event in runtime.client.subscribe(after, follow=False):
        runs[event.run].note(event)
        after = event.position
    asked = [(run, attempt) for run, progress in runs.items() for attempt in progress.open]
    async for event in runtime.client.subscribe(after, follow=bool(asked)):
        runs[event.run].note(event)
        if not any(attempt in runs[run].open for run, attempt in asked):
            return


@contextmanager
def _progress(total: int, *, quiet: bool) -> Iterator[Callable[[Ended], None]]:
    """Yields what shows that a run ended: on a progress bar in a terminal, else by a line; not at all if `quiet`."""
    if quiet:
        yield lambda ended: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(file=sys.stderr)) as bar:
            yield partial(_advance, bar, bar.add_task("runs", total=total), Counter())
    else:
        yield partial(_print_end, count(1), total)


def _advance(bar: ProgressBar, task: TaskID, counts: Counter[str], ended: Ended) -> None:
    """Moves the bar on; it says how many runs ended how."""
    counts[_how(ended)] += 1
    bar.update(task, advance=1, description=_format_counts(counts))


def _print_end(numbers: Iterator[int], total: int, ended: Ended) -> None:
    shown = _shown_score(ended)
    score, run = f", score {shown}" if shown else "", f", run {ended.run}" if ended.run else ""
    end = f"{plain(ended.id, 40)} {_how(ended)}{score}{run}"
    print(f"{next(numbers)}/{total} {end}", file=sys.stderr, flush=True)  # noqa: T201


def _shown_score(ended: Ended) -> str:
    """Returns the score of a run as people read it; empty where it has none."""
    end = ended.end
    return score_text(end.score, end.scale) if isinstance(end, Result) and end.score is not None else ""


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} {outcome}" for outcome, number in counts.most_common())


def _print_table(done: Sequence[Ended], items: Sequence[Item]) -> None:
    briefs = {item.line: plain(item.brief.text.lstrip().partition("\n")[0], _BRIEF) for item in items}
    rows = [
        (
            plain(each.id, 40),
            _how(each),
            _shown_score(each),
            each.end.iterations if isinstance(each.end, Result) else "",
            each.run,
            briefs[each.line],
        )
        for each in done
    ]
    names = ("id", "outcome", "score", "iterations", "run", "brief")
    print_table(names, rows, right=("score", "iterations"), cut=True, spare=("iterations", "brief"))


def _summary(done: Sequence[Ended], total: int) -> str:
    counts = Counter(map(_how, done))
    left = f", {total - len(done):,} not ended" if len(done) < total else ""
    usage = sum((each.end.usage for each in done if isinstance(each.end, Result)), Usage())
    used = "" if usage.is_nothing else f"; {usage_text(usage)}"
    return f"{counted(total, 'brief')}: {_format_counts(counts) or 'none ended'}{left}{used}"
