"""Encodes and decodes events and messages: stable names, strict types, upcasts of older versions.

Different releases run at the same time: fields that a later release added are ignored. A change to the meaning of an
event needs a new name or new rules, which older releases reject. Unknown fields of a plan or a condition are rejected
too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final, Generic, Protocol, TypeAlias, TypeVar, cast

import msgspec

from redraft.events.errors import CodecError, InputError, Tampered, UnknownName
from redraft.events.messages.commands import MESSAGE_NAMES, WORK_NAMES, Message, Work
from redraft.events.messages.domain_events import (
    DomainEvent,
    RunStarted,
)
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.plan import known
from redraft.events.messages.readable import is_surely_readable
from redraft.events.messages.redaction import Place, Text, find_texts, redact, restore

T = TypeVar("T")
Data: TypeAlias = dict[str, object]
Upcast: TypeAlias = Callable[[Data], Data]

GENESIS: Final = "0" * 64
"""The `previous` of a run's first event."""

HASHED: Final = b'{"hash":"'
"""The first bytes of every stored event."""
_HASH_END: Final = len(HASHED) + 64


class _Stored(msgspec.Struct, Generic[T], frozen=True, gc=False, omit_defaults=True):
    """An event as the store keeps it. The hash comes first, so that the remaining bytes can be hashed as they are."""

    id: str
    time: datetime
    previous: str
    actor: str
    data: T
    causation: str = ""
    correlation: str = ""
    trace: str = ""
    repeats: str = ""
    sealed: str = ""
    hash: str = ""


class TextCipher(Protocol):
    """Encrypts and decrypts the texts of one run's events."""

    def seal(self, version: int, name: str, texts: list[tuple[Place, Text]]) -> str: ...

    def open(self, version: int, name: str, sealed: str) -> list[tuple[Place, Text]]: ...


Opener: TypeAlias = Callable[[str], TextCipher | None]
"""Returns the cipher of a run, None when its key was destroyed; raises EncryptionKeyMissing when it is not given."""


class Stored(msgspec.Struct, frozen=True, gc=False):
    """An encoded event: its stored name, its bytes, and the hash that they hold."""

    name: str
    state: bytes
    hash: str


class Link(msgspec.Struct, frozen=True):
    """The hash of the event before, the encrypted texts, the id and the hash of a stored event."""

    previous: str
    sealed: str = ""
    id: str = ""
    hash: str = ""


