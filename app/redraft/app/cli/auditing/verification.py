"""`redraft audit RUN --verify --export FILE`: verifies one run against its hashes and its plan, and exports it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from redraft.actors.conditions.text import print_condition
from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.exit_codes import FAILED
from redraft.app.cli.shared.output import print_json, print_line, print_wrapped
from redraft.app.cli.shared.reading import ask, events_of
from redraft.app.cli.views.record import is_faulty, report_record
from redraft.app.process.files import write_whole
from redraft.app.record.archive import export_jsonl
from redraft.app.record.record_faults import check_run, compare_lineage
from redraft.app.wiring.local import LocalRuntime
from redraft.events.errors import CodecError, InputError, Tampered
from redraft.events.messages.envelope import Recorded
from redraft.projections.read_models.runs_query import find_run
from redraft.projections.record_check import Checked
from redraft.projections.run_views.narrative import narrate


def story_of(events: Sequence[Recorded]) -> list[dict[str, object]]:
    """Returns the story as JSON shows it: a sentence for each event, the event that led to it, and details."""
    return [
        {
            "version": entry.line.version,
            "sentence": entry.line.sentence,
            "because_of": entry.cause or None,
            "details": entry.details,
        }
        for entry in narrate(events, print_condition)
    ]


_INDENT: Final = 27
"""The column at which sentences begin."""


def print_story(events: Sequence[Recorded]) -> None:
    """Prints a line for each event, and the details below it."""
    for line, indent in _story_lines(events):
        print_wrapped(line, indent)


def story_lines(events: Sequence[Recorded]) -> Iterator[str]:
    """Yields a line for each event, and the details below it."""
    return (line for line, _ in _story_lines(events))


def _story_lines(events: Sequence[Recorded]) -> Iterator[tuple[str, int]]:
    """Yields each line with the column at which what does not fit on it goes on."""
    for entry in narrate(events, print_condition):
        line = entry.line
        time = f"{line.time:%Y-%m-%d %H:%M:%S}"
        cause = f", because of {entry.cause}" if entry.cause else ""
        yield f"{line.version:>4}  {time}  {line.sentence}  [{line.actor}{cause}]", _INDENT
        for detail in entry.details:
            yield f"{'':{_INDENT}}{detail}", _INDENT + 2


_SUFFIXES: Final = (".jsonl", ".html")


class RunAudit(msgspec.Struct, frozen=True):
    """The findings of a run's audit.

    `verified` is the number of events whose hashes are right (0 where nothing was verified, or something is wrong),
    `fault` what is wrong with the log, `fork` what the run begins with if it is a fork, `record` the comparison with
    its plan, `exported` the file that was written.
    """

    events: Sequence[Recorded]
    verified: int = 0
    fault: str = ""
    fork: str = ""
    record: Checked | None = None
    exported: Path | None = None

    @property
    def is_faulty(self) -> bool:
        return bool(self.fault) or is_faulty(self.record)


def audit_run(store: str | None, run: str, path: Path | None, *, verify: bool, json: bool) -> int:
    """Tells the story of a run, or verifies it, or exports it to `path`; returns the exit code."""
    found = ask(store, lambda log: audit_of(log, run, path, verify=verify))
    if json:
        print_json(_document(found, checked=verify or path is not None))
    elif not (verify or path):
        print_story(found.events)
    elif not (verify and found.fault):
        _print_result(found, verify=verify)
    if found.fault:
        say(found.fault)
    report_record(found.record)
    return FAILED if found.is_faulty else 0


def export_target(text: str) -> Path | None:
    """Returns the file to export to. Raises InputError for another suffix, or a folder that is not there."""
    path = Path(text) if text else None
    if path and path.suffix not in _SUFFIXES:
        raise InputError(f"--export {path}: the file's name must end with .jsonl or .html")
    if path and not path.parent.is_dir():
        raise InputError(f"--export {path}: there is no folder {path.parent}; make it first")
    return path


async def audit_of(log: LocalRuntime, text: str, path: Path | None = None, *, verify: bool) -> RunAudit:
    """Verifies the run's hashes where it is verified or exported. With `verify`, nothing that is wrong is exported."""
    run = (await find_run(log.views, text)).run
    count, fault = await _verify_hashes(log, run) if verify or path else (0, "")
    events = await _read_events(log, run, fault)
    found = RunAudit(events, count, fault)
    if verify:
        found = await _verify_origin(log, found)
        if found.is_faulty:
            return found
    if path is None:
        return found
    await _export(log, events, path, verified=bool(found.verified))
    return msgspec.structs.replace(found, exported=path)


async def _verify_hashes(log: LocalRuntime, run: str) -> tuple[int, str]:
    """Returns how many events are right, and the fault; one of them is empty."""
    try:
        return await log.store.verify(run), ""
    except Tampered as error:
        return 0, str(error)


async def _verify_origin(log: LocalRuntime, found: RunAudit) -> RunAudit:
    """Compares a fork with its parent, and the run with its plan."""
    fork, fault = "", found.fault
    if not fault:
        parent = await compare_lineage(found.events, log.store.read)
        fork, fault = parent.message, parent.fault
    record = await check_run(log.store, found.events[0].run)
    verified = 0 if fault or is_faulty(record) else found.verified
    return RunAudit(found.events, verified, fault, fork, record)


async def _read_events(log: LocalRuntime, run: str, fault: str) -> Sequence[Recorded]:
    """Returns the events of a run. Raises Tampered with the `fault` when it damaged events beyond reading."""
    try:
        return await events_of(log, run)
    except CodecError as error:
        if not fault:
            raise
        raise Tampered(fault) from error


async def _export(log: LocalRuntime, events: Sequence[Recorded], path: Path, *, verified: bool) -> None:
    if path.suffix == ".html":
        from redraft.app.record.audit_page import render  # needs Jinja2, which takes a while to import

        text = render(events, verified=verified)
    else:
        run = events[0].run
        text = "".join(export_jsonl(run, await log.store.raw(run)))
    write_whole(path, text.encode(), "--export")


def _document(found: RunAudit, *, checked: bool) -> dict[str, object]:
    events, record = found.events, found.record
    return {
        "run": events[0].run,
        "verified": bool(found.verified) if checked else None,
        "last_hash": events[-1].hash,
        "exported": str(found.exported) if found.exported else None,
        "findings": list(record.findings) if record else None,
        "set_aside": record.set_aside if record else None,
        "events": events,
        "story": story_of(events),
    }


def _print_result(found: RunAudit, *, verify: bool) -> None:
    events = found.events
    if verify and found.verified:
        last = f"the last hash is {events[-1].hash}"
        print_line(f"run {events[0].run}: {found.verified} events verified; {last}")
        if found.fork:
            print_line(f"it is {found.fork}")
    if found.exported:
        state = "verified" if found.verified else "NOT verified: the record was changed, see redraft audit --verify"
        print_line(f"{found.exported}: {len(events)} events, {state}")
