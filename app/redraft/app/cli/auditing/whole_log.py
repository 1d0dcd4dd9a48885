"""`redraft audit --all`: verifies the whole log, compares it with a signed checkpoint, and signs a new one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.exit_codes import FAILED
from redraft.app.cli.shared.options import SignedFiles
from redraft.app.cli.shared.output import print_result
from redraft.app.cli.shared.reading import existing_store
from redraft.app.cli.views.record import document_of, report_record
from redraft.app.process.files import read_key, write_whole
from redraft.app.record.auditing.record_faults import find_faulty, is_faulty
from redraft.app.settings.settings import Settings
from redraft.app.wiring.stores import open_store_of
from redraft.events.errors import InputError
from redraft.events.store.verification import Fault, Report
from redraft.projections.display import counted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from redraft.app.record.auditing.checkpoint import Checkpoint
    from redraft.projections.record_check import Checked


def audit_log(store: str | None, files: SignedFiles, *, verify: bool, json: bool) -> int:
    """Verifies every run and reports all faults; returns the exit code. Nothing with a fault is signed.

    With `verify` it also checks each run against its plan.
    """
    settings = existing_store(store)
    signer = _read_signer(files, settings)
    held = _read_against(files, settings)
    report, faults, records = asyncio.run(_verify_log(settings, held, signs=signer is not None, against_plan=verify))
    written = ""
    if signer is not None and not faults and not any(is_faulty(record) for record in records):
        from redraft.app.record.auditing.checkpoint import write_checkpoint

        write_whole(Path(files.checkpoint), write_checkpoint(report, signer), "--checkpoint")
        written = files.checkpoint
    count = report.count + len(faults) - len(report.faults)
    for record in records:
        report_record(record)
    beside = sum(len(record.findings) for record in records if is_faulty(record))
    for fault in faults:
        say(fault.message)
    if count > len(faults):
        say(f"and {count - len(faults):,} faults more")
    result = _document(report, faults, count, written, held) | document_of(records, verify=verify)
    print_result(result, _lines(report, count + beside, written, held), json=json)
    return FAILED if count or beside else 0


def _read_signer(files: SignedFiles, settings: Settings) -> Ed25519PrivateKey | None:
    """The key to sign with. Raises InputError when it is needed and not given, or no checkpoint could be written."""
    if not files.checkpoint:
        if files.key:
            raise InputError("--key is for signing a checkpoint; name the checkpoint's file too: --checkpoint FILE")
        return None
    from redraft.app.record.auditing.checkpoint import REMEDY, read_private

    folder = Path(files.checkpoint).parent
    if not folder.is_dir():
        raise InputError(f"--checkpoint {files.checkpoint}: there is no folder {folder}; make it first")
    if files.key:
        return read_private(read_key(Path(files.key), "--key"), f"--key {files.key}")
    if settings.signing_key:
        return read_private(settings.signing_key, "REDRAFT_SIGNING_KEY")
    raise InputError(f"--checkpoint needs a key to sign with: --key FILE or REDRAFT_SIGNING_KEY; {REMEDY}")


def _read_against(files: SignedFiles, settings: Settings) -> Checkpoint | None:
    """The checkpoint to compare with. Raises InputError, and Tampered when its signature does not fit."""
    if not files.against:
        if files.public_key:
            raise InputError(
                "--public-key is for verifying a checkpoint; name the checkpoint's file too: --against FILE"
            )
        return None
    from redraft.app.record.auditing.checkpoint import read_checkpoint, read_public

    if files.public_key:
        key = read_public(read_key(Path(files.public_key), "--public-key"), f"--public-key {files.public_key}")
    elif settings.public_key:
        key = read_public(settings.public_key, "REDRAFT_PUBLIC_KEY")
    else:
        raise InputError("--against needs the public key to verify the signature with: --public-key FILE.pub")
    return read_checkpoint(Path(files.against), key)


async def _verify_log(
    settings: Settings, held: Checkpoint | None, *, signs: bool, against_plan: bool
) -> tuple[Report, list[Fault], list[Checked]]:
    """Returns the report, and all faults: those of the log itself, what is not as it was signed, and runs with
    findings.
    """
    async with open_store_of(settings) as store:
        if not signs and held is None:
            report = await store.verify_all()
            return report, list(report.faults), await find_faulty(store, report) if against_plan else []
        from redraft.app.record.auditing.checkpoint import (  # needs `cryptography`
            find_differences,
            marks_for,
            positions_of,
        )

        marks = {*(marks_for(await store.head()) if signs else ()), *(positions_of(held) if held else ())}
        report = await store.verify_all(marks)
        records = await find_faulty(store, report) if against_plan else []
        return report, [*report.faults, *(find_differences(held, report) if held else ())], records


def _document(
    report: Report, faults: list[Fault], count: int, written: str, held: Checkpoint | None
) -> dict[str, object]:
    return {
        "runs": report.runs,
        "events": report.events,
        "position": report.position,
        "digest": report.digest,
        "faults": faults,
        "fault_count": count,
        "against": {"time": held.time, "position": held.position, "events": held.events} if held else None,
        "checkpoint": written or None,
    }


def _lines(report: Report, count: int, written: str, held: Checkpoint | None) -> Iterator[str]:
    faults = counted(count, "fault") if count else "no fault"
    done = "looked at" if count else "verified"
    yield f"{counted(report.runs, 'run')} with {counted(report.events, 'event')} {done}, {faults}"
    if held is not None and not count:
        since = counted(report.events - held.events, "event")
        yield (
            f"all {counted(held.events, 'event')} of the checkpoint of {held.time:%Y-%m-%d %H:%M:%S} UTC are there as "
            f"they were signed; {since} came since"
        )
    if written:
        yield f"{written}: signed at position {report.position}; keep it apart from the store"
