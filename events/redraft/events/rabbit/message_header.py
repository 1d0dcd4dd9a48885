"""The header frame of a message: its properties, read as those that Redraft's own messages have.

The client decodes any property and any kind of header with general code, which copies what is left after each. What it
cannot decode ends its connection, again each time that the message is delivered: so what others send is mended first.
See AMQP 0-9-1, sections 2.3.5.2 and 4.2.6.1, and RabbitMQ's list of the kinds of values.
"""

from __future__ import annotations

import struct
from typing import Final

from pamqp import decode
from pamqp.commands import Basic
from pamqp.common import FieldTable
from pamqp.header import ContentHeader

_KIND, _HEADERS, _MODE, _PRIORITY, _ID, _USER = 0x8000, 0x2000, 0x1000, 0x0800, 0x0080, 0x0010
_OURS: Final = _KIND | _HEADERS | _MODE | _PRIORITY | _ID | _USER
"""The properties that our messages have: content type, headers, delivery mode, priority, message id and user."""

_TEXT, _NUMBER, _TIME, _TABLE, _ARRAY, _BYTES = b"SlTFAx"
"""Kinds of a header's value: ours have the first two."""

_SHORT: Final = ord("n")
"""Stands for a text of at most 255 bytes, which no header's value is."""

_PROPERTIES: Final = b"nnFBBnnnnTnnnn"
"""The kinds of all properties, in their order: the content type comes first, and its flag is the highest."""

_SIZES: Final = {
    kind: size
    for size, kinds in enumerate((b"V\0", b"tbB", b"su", b"", b"Iif", b"D", b"", b"", b"lLdT"))
    for kind in kinds
}
"""The bytes of each kind of value that has a size of its own; the length of the others stands before them."""

_DEEPEST: Final = 16
"""The number of levels to which tables and lists may nest. Deeper ones are read as bytes, so that reading cannot exceed
Python's recursion limit."""

_ASCII: Final = bytes(each if each < 128 else ord("?") for each in range(256))

_header = struct.Struct(">HHQH")
_length = struct.Struct(">I").unpack_from
_number = struct.Struct(">q").unpack_from


def read_header(payload: bytes) -> ContentHeader:
    """Returns the header of a message: what can be read of it, if a stranger sent what cannot be decoded."""
    _, weight, size, _ = _header.unpack_from(payload)
    found = _read_ours(payload)
    if found is not None:
        return ContentHeader(weight, size, found)
    header = ContentHeader()
    header.unmarshal(decodable(payload))
    return header


def decodable(payload: bytes) -> bytes:
    """Returns a header frame that the client can decode: this one, mended where it has to be.

    Texts that are not UTF-8 get question marks, times that no calendar has become numbers or are left out, and deep
    tables become bytes. Where the end of a value cannot be found, all properties are left out.
    """
    if _read_ours(payload) is not None:
        return payload
    mended = bytearray(payload)
    try:
        _mend(mended)
        ContentHeader().unmarshal(bytes(mended))
    except Exception:  # noqa: BLE001 - whatever it is: the message must be read, or it would end every reader
        return payload[: _header.size - 2] + b"\0\0"
    return bytes(mended)


def _mend(header: bytearray) -> None:
    """Changes what the client cannot decode. Raises an error where the end of a value cannot be found."""
    *_, flags = _header.unpack_from(header)
    at = _header.size
    for number, kind in enumerate(_PROPERTIES):
        flag = 0x8000 >> number
        if not flags & flag:
            continue
        if kind == _TIME and not _is_time(header, at):
            header[_header.size - 2 : _header.size] = (flags & ~flag).to_bytes(2)
            del header[at : at + 8]
        else:
            at = _mend_value(header, at, kind, _DEEPEST)


def _mend_value(header: bytearray, at: int, kind: int, levels: int) -> int:
    """Mends one value; returns the place after it."""
    if kind == _SHORT:
        return mend_short(header, at)
    if kind in _SIZES:
        return at + _SIZES[kind]
    if kind not in (_TEXT, _BYTES, _TABLE, _ARRAY):
        raise ValueError("a kind of value that is not known")
    (length,) = _length(header, at)
    at += 4
    end: int = at + length
    while kind in (_TABLE, _ARRAY) and at < end:
        at = mend_short(header, at) if kind == _TABLE else at
        if header[at] == _TIME and not _is_time(header, at + 1):
            header[at] = _NUMBER
        elif header[at] in (_TABLE, _ARRAY) and not levels:
            header[at] = _BYTES
        at = _mend_value(header, at + 1, header[at], levels - 1)
    return end


def mend_short(data: bytearray, at: int) -> int:
    """Makes a text of at most 255 bytes ASCII if it is not UTF-8; returns the place after it."""
    end: int = at + 1 + data[at]
    try:
        data[at + 1 : end].decode()
    except UnicodeDecodeError:
        data[at + 1 : end] = data[at + 1 : end].translate(_ASCII)
    return end


def _is_time(header: bytearray, at: int) -> bool:
    """Returns whether the client can decode a time."""
    try:
        decode.timestamp(bytes(header[at : at + 8]))
    except (ValueError, OverflowError, OSError):
        return False
    return True


def _read_ours(payload: bytes) -> Basic.Properties | None:
    """Returns properties that are as ours; None for any others."""
    *_, flags = _header.unpack_from(payload)
    if flags & ~_OURS:
        return None
    try:
        return _read_properties(payload, flags)
    except (UnicodeDecodeError, struct.error, IndexError):
        return None


def _read_properties(payload: bytes, flags: int) -> Basic.Properties | None:
    """Returns these properties; None where a header is neither text nor a number of 64 bits."""
    found = Basic.Properties()
    at = _header.size
    if flags & _KIND:
        found.content_type, at = read_short(payload, at)
    if flags & _HEADERS:
        table, at = _read_table(payload, at)
        if table is None:
            return None
        found.headers = table
    if flags & _MODE:
        found.delivery_mode, at = payload[at], at + 1
    if flags & _PRIORITY:
        found.priority, at = payload[at], at + 1
    if flags & _ID:
        found.message_id, at = read_short(payload, at)
    if flags & _USER:
        found.user_id, at = read_short(payload, at)
    return found


def _read_table(payload: bytes, at: int) -> tuple[FieldTable | None, int]:
    """Returns a table and the place after it."""
    table: FieldTable = {}
    (length,) = _length(payload, at)
    at += 4
    end = at + length
    while at < end:
        name, at = read_short(payload, at)
        kind = payload[at]
        if kind == _TEXT:
            (length,) = _length(payload, at + 1)
            at += 5 + length
            table[name] = payload[at - length : at].decode()
        elif kind == _NUMBER:
            (table[name],) = _number(payload, at + 1)
            at += 9
        else:
            return None, at
    return table, end


def read_short(payload: bytes, at: int) -> tuple[str, int]:
    """Returns a text of at most 255 bytes, and the place after it."""
    end = at + 1 + payload[at]
    return payload[at + 1 : end].decode(), end
