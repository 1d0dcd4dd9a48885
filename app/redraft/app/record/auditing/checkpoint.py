"""Writes and compares signed checkpoints: the state of the log at a time, in a file that is kept elsewhere.

A log that holds every event of the checkpoint, in order and unchanged, has the same digest at its position. One whose
end was cut off, that lost a run, or that was rewritten has not. Later events do not matter. The file is JSON:
`checkpoint` (below), `key`, the SHA-256 of the public key's 32 bytes, and `signature`, Ed25519 in base64 over `redraft
checkpoint`, a line end, and the bytes of `checkpoint` as they stand in the file.

The digest of a log is SHA-256 over the digest before (32 bytes, zeros at first) and the next event's hash in hex, from
the first event to the last, in the order of the log.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from redraft.events.errors import InputError, Tampered
from redraft.events.messages.codec import UNREADABLE
from redraft.events.store.verification import Fault, Report

REMEDY = "`redraft key signing FILE` makes a pair"


class KeyPair(msgspec.Struct, frozen=True):
    """A new pair of keys, each in PEM."""

    private: str
    public: str

    def __repr__(self) -> str:
        return "KeyPair(private=…, public=…)"


def generate_pair() -> KeyPair:
    """Generates a new pair of keys."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(private.decode(), public.decode())


def read_private(pem: str, where: str) -> Ed25519PrivateKey:
    """Returns the signing key. Raises InputError, which names `where` and never repeats the key."""
    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{where} is not a private Ed25519 key in PEM without a password; {REMEDY}")
    return key


def read_public(pem: str, where: str) -> Ed25519PublicKey:
    """Returns the verifying key. Raises InputError."""
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{where} is not a public Ed25519 key in PEM; {REMEDY}, and the public one ends with .pub")
    return key


def sign(key: Ed25519PrivateKey, message: bytes) -> str:
    """Returns the signature of a message, in base64."""
    return b64encode(key.sign(message)).decode()


def is_signed(key: Ed25519PublicKey, message: bytes, signature: str) -> bool:
    """Returns whether the signature is that of the message by the private key of this public key."""
    try:
        key.verify(b64decode(signature, validate=True), message)
    except (InvalidSignature, Base64Error, ValueError):
        return False
    return True


MAX_MARKS: Final = 256
"""The maximum number of intermediate digests of a checkpoint, which show where a log begins to differ."""

_SIGNED: Final = b"redraft checkpoint\n"


class Checkpoint(msgspec.Struct, frozen=True):
    """The log up to `position`, at a time (UTC): the number of its events and runs, and its digest.

    `marks` are earlier positions, each with its digest. `keys` is the digest of the wrapped keys of encrypted runs, as
    in `Report`; empty if written by a version that did not record it.
    """

    format: Literal[1]
    time: datetime
    position: int
    events: int
    runs: int
    digest: str
    marks: tuple[tuple[int, str], ...]
    keys: str = ""


class _File(msgspec.Struct, frozen=True):
    checkpoint: msgspec.Raw
    key: str
    signature: str


def marks_for(head: int) -> tuple[int, ...]:
    """Returns the positions, evenly spaced, whose digests a checkpoint at `head` holds."""
    stride = max(1, -(-head // MAX_MARKS))
    return tuple(range(stride, head, stride))


def write_checkpoint(report: Report, key: Ed25519PrivateKey) -> bytes:
    """Returns the file of a signed checkpoint of a log that was verified without a fault."""
    if report.count:
        raise ValueError("a log with faults is not signed")
    marks = tuple(sorted((at, digest) for at, digest in report.marks.items() if at < report.position))
    now = datetime.now(UTC).replace(microsecond=0)
    held = Checkpoint(1, now, report.position, report.events, report.runs, report.digest, marks, report.keys)
    raw = msgspec.json.encode(held)
    written = _File(msgspec.Raw(raw), _fingerprint(key.public_key()), sign(key, _SIGNED + raw))
    return msgspec.json.encode(written) + b"\n"


def read_checkpoint(path: Path, key: Ed25519PublicKey) -> Checkpoint:
    """Returns a checkpoint that was signed with the private key of `key`.

    Raises InputError for a file that is no checkpoint or was signed with another key, and Tampered for a changed one.
    """
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise InputError(f"checkpoint {path} cannot be read: {error.strerror}") from None
    except UNREADABLE:
        raise InputError(f"{path} is not a checkpoint; redraft audit --all --checkpoint FILE writes one") from None
    if file.key != _fingerprint(key):
        raise InputError(f"checkpoint {path} was signed with another key; give the public key that belongs to it")
    if not is_signed(key, _SIGNED + bytes(file.checkpoint), file.signature):
        raise Tampered(f"checkpoint {path} was changed: its signature does not fit")
    try:
        held = msgspec.json.decode(file.checkpoint, type=Checkpoint)
    except UNREADABLE as error:
        raise InputError(f"checkpoint {path} is of a later version of Redraft: {error}") from None
    return held


def find_differences(held: Checkpoint, report: Report) -> Iterator[Fault]:
    """Yields what differs between the log and the checkpoint; `report` must have the digests at `positions_of` it."""
    when = _format_time(held)
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


def positions_of(held: Checkpoint) -> Iterable[int]:
    """Returns the positions whose digests are needed to compare a log with the checkpoint."""
    return (*(at for at, _ in held.marks), held.position)


def _format_time(held: Checkpoint) -> str:
    return f"{held.time:%Y-%m-%d %H:%M:%S} UTC"


def _digest_at(report: Report, position: int) -> str:
    return "0" * 64 if position == 0 else report.marks.get(position, "")


def _fingerprint(key: Ed25519PublicKey) -> str:
    return sha256(key.public_bytes_raw()).hexdigest()
