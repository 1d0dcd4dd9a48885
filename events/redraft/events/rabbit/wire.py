"""A connection's bytes: hands deliveries and confirmations to their readers as they arrive, and the client the rest.

The client reads each frame in a task of its connection, passes it to a task of its channel, and makes a task for each
message: three turns of the event loop, where these readers are called at once. What it writes waits for another task.
See AMQP 0-9-1, sections 2.3 and 4.2, for the frames.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from aiormq import Channel
from aiormq.abc import DeliveredMessage
from aiormq.connection import TransportFactory
from aiormq.exceptions import AMQPConnectionError, DeliveryError, PublishError
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from redraft.events.rabbit.message_header import decodable, mend_short, read_header, read_short

if TYPE_CHECKING:
    from yarl import URL

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END: Final = b"\xce"
_BEAT: Final = struct.pack(">BHI", HEARTBEAT, 0, 0) + END
_DELIVER, _FETCHED, _RETURN, _ACK, _NACK = (struct.pack(">HH", 60, number) for number in (60, 71, 50, 80, 120))

_CLOSED: Final = (struct.pack(">HH", 20, 40), struct.pack(">HH", 20, 41))
"""The server closes a channel, or has closed one that the client wanted closed: nothing comes after that."""

_BEAT_EVERY: Final = 1.0
"""Seconds after which the client, which was passed nothing meanwhile, is told that the server is alive."""

_head = struct.Struct(">BHI").unpack_from
_tag_and_bits = struct.Struct(">QB").unpack_from
_payload_length = struct.Struct(">I").pack
_settle = struct.Struct(">BHIHHQBB").pack
_REQUEUE_REJECT: Final = 1
_REQUEUE_NACK: Final = 2


def ack_frame(channel: int, tag: int, *, multiple: bool) -> bytes:
    """Returns the frame that acknowledges a delivery, or all up to it."""
    return _settle(METHOD, channel, 13, 60, 80, tag, multiple, END[0])


def reject_frame(channel: int, tag: int, *, requeue: bool) -> bytes:
    """Returns the frame that rejects a delivery: the server delivers it again, or makes it a dead letter."""
    return _settle(METHOD, channel, 13, 60, 90, tag, _REQUEUE_REJECT if requeue else 0, END[0])


def nack_frame(channel: int, tag: int) -> bytes:
    """Returns the frame that gives a delivery back, which some servers do not count as they count a rejection."""
    return _settle(METHOD, channel, 13, 60, 120, tag, _REQUEUE_NACK, END[0])


class FrameReader(Protocol):
    """Reads frames of one channel."""

    def take(self, kind: int, payload: bytes) -> bool:
        """Returns whether it has taken a frame; the client gets the others."""
        ...


class Wire(asyncio.StreamReader):
    """The bytes that the client reads: all frames of a connection but those that the reader of a channel has taken."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._clock = loop.time
        self._passed = loop.time()
        self._readers: dict[int, FrameReader] = {}
        self._rest = b""
        self._is_foreign = False
        self._out: asyncio.WriteTransport | None = None

    def attach(self, out: asyncio.WriteTransport) -> None:
        self._out = out

    def read_channel(self, number: int, reader: FrameReader) -> None:
        """Has the frames of an open channel read by this reader, instead of an earlier one, until the channel ends."""
        self._readers[number] = reader

    def write(self, data: bytes) -> None:
        """Writes whole frames; nothing once the connection is closed."""
        if self._out is not None and not self._out.is_closing():
            self._out.write(data)

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # asyncio gives nothing else
        if self._rest:
            data, self._rest = self._rest + data, b""
        try:
            passed = self._read_frames(data) if not self._is_foreign else data
        except (UnicodeDecodeError, IndexError, struct.error) as error:  # else: no broken connection
            raise AMQPConnectionError(f"a frame of the server cannot be read: {error}") from error
        if passed:
            self._passed = self._clock()
            super().feed_data(passed)
        elif self._readers and self._clock() - self._passed > _BEAT_EVERY:
            self._passed = self._clock()
            super().feed_data(_BEAT)

    def feed_eof(self) -> None:
        if self._rest:
            super().feed_data(self._rest)
            self._rest = b""
        super().feed_eof()

    def _read_frames(self, data: bytes) -> bytes:
        """Returns the whole frames that no reader took; keeps the beginning of the last one until its end comes."""
        passed: list[bytes] = []
        at = unread = 0
        while len(data) - at >= 8:
            kind, channel, length = _head(data, at)
            end = at + length + 8
            if kind not in (METHOD, HEADER, BODY, HEARTBEAT):  # the client says that this is no AMQP
                self._is_foreign = True
                at = len(data)
                break
            if end > len(data):
                break
            reader = self._readers.get(channel)
            is_taken = reader is not None and reader.take(kind, data[at + 7 : end - 1])
            mended = b"" if is_taken or kind not in (METHOD, HEADER) else _mended(kind, data[at + 7 : end - 1])
            if is_taken or mended:
                passed += (data[unread:at], mended and data[at : at + 3] + _payload_length(len(mended)) + mended + END)
                unread = end
            elif reader is not None and kind == METHOD and data[at + 7 : at + 11] in _CLOSED:
                del self._readers[channel]
            at = end
        if unread < at:
            passed.append(data[unread:at])
        self._rest = data[at:]
        return b"".join(passed)


