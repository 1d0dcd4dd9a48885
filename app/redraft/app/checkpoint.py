"""A signed checkpoint: what the log was at a moment, in a file that is kept elsewhere.

A log that holds every event of the checkpoint, in its order and unchanged, gives the same digest at its position; one
whose end was cut off, from which a run was taken, or that was written anew as a whole, does not. Events after it are
fine. The file is JSON: `checkpoint` (below), `key`, the SHA-256 of the public key's 32 bytes, and `signature`, Ed25519
in base64 over `redraft checkpoint`, a line end, and the bytes of `checkpoint` as they stand in the file.

The digest of a log is SHA-256 over the digest before (32 bytes, zeros at first) and the next event's hash in hex, from
the first event to the last, in the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from redraft.app.signing import is_signed, signed
from redraft.events.errors import InputError, Tampered
from redraft.events.sqlite_digest import FileDigest
from redraft.events.verification import Fault, Report

MARKS: Final = 256
"""Digests on the way that a checkpoint holds at most: they say where a log begins to differ."""

_SIGNED: Final = b"redraft checkpoint\n"
_FORMAT: Final = 1


class Checkpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The log up to `position`, at a time (UTC): how many events and runs it has, and its digest.

    `marks` are positions before it, each with the digest there. `file` is the file that held it, if it was
    at rest. `keys` and `all_keys` are digests of the wrapped keys of encrypted runs, as in `Report`; empty if it was
    written by a version that did not know them.
    """

    format: int
    time: datetime
    position: int
    events: int
    runs: int
    digest: str
    marks: tuple[tuple[int, str], ...]
    file: FileDigest | None = None
    keys: str = ""
    all_keys: str = ""


class _File(msgspec.Struct, frozen=True):
    checkpoint: msgspec.Raw
    key: str
    signature: str


def marks_for(head: int) -> tuple[int, ...]:
    """The positions, evenly spaced, whose digests a checkpoint at `head` holds."""
    stride = max(1, -(-head // MARKS))
    return tuple(range(stride, head, stride))


def write_checkpoint(report: Report, key: Ed25519PrivateKey, file: FileDigest | None = None) -> bytes:
    """The file of a checkpoint of a log that was verified without a fault."""
    if report.count:
        raise ValueError("a log with faults is not signed")
    marks = tuple(sorted((at, digest) for at, digest in report.marks.items() if at < report.position))
    now = datetime.now(UTC).replace(microsecond=0)
    held = Checkpoint(
        _FORMAT,
        now,
        report.position,
        report.events,
        report.runs,
        report.digest,
        marks,
        file,
        report.keys,
        report.all_keys,
    )
    raw = msgspec.json.encode(held)
    written = _File(msgspec.Raw(raw), _name(key.public_key()), signed(key, _SIGNED + raw))
    return msgspec.json.encode(written) + b"\n"


def read_checkpoint(path: Path, key: Ed25519PublicKey) -> Checkpoint:
    """A checkpoint that was signed with the private key of this one.

    Raises InputError for a file that is none, or was signed with another key, and Tampered for one that was changed.
    """
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise InputError(f"checkpoint {path} cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise InputError(f"{path} is no checkpoint; redraft audit --all --checkpoint FILE writes one") from None
    if file.key != _name(key):
        raise InputError(f"checkpoint {path} was signed with another key; give the public key that belongs to it")
    if not is_signed(key, _SIGNED + bytes(file.checkpoint), file.signature):
        raise Tampered(f"checkpoint {path} was changed: its signature does not fit")
    try:
        held = msgspec.json.decode(file.checkpoint, type=Checkpoint)
    except msgspec.MsgspecError as error:
        raise InputError(f"checkpoint {path} is of a later version of Redraft: {error}") from None
    return held


def differences(held: Checkpoint, report: Report) -> Iterator[Fault]:
    """What of the log is not what was signed; `report` must have the digests at `positions_of` the checkpoint."""
    when = _when(held)
    if report.position < held.position:
        yield Fault(
            f"the log ends at position {report.position}, but at {held.position} when it was signed ({when}): "
            "its end was cut off"
        )
    before = 0
    for at, digest in (*held.marks, (held.position, held.digest)):
        if at <= report.position and _digest_at(report, at) != digest:
            yield Fault(f"what is recorded at positions {before + 1} to {at} is not what was signed ({when})")
            return
        before = at
    if held.keys and report.position == held.position and report.keys != held.keys:
        yield Fault(
            f"the keys of encrypted runs are not those that were signed ({when}), though no event came since: "
            "one was changed, taken away or put in; restore the store from a copy"
        )


def stray_change(held: Checkpoint, report: Report, now: FileDigest | None) -> Iterator[Fault]:
    """A file that was changed where it holds nothing; told only if SQLite itself cannot have written it since.

    It can, and no row shows it, when it vacuums the file or makes a copy of the store: it counts that. And a key of
    which no event speaks can be put in and taken out. That the file was sealed since is no change.
    """
    signed = held.file
    if signed is None or now is None or held.position != report.position or held.all_keys != report.all_keys:
        return
    if signed.but_seal and not now.is_of(signed) and now.changes == signed.changes:
        yield Fault(
            f"the file is not byte for byte the one that was signed ({_when(held)}), though all rows are as they were "
            "and SQLite counted no change: bytes that hold nothing were changed (or it is another import of the same "
            "archive); restore the store from a copy"
        )


def positions_of(held: Checkpoint) -> Iterable[int]:
    """Where the digest of a log is needed to compare it with the checkpoint."""
    return (*(at for at, _ in held.marks), held.position)


def _when(held: Checkpoint) -> str:
    return f"{held.time:%Y-%m-%d %H:%M:%S} UTC"


def _digest_at(report: Report, position: int) -> str:
    return "0" * 64 if position == 0 else report.marks.get(position, "")


def _name(key: Ed25519PublicKey) -> str:
    return sha256(key.public_bytes_raw()).hexdigest()
