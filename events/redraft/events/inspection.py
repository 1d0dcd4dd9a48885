"""What was found about the place that holds the events: a file, or the tables of a database."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Inspection(msgspec.Struct, frozen=True):
    """`faults` are what is wrong; `remarks` are what could not be looked at, and why.

    `otherwise` says that something is wrong, and not what: for when nothing else is found, in the events either.
    """

    faults: Sequence[str] = ()
    remarks: Sequence[str] = ()
    otherwise: Sequence[str] = ()
