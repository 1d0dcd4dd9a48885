"""`redraft audit --all`: the whole log verified, compared with a signed checkpoint, and signed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from redraft.app.cli.faults import FAILED, say
from redraft.app.cli.output import print_json, print_line
from redraft.app.cli.reading import refuse_missing
from redraft.app.cli.record import document_of, is_faulty, told_record
from redraft.events.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from redraft.app.checkpoint import Checkpoint
    from redraft.app.settings import Settings
    from redraft.events.verification import Fault, Report
    from redraft.projections.record_check import Checked


SAME: Final = "the file is byte for byte the one that was signed"
OTHER: Final = (
    "the file is not byte for byte the one that was signed, though all that it holds is: "
    "it is a copy made by import, was vacuumed, or bytes that hold nothing were changed"
)


class Asked(msgspec.Struct, frozen=True):
    """The files of `--checkpoint` and `--key`, of `--against` and `--public-key`; empty where they are not given."""

    checkpoint: str = ""
    key: str = ""
    against: str = ""
    public_key: str = ""


def audit_all(store: str | None, asked: Asked, *, verify: bool, json: bool) -> int:
    """Verifies every run, and tells all faults that there are. Nothing with a fault is signed.

    With `verify` each run is held against its plan, too.
    """
    import asyncio

    from redraft.app.settings import read_settings

    settings = read_settings(store=store)
    refuse_missing(settings.store)
    signer = _signer(asked, settings)
    held = _held(asked, settings)
    report, faults, records = asyncio.run(_verified(settings, held, signs=signer is not None, against_plan=verify))
    same = None
    if held is not None and held.file is not None and held.position == report.position:
        same, strays = _compared(settings, report, held)
        faults.extend(strays)
    written = ""
    if signer is not None and not faults and not any(is_faulty(record) for record in records):
        from redraft.app.checkpoint import write_checkpoint
        from redraft.app.files import write_whole
        from redraft.events.sqlite_digest import digest_of

        file = digest_of(_file_of(settings), report.position)
        write_whole(Path(asked.checkpoint), write_checkpoint(report, signer, file), "--checkpoint")
        written = asked.checkpoint
    count = report.count + len(faults) - len(report.faults)
    for record in records:
        told_record(record)
    beside = sum(len(record.findings) for record in records if is_faulty(record))
    for fault in faults:
        say(fault.told)
    if count > len(faults):
        say(f"and {count - len(faults):,} faults more")
    if json:
        print_json(_document(report, faults, count, written, held, same) | document_of(records, verify=verify))
    else:
        _told(report, count + beside, written, held)
        for remark in report.remarks:
            print_line(remark)
        if same is not None and not count:
            print_line(SAME if same else OTHER)
    return FAILED if count or beside else 0


def _signer(asked: Asked, settings: Settings) -> Ed25519PrivateKey | None:
    """The key to sign with. Raises InputError when it is needed and not given, or no checkpoint could be written."""
    if not asked.checkpoint:
        if asked.key:
            raise InputError("--key signs a checkpoint; name its file too: --checkpoint FILE")
        return None
    from redraft.app.key_files import read_key
    from redraft.app.signing import REMEDY, read_private

    folder = Path(asked.checkpoint).parent
    if not folder.is_dir():
        raise InputError(f"--checkpoint {asked.checkpoint}: there is no folder {folder}; make it first")
    if asked.key:
        return read_private(read_key(Path(asked.key), "--key"), f"--key {asked.key}")
    if settings.signing_key:
        return read_private(settings.signing_key, "REDRAFT_SIGNING_KEY")
    raise InputError(f"--checkpoint needs a key to sign with: --key FILE or REDRAFT_SIGNING_KEY; {REMEDY}")


def _held(asked: Asked, settings: Settings) -> Checkpoint | None:
    """The checkpoint to compare with. Raises InputError, and Tampered when its signature does not fit."""
    if not asked.against:
        if asked.public_key:
            raise InputError("--public-key verifies a checkpoint; name its file too: --against FILE")
        return None
    from redraft.app.checkpoint import read_checkpoint
    from redraft.app.key_files import read_key
    from redraft.app.signing import read_public

    if asked.public_key:
        key = read_public(read_key(Path(asked.public_key), "--public-key"), f"--public-key {asked.public_key}")
    elif settings.public_key:
        key = read_public(settings.public_key, "REDRAFT_PUBLIC_KEY")
    else:
        raise InputError("--against needs the key that its signature is verified with: --public-key FILE.pub")
    return read_checkpoint(Path(asked.against), key)


async def _verified(
    settings: Settings, held: Checkpoint | None, *, signs: bool, against_plan: bool
) -> tuple[Report, list[Fault], list[Checked]]:
    """What was found, and all faults: those of the log itself, what is not as it was signed, and runs with findings."""
    from redraft.app.encryption import store_of
    from redraft.app.record_faults import faulty

    async with store_of(settings) as store:
        if not signs and held is None:
            report = await store.verify_all()
            return report, list(report.faults), await faulty(store, report) if against_plan else []
        from redraft.app.checkpoint import differences, marks_for, positions_of  # needs `cryptography`

        marks = {*(marks_for(await store.head()) if signs else ()), *(positions_of(held) if held else ())}
        report = await store.verify_all(marks)
        records = await faulty(store, report) if against_plan else []
        return report, [*report.faults, *(differences(held, report) if held else ())], records


def _file_of(settings: Settings) -> Path | None:
    """The SQLite file of a store; None for any other."""
    scheme, _, path = settings.store.partition(":///")
    return Path(path) if scheme == "sqlite" and path else None


def _compared(settings: Settings, report: Report, held: Checkpoint) -> tuple[bool | None, list[Fault]]:
    """Whether the store's file has the very bytes that were signed, and what is wrong if not.

    A seal that came since is no difference. None where that says nothing: when there is no file, or no moment of rest.
    """
    from redraft.app.checkpoint import stray_change
    from redraft.events.sqlite_digest import digest_of

    now = digest_of(_file_of(settings), report.position)
    if now is None or held.file is None:
        return None, []
    return now.is_of(held.file), list(stray_change(held, report, now))


def _document(
    report: Report, faults: list[Fault], count: int, written: str, held: Checkpoint | None, same: bool | None
) -> dict[str, object]:
    return {
        "runs": report.runs,
        "events": report.events,
        "position": report.position,
        "digest": report.digest,
        "faults": faults,
        "fault_count": count,
        "remarks": report.remarks,
        "against": {"time": held.time, "position": held.position, "events": held.events} if held else None,
        "same_file": same,
        "checkpoint": written or None,
    }


def _told(report: Report, count: int, written: str, held: Checkpoint | None) -> None:
    from redraft.projections.plain import counted

    faults = counted(count, "fault") if count else "no fault"
    done = "looked at" if count else "verified"
    print_line(f"{counted(report.runs, 'run')} with {counted(report.events, 'event')} {done}, {faults}")
    if held is not None and not count:
        since = counted(report.events - held.events, "event")
        print_line(
            f"all {counted(held.events, 'event')} of the checkpoint of {held.time:%Y-%m-%d %H:%M:%S} UTC are there as "
            f"they were signed; {since} came since"
        )
    if written:
        print_line(f"{written}: signed at position {report.position}; keep it apart from the store")
