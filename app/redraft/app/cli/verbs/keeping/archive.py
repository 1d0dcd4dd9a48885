"""`redraft export` and `redraft import`: runs as a file, and back into a store."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final, Literal

import msgspec
import typer

from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.options import JsonOption, StoreOption, with_options
from redraft.app.cli.shared.output import print_result
from redraft.app.cli.shared.reading import existing_store, missing_file
from redraft.app.process.files import whole_file
from redraft.app.process.times import moment_of
from redraft.app.record.copying.transfer import Exported, RunSelection, export_log
from redraft.app.settings.settings import Settings, read_settings
from redraft.app.wiring.local import LocalRuntime, open_readonly
from redraft.app.wiring.stores import hold_lease_of, open_store_of
from redraft.events.errors import InputError, StoreError
from redraft.projections.display import counted
from redraft.projections.read_models.runs_query import find_run

if TYPE_CHECKING:
    from redraft.app.record.copying.preference_export import PreferencesWritten
    from redraft.app.record.copying.transfer import Imported

EXPORT: Final = """\b
Examples:
  redraft export --since 30d -o archive.jsonl.zst
  redraft export --run last > run.jsonl.zst
  redraft export --as preferences --consent training-ok --min-gap 0.1 -o pairs.jsonl
"""
IMPORT: Final = "Example: redraft import archive.jsonl.zst --store postgresql://user@host/redraft"

LEASE_SECONDS: Final = 2.0
"""For how long the right to relay is asked for, which a coordinator that runs does not give away."""


class PreferenceOptions(msgspec.Struct, frozen=True):
    """The options of `--as preferences`."""

    consent: Annotated[
        str, typer.Option(metavar="TAG", help="With --as preferences: only runs that carry this tag; needed.")
    ] = ""
    workflow: Annotated[str, typer.Option(metavar="NAME", help="With --as preferences: runs of this workflow.")] = ""
    min_score: Annotated[
        float, typer.Option(min=0, max=1, help="With --as preferences: what the better draft scored at least.")
    ] = 0.0
    min_gap: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="With --as preferences: how much more than the other, at least, in pairs that nobody decided.",
        ),
    ] = 0.0
    by_people: Annotated[
        bool, typer.Option("--by-people", help="With --as preferences: only pairs that a person decided.")
    ] = False
    names: Annotated[bool, typer.Option("--names", help="With --as preferences: who decided, too.")] = False


@with_options
def export(
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Runs of which something was recorded since: 2026-01-03T10:00Z, 30d.")
    ] = "",
    run: Annotated[
        list[str] | None, typer.Option(metavar="RUN", help="Only this run, with its items'; may be given again.")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(metavar="RUN", help="All but this run, with its items'; may be given again.")
    ] = None,
    out: Annotated[str, typer.Option("-o", "--out", metavar="FILE", help="Where to (default: standard output).")] = "",
    form: Annotated[
        Literal["archive", "preferences"],
        typer.Option("--as", help="An archive, or pairs of drafts for training, the better one first."),
    ] = "archive",
    *,
    pairs: PreferenceOptions,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Write runs to an archive: whole runs with all their events, as they are stored, in the order of the log.

    It is JSON lines, compressed with Zstandard: `zstdcat` reads it. Each event is verified as it is written. A run
    takes the runs of its items along, at any depth; such a run can also be exported by itself.

    With --as preferences it writes pairs of drafts to train a model with, as JSON lines: what was asked, the better
    draft, the other one, and the scores, critiques and people's decisions that say so; only of runs that carry the tag
    --consent. Of erased runs, and of encrypted ones without their key, there are none.
    """
    chosen = RunsChosen(moment_of(since, "--since"), tuple(run or ()), tuple(without or ()))
    if form == "preferences":
        _export_pairs(store, chosen, pairs, out, json=json)
        return
    if pairs != PreferenceOptions():
        raise InputError(
            "--consent, --workflow, --min-score, --min-gap, --by-people and --names are for --as preferences"
        )
    settings, now = existing_store(store), datetime.now(UTC)
    if not out and sys.stdout.isatty():
        raise InputError("an archive cannot be shown on a terminal; write it to a file: redraft export -o FILE")
    with _opened(out) as file:
        done = asyncio.run(_export_runs(settings, file, chosen, now))
    summary = f"{counted(done.events, 'event')} of {counted(done.runs, 'run')} exported"
    if out:
        result = {"events": done.events, "runs": done.runs, "archive": out}
        print_result(result, [f"{out}: {summary}"], json=json)
    else:
        say(summary)


