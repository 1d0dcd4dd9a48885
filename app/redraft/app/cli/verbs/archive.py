"""`redraft export` and `redraft import`: runs as a file, and back into a store."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.options import JsonOption, StoreOption
from redraft.app.cli.shared.output import print_result
from redraft.app.cli.shared.reading import existing_store, missing_file
from redraft.app.process.files import whole_file
from redraft.app.process.times import moment_of
from redraft.app.record.transfer import Exported, RunSelection, export_log
from redraft.app.settings.settings import Settings, read_settings
from redraft.app.wiring.local import open_readonly
from redraft.app.wiring.stores import hold_lease_of, open_store_of
from redraft.events.errors import InputError, StoreError
from redraft.projections.display import counted
from redraft.projections.read_models.runs_query import find_run

if TYPE_CHECKING:
    from redraft.app.record.transfer import Imported

EXPORT: Final = """\b
Examples:
  redraft export --since 30d -o archive.jsonl.zst
  redraft export --run last > run.jsonl.zst
"""
IMPORT: Final = "Example: redraft import archive.jsonl.zst --store postgresql://user@host/redraft"

LEASE_SECONDS: Final = 2.0
"""For how long the right to relay is asked for, which a coordinator that runs does not give away."""


def export(
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Runs of which something was recorded since: 2026-01-03T10:00Z, 30d.")
    ] = "",
    run: Annotated[list[str] | None, typer.Option(metavar="RUN", help="Only this run; may be given again.")] = None,
    without: Annotated[
        list[str] | None, typer.Option(metavar="RUN", help="All but this run; may be given again.")
    ] = None,
    out: Annotated[str, typer.Option("-o", "--out", metavar="FILE", help="Where to (default: standard output).")] = "",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Write runs to an archive: whole runs with all their events, as they are stored, in the order of the log.

    It is JSON lines, compressed with Zstandard: `zstdcat` reads it. Each event is verified as it is written.
    """
    settings = existing_store(store)
    now = datetime.now(UTC)
    after = moment_of(since, "--since")
    if not out:
        if sys.stdout.isatty():
            raise InputError("an archive cannot be shown on a terminal; write it to a file: redraft export -o FILE")
        done = asyncio.run(_export_runs(settings, sys.stdout.buffer, after, run or [], without or [], now))
        sys.stdout.buffer.flush()
    else:
        with whole_file(Path(out), "--out") as file:
            done = asyncio.run(_export_runs(settings, file, after, run or [], without or [], now))
    summary = f"{counted(done.events, 'event')} of {counted(done.runs, 'run')} exported"
    if out:
        result = {"events": done.events, "runs": done.runs, "archive": out}
        print_result(result, [f"{out}: {summary}"], json=json)
    else:
        say(summary)


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


async def _export_runs(
    settings: Settings, file: IO[bytes], since: datetime | None, runs: list[str], without: list[str], now: datetime
) -> Exported:
    if not (runs or without):
        async with open_store_of(settings) as log:
            return await export_log(log, RunSelection(since), file, now)
    async with open_readonly(settings) as runtime:
        chosen = frozenset([(await find_run(runtime.views, each)).run for each in runs])
        left = frozenset([(await find_run(runtime.views, each)).run for each in without])
        return await export_log(runtime.store, RunSelection(since, chosen, left), file, now)


async def _import_runs(settings: Settings, archive: Path) -> Imported:
    """Imports while this process holds the right to relay, so that no coordinator works on the store.

    No file is made for an archive that cannot be imported.
    """
    from redraft.app.record.transfer import import_archive, verify_archive

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
