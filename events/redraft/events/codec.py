"""How events and messages become bytes and are read again: stable names, strict types, upcasts of older versions.

Releases meet: a field that a later one added is passed over, and one that changes what an event means needs a new name
or new rules, which are refused here. What is not known in a plan or a condition is refused too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from redraft.events.commands import MESSAGE_NAMES, WORK_NAMES, Message, Work
from redraft.events.domain_events import (
    EVENT_NAMES,
    DomainEvent,
    IterationStarted,
    LoopClosing,
    LoopEnded,
    PanelClosed,
    RunEnded,
    RunStarted,
    StepRequested,
)
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import CodecError, Tampered, UnknownName
from redraft.events.rules import known
from redraft.events.texts import Place, Text, restored, texts_in, without

T = TypeVar("T")
Data: TypeAlias = dict[str, object]
Upcast: TypeAlias = Callable[[Data], Data]

GENESIS: Final = "0" * 64
"""The `previous` of a run's first event."""

HASHED: Final = b'{"hash":"'
"""How the bytes of every event begin."""
_HASH_END: Final = len(HASHED) + 64


class _Stored(msgspec.Struct, Generic[T], frozen=True, gc=False, omit_defaults=True):
    """An event as it lies in the store. The hash comes first, so that the rest can be hashed as it stands."""

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


class Seal(Protocol):
    """What seals the texts of one run's events, and opens them again."""

    def seal(self, version: int, name: str, texts: list[tuple[Place, Text]]) -> str: ...

    def open(self, version: int, name: str, sealed: str) -> list[tuple[Place, Text]]: ...


Opener: TypeAlias = Callable[[str], Seal | None]
"""Gives the seal of a run, None when its key was destroyed; raises Sealed when the key is not here."""


class Stored(msgspec.Struct, frozen=True, gc=False):
    """An encoded event: its stored name, its bytes, and the hash that they hold."""

    name: str
    state: bytes
    hash: str


class Link(msgspec.Struct, frozen=True):
    """What ties a stored event to its run and log: the hash before it, its own, its id; whether texts are sealed."""

    previous: str
    sealed: str = ""
    id: str = ""
    hash: str = ""


