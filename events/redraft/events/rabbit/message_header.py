"""The header frame of a message: its properties, read as those that Redraft's own messages have.

The client decodes any property and any kind of header with general code, which copies what is left after each.
See AMQP 0-9-1, sections 2.3.5.2 and 4.2.6.1, and RabbitMQ's list of the kinds of values.
"""

from __future__ import annotations

import struct
from typing import Final

from pamqp.commands import Basic
from pamqp.common import FieldTable
from pamqp.header import ContentHeader

_KIND, _HEADERS, _MODE, _PRIORITY, _ID, _USER = 0x8000, 0x2000, 0x1000, 0x0800, 0x0080, 0x0010
_OURS: Final = _KIND | _HEADERS | _MODE | _PRIORITY | _ID | _USER
"""The properties that our messages have: content type, headers, delivery mode, priority, message id and user."""

_TEXT, _NUMBER = b"Sl"
"""The kinds of a header's value that ours have."""

_header = struct.Struct(">HHQH")
_length = struct.Struct(">I").unpack_from
_number = struct.Struct(">q").unpack_from


def read_header(payload: bytes) -> ContentHeader:
    """Returns the header of a message; leaves to the client one with more properties than ours have."""
    _, weight, size, flags = _header.unpack_from(payload)
    try:
        found = None if flags & ~_OURS else _read_properties(payload, flags)
    except UnicodeDecodeError:
        found = None
    if found is not None:
        return ContentHeader(weight, size, found)
    header = ContentHeader()
    header.unmarshal(payload)
    return header


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
