"""`redraft audit`: what is recorded of a run, whether it is what was recorded, and a copy to hand on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.audit_all import Asked, audit_all
from redraft.app.cli.faults import FAILED, say
from redraft.app.cli.options import JsonOption, StoreOption
from redraft.app.cli.output import print_json, print_line
from redraft.app.cli.reading import ask, events_of
from redraft.app.cli.record import is_faulty, told_record
from redraft.app.files import write_whole
from redraft.events.errors import CodecError, InputError, Tampered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redraft.app.compose import House
    from redraft.events.envelope import Recorded
    from redraft.projections.record_check import Checked

EXAMPLE: Final = """\b
Examples:
  redraft audit last --verify
  redraft audit last --export last.html
  redraft audit --all --verify
  redraft audit --all --checkpoint today.json --key audit.pem
  redraft audit --all --against today.json --public-key audit.pem.pub
"""

_SUFFIXES: Final = (".jsonl", ".html")


def audit(
    run: Annotated[
        str,
        typer.Argument(metavar="[RUN]", help="A run's id, or the start or end of it, or `last`.", show_default=False),
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="The whole log, in place of RUN; with --verify.")] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Check the hash of every event, that none is gone, and that all fit the plan."),
    ] = False,
    export: Annotated[str, typer.Option(metavar="FILE", help="Write the record to a .jsonl or .html file.")] = "",
    checkpoint: Annotated[
        str, typer.Option(metavar="FILE", help="With --all: verify, and write a signed checkpoint of the log.")
    ] = "",
    key: Annotated[
        str, typer.Option(metavar="FILE", help="The private key to sign it with (default: REDRAFT_SIGNING_KEY).")
    ] = "",
    against: Annotated[
        str, typer.Option(metavar="FILE", help="With --all: verify that the log still holds all of this checkpoint.")
    ] = "",
    public_key: Annotated[
        str, typer.Option(metavar="FILE", help="The public key of its signature (default: REDRAFT_PUBLIC_KEY).")
    ] = "",
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Tell a run's whole story, verify it, export it.

    The story says, in the order it happened, who asked, who answered, what was said and changed, and why it went on
    or ended; `because of 5` names the event that led to another.

    Each event holds the SHA-256 of itself and of the event before it: --verify finds what was changed, put in or taken
    out, names the event, and ends with exit code 1. It also holds the record against the plan: each answer is to a
    request, counts once, and what was decided and published follows from it. What a run did that was set aside is told
    and is no fault. With --all it also looks at what holds the log, such as every
    page of a SQLite file. A .jsonl export can be checked without Redraft. A checkpoint that was signed before, and is
    kept elsewhere, also shows that no end was cut off and no run taken out.
    """
    path = _target(export)
    if everything == bool(run):
        raise InputError("name one run, or --all for every run; `redraft list` shows the runs")
    asked = Asked(checkpoint, key, against, public_key)
    if everything and (path or not (verify or checkpoint or against)):
        raise InputError("--all goes with --verify, --checkpoint or --against; name one run to read or export it")
    if everything:
        return audit_all(store, asked, verify=verify, json=json)
    if asked != Asked():
        raise InputError("--checkpoint and --against are for the whole log; give --all in place of a run")
    events, count, fault, fork, record = ask(store, lambda log: _audited(log, run, path, verify=verify))
    if json:
        print_json(_document(events, count, None if verify and fault else path, record, verify=verify))
    elif verify and fault:
        pass
    elif verify or path:
        _told(events, count, path, fork, verify=verify)
    else:
        _story(events)
    if fault:
        say(fault)
    told_record(record)
    return FAILED if fault or is_faulty(record) else 0


def _target(export: str) -> Path | None:
    path = Path(export) if export else None
    if path and path.suffix not in _SUFFIXES:
        raise InputError(f"--export {path}: the file's name must end with .jsonl or .html")
    if path and not path.parent.is_dir():
        raise InputError(f"--export {path}: there is no folder {path.parent}; make it first")
    return path


async def _audited(
    log: House, text: str, path: Path | None, *, verify: bool
) -> tuple[Sequence[Recorded], int, str, str, Checked | None]:
    """The events of the run, how many were verified, what is wrong, and what its beginning is if it is a fork.

    With `verify` also what does not fit its plan; then nothing wrong is exported.
    """
    from redraft.app.lineage import lineage
    from redraft.app.record_faults import check_run
    from redraft.projections.run_list import find_run

    run = (await find_run(log.views, text)).run
    count, fault = 0, ""
    if verify or path:
        try:
            count = await log.store.verify(run)
        except Tampered as error:
            fault = str(error)
    events = await _readable(log, run, fault)
    fork = ""
    if verify and not fault:
        found = await lineage(events, log.store.read)
        fork, fault, count = found.told, found.fault, 0 if found.fault else count
    record = await check_run(log.store, run) if verify else None
    if verify and (fault or is_faulty(record)):
        return events, 0 if is_faulty(record) else count, fault, fork, record
    if path and path.suffix == ".html":
        from redraft.app.audit_page import render

        write_whole(path, render(events, verified=bool(count)).encode(), "--export")
    elif path:
        from redraft.app.audit_lines import exported

        write_whole(path, "".join(await exported(log.store, run)).encode(), "--export")
    return events, count, fault, fork, record


async def _readable(log: House, run: str, fault: str) -> Sequence[Recorded]:
    """The events of a run; none when it is so damaged that they cannot be read, which is the fault then."""
    try:
        return await events_of(log, run)
    except CodecError as error:
        if not fault:
            raise
        raise Tampered(fault) from error


def _document(
    events: Sequence[Recorded], count: int, path: Path | None, record: Checked | None, *, verify: bool
) -> dict[str, object]:
    from redraft.actors.condition_text import print_condition
    from redraft.projections.story import story

    return {
        "run": events[0].run,
        "verified": bool(count) if verify or path else None,
        "last_hash": events[-1].hash,
        "exported": str(path) if path else None,
        "findings": list(record.findings) if record else None,
        "set_aside": record.set_aside if record else None,
        "events": events,
        "story": [
            {
                "version": entry.line.version,
                "sentence": entry.line.sentence,
                "because_of": entry.cause or None,
                "details": entry.details,
            }
            for entry in story(events, print_condition)
        ],
    }


def _told(events: Sequence[Recorded], count: int, path: Path | None, fork: str, *, verify: bool) -> None:
    last = f"the last hash is {events[-1].hash}"
    if verify and count:
        print_line(f"run {events[0].run}: {count} events verified; {last}")
        if fork:
            print_line(f"it is {fork}")
    if path:
        state = "verified" if count else "NOT verified: the record was changed, see redraft audit --verify"
        print_line(f"{path}: {len(events)} events, {state}")


def _story(events: Sequence[Recorded]) -> None:
    from redraft.actors.condition_text import print_condition
    from redraft.projections.story import story

    for entry in story(events, print_condition):
        line = entry.line
        time = f"{line.time:%Y-%m-%d %H:%M:%S}"
        cause = f", because of {entry.cause}" if entry.cause else ""
        print_line(f"{line.version:>4}  {time}  {line.sentence}  [{line.actor}{cause}]")
        for detail in entry.details:
            print_line(f"{'':27}{detail}")