def _mended(kind: int, payload: bytes) -> bytes:
    """Returns a frame that the client could not decode in a form that it can; empty for any other."""
    if kind == HEADER:
        mended = decodable(payload)
    else:
        mended = _mended_delivery(payload) if payload[:4] in (_DELIVER, _FETCHED) else payload
    return mended if mended != payload else b""


def _mended_delivery(payload: bytes) -> bytes:
    """Returns the method frame of a delivery, its exchange and key made ASCII where they are no UTF-8."""
    mended = bytearray(payload)
    exchange = mend_short(mended, 4) + 9 if payload[:4] == _DELIVER else 13
    mend_short(mended, mend_short(mended, exchange))
    return bytes(mended)


class _Content:
    """A message whose frames are arriving: the properties, and the body as far as it is here."""

    def __init__(self, method: Basic.Deliver | Basic.Return) -> None:
        self.method = method
        self.header: ContentHeader | None = None
        self.pieces: list[bytes] = []
        self._missing = 0

    def add(self, kind: int, payload: bytes) -> bool:
        """Adds a frame; returns whether the message is whole."""
        if kind == HEADER:
            self.header = read_header(payload)
            self._missing = self.header.body_size
        else:
            self.pieces.append(payload)
            self._missing -= len(payload)
        return self._missing <= 0

    def message(self, channel: Channel) -> DeliveredMessage:
        return DeliveredMessage(self.method, self.header or ContentHeader(), b"".join(self.pieces), channel)


class Deliveries:
    """Reads the messages that a channel's consumers are sent, and passes each to `arrived`, until the channel ends."""

    def __init__(self, channel: Channel, arrived: Callable[[DeliveredMessage], None]) -> None:
        self._channel = channel
        self._arrived = arrived
        self._content: _Content | None = None

    def take(self, kind: int, payload: bytes) -> bool:
        if kind != METHOD:
            if self._content is None:
                return False
            if self._content.add(kind, payload):
                message, self._content = self._content.message(self._channel), None
                if not self._channel.is_closed:
                    self._arrived(message)
            return True
        if self._channel.is_closed or payload[:4] != _DELIVER:
            return False
        self._content = _Content(_read_deliver(payload))
        return True


def _read_deliver(payload: bytes) -> Basic.Deliver:
    consumer, at = read_short(payload, 4)
    tag, redelivered = _tag_and_bits(payload, at)
    found = Basic.Deliver(consumer, tag, bool(redelivered & 1))
    try:
        found.exchange, at = read_short(payload, at + 9)  # not given above, where the client refuses some names
        found.routing_key, _ = read_short(payload, at)
    except UnicodeDecodeError:
        return _read_deliver(_mended_delivery(payload))
    return found


class Confirmations:
    """Reads what the server says of messages that were published on a channel, and tells the client's futures."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._content: _Content | None = None

    def take(self, kind: int, payload: bytes) -> bool:
        if kind != METHOD:
            if self._content is None:
                return False
            if self._content.add(kind, payload):
                message, self._content = self._content.message(self._channel), None
                self._end_returned(message)
            return True
        match payload[:4]:
            case method if method in (_ACK, _NACK):
                tag, bits = _tag_and_bits(payload, 4)
                self._end(tag, bool(bits & 1), confirmed=method == _ACK)
            case method if method == _RETURN:
                returned = Basic.Return()
                returned.unmarshal(payload[4:])
                self._content = _Content(returned)
            case _:
                return False
        return True

    def _end(self, tag: int, multiple: bool, *, confirmed: bool) -> None:
        """Ends the futures of a message, or of all up to it, as far as they were not returned."""
        open_tags = self._channel.confirmations
        for each in [each for each in open_tags if each <= tag] if multiple else [tag]:
            future = open_tags.pop(each, None)
            if not isinstance(future, asyncio.Future) or future.done():
                continue
            if confirmed:
                future.set_result(None)
            else:
                future.set_exception(DeliveryError(None, Basic.Nack(tag, multiple)))

    def _end_returned(self, message: DeliveredMessage) -> None:
        """Ends the future of a message that no queue is bound for; the server confirms it after that all the same."""
        attempt = message.header.properties.message_id or ""
        future = self._channel.confirmations.pop(self._channel.message_id_delivery_tag.get(attempt, 0), None)
        if isinstance(future, asyncio.Future) and not future.done():
            future.set_exception(PublishError(message, message.delivery))


class Wires(TransportFactory):
    """Connects to the server for the client; `wire` is the latest connection."""

    wire: Wire

    async def create(self, url: URL, **options: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:  # noqa: ANN401 - the client's own
        provider = options.pop("ssl_context_provider")
        tls = await provider.get_context() if url.scheme == "amqps" else None
        loop = asyncio.get_running_loop()
        wire = Wire(loop)
        protocol = asyncio.StreamReaderProtocol(wire, loop=loop)
        try:
            out, _ = await loop.create_connection(lambda: protocol, url.host or "", url.port or 0, ssl=tls, **options)
        except OSError as error:
            raise AMQPConnectionError(*error.args) from error
        wire.attach(out)
        self.wire = wire
        return wire, asyncio.StreamWriter(out, protocol, wire, loop)
