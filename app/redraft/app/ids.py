"""Ids: for runs, sortable by the time they were made; for messages, just unlike any other."""

from __future__ import annotations

import random
import time
from typing import Final

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS: Final = [first + second for first in _ALPHABET for second in _ALPHABET]


def run_id(milliseconds: int, randomness: bytes) -> str:
    """A ULID in lower case, 26 characters: 48 bits of time (since 1970) and 80 of randomness (10 bytes).

    The layout is that of the ULID specification, https://github.com/ulid/spec.
    """
    number = (milliseconds << 80) | int.from_bytes(randomness)
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])


def new_run_id() -> str:
    return run_id(time.time_ns() // 1_000_000, random.randbytes(10))  # noqa: S311 - an id, no secret


def new_message_id() -> str:
    """128 random bits in hex, from a generator that the system seeds: unlike any other, but no secret."""
    return f"{random.getrandbits(128):032x}"
