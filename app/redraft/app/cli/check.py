"""The result of one check of `redraft doctor`, as a line or as JSON."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Level: TypeAlias = Literal["ok", "warn", "fail"]


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: what was looked at, how it is, and what to do about it.

    `unreachable`: store or broker cannot be opened. `misused`: what names it cannot be understood.
    """

    name: str
    level: Level
    told: str
    unreachable: bool = False
    misused: bool = False
