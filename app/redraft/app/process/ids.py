"""Ids for runs and for messages, unlike any other, sortable by the time they were made."""

from __future__ import annotations

import random
import time
from typing import Final

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS: Final = [first + second for first in _ALPHABET for second in _ALPHABET]


def new_run_id() -> str:
    """Returns a ULID in lower case, 26 characters: 48 bits of time (since 1970) and 80 of randomness.

    The layout is that of the ULID specification, https://github.com/ulid/spec.
    """
    number = (time.time_ns() // 1_000_000) << 80 | random.getrandbits(80)
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])


def new_message_id() -> str:
    """48 bits of time and 80 random ones in hex, as a UUID of version 7 has them; from no secret generator.

    Ids that come one after the other lie side by side in an index of events: a commit then writes few of its pages.
    """
    return f"{(time.time_ns() // 1_000_000) << 80 | random.getrandbits(80):032x}"