class RunsChosen(msgspec.Struct, frozen=True):
    """The runs that the options of `export` name: those to take (empty: all), and those to leave out."""

    since: datetime | None
    runs: tuple[str, ...]
    without: tuple[str, ...]


@contextmanager
def _opened(out: str) -> Iterator[IO[bytes]]:
    """Yields the file that is named, which is written whole or not at all, or else standard output."""
    if out:
        with whole_file(Path(out), "--out") as file:
            yield file
    else:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()


def _export_pairs(store: str | None, chosen: RunsChosen, pairs: PreferenceOptions, out: str, *, json: bool) -> None:
    if not pairs.consent:
        raise InputError(
            "--as preferences needs --consent TAG: only runs that carry this tag are written, as they were begun with "
            "`redraft run --tag TAG`"
        )
    settings = existing_store(store)
    with _opened(out) as file:
        done = asyncio.run(_write_pairs(settings, chosen, pairs, file))
    for why, count in done.left_out.items():
        say(f"{counted(count, 'run')} left out: each {why}")
    summary = f"{counted(done.pairs, 'pair')} of {counted(done.runs, 'run')} exported"
    if out:
        print_result({**msgspec.structs.asdict(done), "file": out}, [f"{out}: {summary}"], json=json)
    else:
        say(summary)


async def _write_pairs(
    settings: Settings, chosen: RunsChosen, pairs: PreferenceOptions, file: IO[bytes]
) -> PreferencesWritten:
    from redraft.app.record.copying.preference_export import PreferenceFilter, export_preferences

    async with open_readonly(settings) as runtime:
        runs, without = await _ids(runtime, chosen)
        wanted = PreferenceFilter(
            consent=pairs.consent,
            workflow=pairs.workflow,
            since=chosen.since,
            runs=runs,
            without=without,
            min_score=pairs.min_score,
            min_gap=pairs.min_gap,
            by_people=pairs.by_people,
            names=pairs.names,
        )
        return await export_preferences(runtime.store, runtime.views, wanted, file)


def import_(
    archive: Annotated[Path, typer.Argument(metavar="FILE", help="An archive that `redraft export` wrote.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Import the runs of an archive into a store, which is created if it does not exist.

    The archive is verified as a whole first. Events keep their order, versions and hashes; what the store has already
    is passed over, so that importing again changes nothing and goes on with what was interrupted. No coordinator may
    run meanwhile.
    """
    if not archive.is_file():
        raise InputError(f"archive {archive} does not exist, or is not a file; name a file that redraft export wrote")
    done = asyncio.run(_import_runs(read_settings(store=store), archive))
    places = "positions kept" if done.kept else "appended after the events already there"
    known = f"; {counted(done.known, 'event')} were there already" if done.known else ""
    line = f"{counted(done.added, 'event')} of {counted(done.runs, 'run')} imported; {places}{known}"
    print_result(done, [line], json=json)


async def _export_runs(settings: Settings, file: IO[bytes], chosen: RunsChosen, now: datetime) -> Exported:
    if not (chosen.runs or chosen.without):
        async with open_store_of(settings) as log:
            return await export_log(log, RunSelection(chosen.since), file, now)
    async with open_readonly(settings) as runtime:
        return await export_log(runtime.store, RunSelection(chosen.since, *await _ids(runtime, chosen)), file, now)


async def _ids(runtime: LocalRuntime, chosen: RunsChosen) -> list[frozenset[str]]:
    """Returns the ids of the runs to take, and of those to leave out. Raises NoSuchRun."""
    named = chosen.runs, chosen.without
    return [frozenset([(await find_run(runtime.views, each)).run for each in some]) for some in named]


async def _import_runs(settings: Settings, archive: Path) -> Imported:
    """Imports while this process holds the right to relay, so that no coordinator works on the store.

    No file is made for an archive that cannot be imported.
    """
    from redraft.app.record.copying.transfer import import_archive, verify_archive

    if settings.store == "memory:":
        raise InputError("a store in memory keeps nothing; name one that does with --store")
    limit = settings.max_draft_bytes
    verified = await verify_archive(archive, limit) if missing_file(settings.store) else None
    async with open_store_of(settings) as log, hold_lease_of(settings, LEASE_SECONDS) as held:
        if held is None:
            raise StoreError(f"store {log.where}: a coordinator works on it; stop all of them, and import then")
        lease, reached = held
        before = await log.head()
        done = await import_archive(log, archive, verified, limit)
        if reached >= before:
            await lease.save(await log.head())
        return done
