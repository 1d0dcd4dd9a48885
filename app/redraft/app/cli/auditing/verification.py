"""`redraft audit RUN --verify --export FILE`: verifies one run against its hashes and its plan, and exports it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from redraft.actors.conditions.reading import print_until
from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.exit_codes import FAILED
from redraft.app.cli.shared.output import print_json, print_line, print_wrapped
from redraft.app.cli.shared.reading import ask
from redraft.app.cli.views.record import report_record
from redraft.app.process.files import refuse_special, write_whole
from redraft.app.record.auditing.audit import RunAudit, audit_document, audit_one
from redraft.app.record.copying.archive import export_jsonl
from redraft.app.wiring.local import LocalRuntime
from redraft.events.errors import InputError
from redraft.events.messages.envelope import Recorded
from redraft.projections.record_check import unmet_drafts
from redraft.projections.run_views.narrative import narrate

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
    for entry in narrate(events, print_until, unmet_drafts(events)):
        line = entry.line
        time = f"{line.time:%Y-%m-%d %H:%M:%S}"
        cause = f", because of {entry.cause}" if entry.cause else ""
        yield f"{line.version:>4}  {time}  {line.sentence}  [{line.actor}{cause}]", _INDENT
        for detail in entry.details:
            yield f"{'':{_INDENT}}{detail}", _INDENT + 2


_SUFFIXES: Final = (".jsonl", ".html")


def audit_run(store: str | None, run: str, path: Path | None, *, verify: bool, json: bool) -> int:
    """Tells the story of a run, or verifies it, or exports it to `path`; returns the exit code."""
    found, exported = ask(store, lambda log: _audit(log, run, path, verify=verify))
    if json:
        print_json({**audit_document(found), "exported": str(exported) if exported else None})
    elif not (verify or path):
        print_story(found.events)
    elif not (verify and found.fault):
        _print_result(found, exported, verify=verify)
    if found.fault:
        say(found.fault)
    report_record(found.record)
    return FAILED if found.is_faulty else 0


def export_target(text: str) -> Path | None:
    """Returns the file to export to. Raises InputError for another suffix, no folder, or no plain file."""
    path = Path(text) if text else None
    if path and path.suffix not in _SUFFIXES:
        raise InputError(f"--export {path}: the file's name must end with .jsonl or .html")
    if path and not path.parent.is_dir():
        raise InputError(f"--export {path}: there is no folder {path.parent}; make it first")
    if path:
        refuse_special(path, "--export")
    return path


async def _audit(log: LocalRuntime, text: str, path: Path | None, *, verify: bool) -> tuple[RunAudit, Path | None]:
    """Audits the run; returns what was found, and the file it was exported to. With `verify`, no faulty one is."""
    found = await audit_one(log, text, hashes=verify or path is not None, origin=verify, report=say)
    if path is None or (verify and found.is_faulty):
        return found, None
    await _export(log, found.events, path, verified=bool(found.verified))
    return found, path


async def _export(log: LocalRuntime, events: Sequence[Recorded], path: Path, *, verified: bool) -> None:
    if path.suffix == ".html":
        from redraft.app.record.auditing.audit_page import render  # needs Jinja2, which takes a while to import

        text = render(events, verified=verified)
    else:
        run = events[0].run
        text = "".join(export_jsonl(run, await log.store.raw(run)))
    write_whole(path, text.encode(), "--export")


def _print_result(found: RunAudit, exported: Path | None, *, verify: bool) -> None:
    events = found.events
    if verify and found.verified:
        last = f"the last hash is {events[-1].hash}"
        print_line(f"run {events[0].run}: {found.verified} events verified; {last}")
        if found.fork:
            print_line(f"it is {found.fork}")
    if exported:
        state = "verified" if found.verified else "NOT verified: the record was changed, see redraft audit --verify"
        print_line(f"{exported}: {len(events)} events, {state}")