UPCASTS: dict[str, tuple[str, Upcast]] = {}
"""For each name that is no longer written: the name that replaces it, and a function that converts its data."""

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors that decoding damaged bytes can raise; JSON may nest too deep."""

_ENCODER = msgspec.json.Encoder()
_EVENT_TYPES = {name: kind for kind, name in EVENT_NAMES.items()}
_EVENT_DECODERS = {name: msgspec.json.Decoder(_Stored[kind]) for kind, name in EVENT_NAMES.items()}  # type: ignore[valid-type]
_LINKS = msgspec.json.Decoder(Link)
_NAMES: dict[type, str] = {**MESSAGE_NAMES, **WORK_NAMES}
_MESSAGE_DECODERS = {name: msgspec.json.Decoder(kind) for kind, name in MESSAGE_NAMES.items()}
_WORK_DECODERS = {name: msgspec.json.Decoder(kind) for kind, name in WORK_NAMES.items()}


def encode_event(
    run: str,
    version: int,
    previous: str,
    time: datetime,
    origin: Origin,
    event: DomainEvent,
    seal: TextCipher | None = None,
) -> Stored:
    """Encodes an event with a hash over its run, version, name, content and the previous hash.

    With a `seal`, encrypts its texts. Raises CodecError when the bytes would not decode to this event again: JSON has
    no NaN, and a number may be outside the range of its field.
    """
    name = EVENT_NAMES[type(event)]
    data, sealed = (event, "") if seal is None else _seal_texts(version, name, event, seal)
    plain = _ENCODER.encode(
        _Stored(
            origin.id,
            time,
            previous,
            origin.actor,
            data,
            origin.causation,
            origin.correlation,
            origin.trace,
            origin.repeats,
            sealed,
        )
    )
    fingerprint = _fingerprint(run, version, name, plain)
    stored = Stored(name, b'%b%b",%b' % (HASHED, fingerprint.encode(), plain[1:]), fingerprint)
    if seal is None and is_surely_readable(event):
        return stored
    decoder = _EVENT_DECODERS.get(name) if seal is None else None
    if decoder is not None:  # a shorter decode_event, for what is known already
        read = decoder.decode(stored.state).data
    else:
        read = decode_event(run, version, name, stored.state, 0, lambda _: seal).data
    if b"null" in plain and read != event:
        raise CodecError("it holds a number that JSON does not have")
    return stored


def decode_event(
    run: str, version: int, name: str, state: bytes, position: int = 0, opener: Opener | None = None
) -> Recorded:
    """Decodes the event that was stored under this name; raises UnknownName, UnknownRules or CodecError.

    Decrypts its texts with the cipher that `opener` returns (raises EncryptionKeyMissing, Tampered). Without an opener,
    or when the run was erased, `redaction.ERASED` stands in place of each text.
    """
    decoder = _EVENT_DECODERS.get(name)
    try:
        stored = decoder.decode(state) if decoder else _upcast(name, state)
        if stored.sealed and opener is not None and (seal := opener(run)) is not None:
            stored = _upcast(name, state, seal.open(version, name, stored.sealed))
    except UNREADABLE as error:
        raise CodecError(f"event {version} of run {run} ({name}) cannot be read: {error}") from error
    if not _is_in_place(stored, state):
        raise CodecError(
            f"event {version} of run {run} ({name}) cannot be read: its hash, id or previous hash is not in its place, "
            "or is there twice"
        )
    if isinstance(stored.data, RunStarted):
        known(stored.data.rules)
    return Recorded(
        stored.id,
        run,
        version,
        stored.time,
        stored.actor,
        stored.causation,
        stored.correlation,
        stored.trace,
        stored.previous,
        stored.hash,
        name,
        stored.data,
        position,
        stored.repeats,
        bool(stored.sealed),
    )


def _is_in_place(stored: _Stored[DomainEvent], state: bytes) -> bool:
    """Returns whether the hash, the id and the previous hash are those that the database has compared.

    It looks at their places alone, and JSON may have a field twice, of which the last counts.
    """
    at = state.find(b'"previous":"', _HASH_END) + 12
    shown = b"".join((HASHED, stored.hash.encode(), b'","id":', _ENCODER.encode(stored.id), b',"time":"'))
    return state.startswith(shown) and state[at : at + 64] == stored.previous.encode()


def verify_hash(run: str, version: int, name: str, state: bytes, previous: str) -> str:
    """Returns the hash of an event. Raises Tampered when it was changed or does not follow the hash `previous`."""
    fingerprint = verify_content(run, version, name, state)
    if link_of(run, version, name, state).previous != previous:
        raise Tampered(
            f"{_describe(run, version, name)} does not follow the event before it: one was changed or taken out"
        )
    return fingerprint


def link_of(run: str, version: int, name: str, state: bytes) -> Link:
    """Returns the fields that tie a stored event to its run and log; raises Tampered for bytes that are no event."""
    try:
        return _LINKS.decode(state)
    except UNREADABLE as error:
        raise Tampered(f"{_describe(run, version, name)} is not what was recorded: it cannot be read") from error


def is_version(value: object) -> bool:
    """Returns whether a value can be the version of an event: SQLite keeps values of other types in its column too."""
    return isinstance(value, int)


def verify_content(run: str, version: int, name: str, state: bytes) -> str:
    """Returns the hash of a stored event, whatever was before it.

    Raises Tampered when the event was changed, and for a version that is no integer.
    """
    if not is_version(version):
        raise Tampered(f"{_describe(run, version, name)} has a version that is no integer")
    fingerprint = _fingerprint(run, version, name, b"{" + state[_HASH_END + 2 :])
    if state.startswith(b'%b%b",' % (HASHED, fingerprint.encode())):
        return fingerprint
    where = _describe(run, version, name)
    if not state.startswith(HASHED):
        raise Tampered(f"{where} does not begin with its hash")
    raise Tampered(f"{where} is not what was recorded: its hash does not fit its content")


def hash_of(state: bytes) -> str:
    """Returns the hash that stored bytes begin with; where they begin with none, the hash of the bytes themselves."""
    stated = state[len(HASHED) : _HASH_END]
    if state.startswith(HASHED) and re.fullmatch(rb"[0-9a-f]{64}", stated):
        return stated.decode()
    return sha256(state).hexdigest()


def _describe(run: str, version: int, name: str) -> str:
    return f"event {version} of run {run} ({name})"


def encode_message(message: Message | Work) -> tuple[str, bytes]:
    """Returns the stable name and the bytes of a message."""
    return _NAMES[type(message)], _ENCODER.encode(message)


def encode_said(message: Message) -> tuple[str, bytes]:
    """Returns the stable name and the bytes of a message, as `encode_message` does.

    Raises InputError, naming the field, for a text with half a character, which UTF-8 cannot write: Python reads bytes
    of another encoding on a command line so.
    """
    try:
        return encode_message(message)
    except UnicodeEncodeError as error:
        fields = (name for name in message.__struct_fields__ if getattr(message, name) == error.object)
        what = next(fields, "the message")
        raise InputError(f"{what}: character {error.start + 1} cannot be written as UTF-8; remove it") from None


def decode_message(name: str, body: bytes) -> Message:
    """Decodes a message for the coordinator; raises UnknownName or CodecError."""
    return _decode(_MESSAGE_DECODERS, name, body)


def decode_work(name: str, body: bytes) -> Work:
    """Decodes a request for work; raises UnknownName or CodecError."""
    return _decode(_WORK_DECODERS, name, body)


def _decode(decoders: Mapping[str, msgspec.json.Decoder[T]], name: str, body: bytes) -> T:
    decoder = decoders.get(name)
    if decoder is None:
        raise UnknownName(f"no message is named {name!r}")
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        raise CodecError(f"{name} cannot be read: {error}") from error


def _fingerprint(run: str, version: int, name: str, plain: bytes) -> str:
    return sha256(f"{run}\n{version}\n{name}\n".encode() + plain).hexdigest()


def _seal_texts(version: int, name: str, event: DomainEvent, seal: TextCipher) -> tuple[Data | DomainEvent, str]:
    """Returns the event's data without its texts, and the encrypted texts; the event itself and "" if it has none."""
    texts = list(find_texts(event))
    if not texts:
        return event, ""
    return redact(msgspec.json.decode(_ENCODER.encode(event)), texts), seal.seal(version, name, texts)


def _upcast(name: str, state: bytes, texts: Sequence[tuple[Place, Text]] = ()) -> _Stored[DomainEvent]:
    """Decodes an event of an older version: puts back its `texts`, and converts its data, version by version."""
    old = msgspec.json.decode(state, type=_Stored[msgspec.Raw])
    try:
        data = restore(msgspec.json.decode(old.data, type=dict), texts)
    except (LookupError, TypeError) as error:
        raise msgspec.ValidationError("an encrypted text is not allowed in it") from error
    current = name
    while current not in _EVENT_TYPES:
        if current not in UPCASTS:
            raise UnknownName(f"no event is named {current!r}; it may come from a later version of Redraft")
        current, upcast = UPCASTS[current]
        data = upcast(data)
    event: DomainEvent = msgspec.convert(data, _EVENT_TYPES[current])
    return cast("_Stored[DomainEvent]", msgspec.structs.replace(old, data=event))
