"""`redraft export` and `redraft import`: runs as a file, and back into a store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.faults import say
from redraft.app.cli.options import JsonOption, StoreOption
from redraft.app.cli.output import print_json, print_line
from redraft.app.cli.reading import missing_file, refuse_missing
from redraft.events.errors import InputError, StoreError

if TYPE_CHECKING:
    from datetime import datetime

    from redraft.app.exporting import Exported
    from redraft.app.importing import Imported
    from redraft.app.settings import Settings

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
    import asyncio
    from datetime import UTC, datetime

    from redraft.app.moments import moment_of
    from redraft.app.settings import read_settings

    settings = read_settings(store=store)
    refuse_missing(settings.store)
    now = datetime.now(UTC)
    after = moment_of(since, "--since")
    if not out:
        if sys.stdout.isatty():
            raise InputError("an archive is no text for a terminal; write it to a file: redraft export -o FILE")
        done = asyncio.run(_exported(settings, sys.stdout.buffer, after, run or [], without or [], now))
        sys.stdout.buffer.flush()
    else:
        from redraft.app.files import whole_file

        with whole_file(Path(out), "--out") as file:
            done = asyncio.run(_exported(settings, file, after, run or [], without or [], now))
    if json and out:
        print_json({**_facts(done), "archive": out})
    elif out:
        print_line(f"{out}: {_told(done)}")
    else:
        say(_told(done))


def import_(
    archive: Annotated[Path, typer.Argument(metavar="FILE", help="What `redraft export` wrote.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Put the runs of an archive into a store, which is made if it is not there.

    The archive is verified as a whole first. Events keep their order, versions and hashes; what the store has already
    is passed over, so that importing again changes nothing and goes on with what was interrupted. No coordinator may
    run meanwhile.
    """
    import asyncio

    from redraft.app.settings import read_settings
    from redraft.projections.plain import counted

    if not archive.is_file():
        raise InputError(f"archive {archive} is not there, or no file; name what redraft export wrote")
    done = asyncio.run(_imported(read_settings(store=store), archive))
    if json:
        print_json(done)
        return
    places = "at the positions that they had" if done.kept else "in their order, behind what was there"
    known = f"; {counted(done.known, 'event')} were there already" if done.known else ""
    print_line(f"{counted(done.added, 'event')} of {counted(done.runs, 'run')} put in, {places}{known}")


async def _exported(
    settings: Settings, file: IO[bytes], since: datetime | None, runs: list[str], without: list[str], now: datetime
) -> Exported:
    from redraft.app.compose import open_log
    from redraft.app.encryption import store_of
    from redraft.app.exporting import Wanted, export_log
    from redraft.projections.run_list import find_run

    if not (runs or without):
        async with store_of(settings) as log:
            return await export_log(log, Wanted(since), file, now)
    async with open_log(settings) as house:
        chosen = frozenset([(await find_run(house.views, each)).run for each in runs])
        left = frozenset([(await find_run(house.views, each)).run for each in without])
        return await export_log(house.store, Wanted(since, chosen, left), file, now)


async def _imported(settings: Settings, archive: Path) -> Imported:
    """Imports while this process holds the right to relay, so that no coordinator works on the store.

    No file is made for an archive that cannot be imported.
    """
    import asyncio

    from redraft.app.encryption import store_of
    from redraft.app.importing import import_archive, verify_archive
    from redraft.app.together import together
    from redraft.events.relay_lease import open_lease

    if settings.store == "memory:":
        raise InputError("a store in memory keeps nothing; name one that does with --store")
    limit = settings.draft_limit
    verified = await verify_archive(archive, limit) if missing_file(settings.store) else None
    async with store_of(settings) as log, open_lease(settings.store) as lease:
        try:
            async with asyncio.timeout(LEASE_SECONDS):
                reached = await lease.acquire()
        except TimeoutError:
            raise StoreError(
                f"store {log.where}: a coordinator works on it; stop all of them, and import then"
            ) from None
        before = await log.head()
        async with together([lease.keep()]):
            done = await import_archive(log, archive, verified, limit)
        if reached >= before:
            await lease.save(await log.head())
        return done


def _facts(done: Exported) -> dict[str, object]:
    return {"events": done.events, "runs": done.runs}


def _told(done: Exported) -> str:
    from redraft.projections.plain import counted

    return f"{counted(done.events, 'event')} of {counted(done.runs, 'run')} exported"