UPCASTS: dict[str, tuple[str, Upcast]] = {}
"""For each name that is no longer written: the name that follows it, and how its data becomes that of the next."""

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What is raised for bytes that are not what they should be; JSON may nest deeper than can be followed."""

UNBOUNDED: Final = frozenset({IterationStarted, LoopClosing, LoopEnded, PanelClosed, RunEnded, StepRequested})
"""Events that deciding makes itself, with no field whose value has bounds but `reserved`: as written, they are read."""

_ENCODER = msgspec.json.Encoder()
_EVENT_TYPES = {name: kind for kind, name in EVENT_NAMES.items()}
_EVENT_DECODERS = {name: msgspec.json.Decoder(_Stored[kind]) for kind, name in EVENT_NAMES.items()}  # type: ignore[valid-type]
_LINKS = msgspec.json.Decoder(Link)
_NAMES: dict[type, str] = {**MESSAGE_NAMES, **WORK_NAMES}
_MESSAGE_DECODERS = {name: msgspec.json.Decoder(kind) for kind, name in MESSAGE_NAMES.items()}
_WORK_DECODERS = {name: msgspec.json.Decoder(kind) for kind, name in WORK_NAMES.items()}


def encode_event(
    run: str, version: int, previous: str, time: datetime, origin: Origin, event: DomainEvent, seal: Seal | None = None
) -> Stored:
    """The bytes of an event, with the hash over its run, version, name and content, and with the hash before it.

    With a `seal` its texts are encrypted, and the hash is over the encrypted bytes. Raises CodecError when these bytes
    would not be read as this event again: JSON has no NaN, and a number may be outside of what its field allows.
    """
    name = EVENT_NAMES[type(event)]
    data, sealed = (event, "") if seal is None else _sealed(version, name, event, seal)
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
    if seal is None and type(event) in UNBOUNDED and b'"reserved"' not in plain and b"null" not in plain:
        return stored
    decoder = _EVENT_DECODERS.get(name) if seal is None else None
    if decoder is not None:  # as decode_event does it, without all that is known already
        read = decoder.decode(stored.state).data
    else:
        read = decode_event(run, version, name, stored.state, 0, lambda _: seal).data
    if read != event and b"null" in plain:
        raise CodecError("it holds a number that JSON does not have")
    return stored


def decode_event(
    run: str, version: int, name: str, state: bytes, position: int = 0, opener: Opener | None = None
) -> Recorded:
    """The event that was stored under this name; raises UnknownName, UnknownRules or CodecError.

    Sealed texts are opened with what the `opener` gives (raises Sealed, Tampered). Without one, or when the run was
    erased, `texts.ERASED` stands in their place.
    """
    decoder = _EVENT_DECODERS.get(name)
    try:
        stored = decoder.decode(state) if decoder else _upcast(name, state)
        if stored.sealed and opener is not None and (seal := opener(run)) is not None:
            stored = _upcast(name, state, seal.open(version, name, stored.sealed))
    except UNREADABLE as error:
        raise CodecError(f"event {version} of run {run} ({name}) cannot be read: {error}") from error
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


def verify_hash(run: str, version: int, name: str, state: bytes, previous: str) -> str:
    """The hash of a stored event that is unchanged and follows the event with the hash `previous`; else Tampered."""
    fingerprint = verify_content(run, version, name, state)
    if link_of(run, version, name, state).previous != previous:
        raise Tampered(
            f"{_where(run, version, name)} does not follow the event before it: one was changed or taken out"
        )
    return fingerprint


def link_of(run: str, version: int, name: str, state: bytes) -> Link:
    """Returns what ties a stored event to its run and log; raises Tampered for bytes that are no event."""
    try:
        return _LINKS.decode(state)
    except UNREADABLE as error:
        raise Tampered(f"{_where(run, version, name)} is not what was recorded: it cannot be read") from error


def verify_content(run: str, version: int, name: str, state: bytes) -> str:
    """The hash of a stored event that is as it was recorded, whatever was before it; else Tampered."""
    where = _where(run, version, name)
    if not state.startswith(HASHED):
        raise Tampered(f"{where} does not begin with its hash")
    fingerprint = _fingerprint(run, version, name, b"{" + state[_HASH_END + 2 :])
    if state[len(HASHED) : _HASH_END + 2] != f'{fingerprint}",'.encode():
        raise Tampered(f"{where} is not what was recorded: its hash does not fit its content")
    return fingerprint


def hash_of(state: bytes) -> str:
    """The hash that stored bytes say they have; of those that say none, their own."""
    stated = state[len(HASHED) : _HASH_END]
    if state.startswith(HASHED) and re.fullmatch(rb"[0-9a-f]{64}", stated):
        return stated.decode()
    return sha256(state).hexdigest()


def _where(run: str, version: int, name: str) -> str:
    return f"event {version} of run {run} ({name})"


def encode_message(message: Message | Work) -> tuple[str, bytes]:
    """The stable name and the bytes of a message."""
    return _NAMES[type(message)], _ENCODER.encode(message)


def decode_message(name: str, body: bytes) -> Message:
    """A message for the coordinator; raises UnknownName or CodecError."""
    return _decode(_MESSAGE_DECODERS, name, body)


def decode_work(name: str, body: bytes) -> Work:
    """A request for work; raises UnknownName or CodecError."""
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
    whole = sha256(f"{run}\n{version}\n{name}\n".encode())
    whole.update(plain)
    return whole.hexdigest()


def _sealed(version: int, name: str, event: DomainEvent, seal: Seal) -> tuple[Data | DomainEvent, str]:
    """The data of an event without its texts, and the texts as they are kept; the event itself if it has none."""
    texts = list(texts_in(event))
    if not texts:
        return event, ""
    return without(msgspec.json.decode(_ENCODER.encode(event)), texts), seal.seal(version, name, texts)


def _upcast(name: str, state: bytes, texts: Sequence[tuple[Place, Text]] = ()) -> _Stored[DomainEvent]:
    """Reads an event of an older version by turning its data, step by step, into that of the current one.

    `texts` are put back into their places first.
    """
    old = msgspec.json.decode(state, type=_Stored[msgspec.Raw])
    try:
        data = restored(msgspec.json.decode(old.data, type=dict), texts)
    except (LookupError, TypeError) as error:
        raise msgspec.ValidationError("a sealed text has no place in it") from error
    current = name
    while current not in _EVENT_TYPES:
        if current not in UPCASTS:
            raise UnknownName(f"no event is named {current!r}; it may come from a later version of Redraft")
        current, upcast = UPCASTS[current]
        data = upcast(data)
    event: DomainEvent = msgspec.convert(data, _EVENT_TYPES[current])
    return _Stored(
        old.id,
        old.time,
        old.previous,
        old.actor,
        event,
        old.causation,
        old.correlation,
        old.trace,
        old.repeats,
        old.sealed,
        old.hash,
    )
