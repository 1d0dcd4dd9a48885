"""What the prose checks say of a text."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Fault: TypeAlias = Literal["spelling", "doubled", "wordy", "doubtful", "plainer", "style", "long"]
"""`spelling`, `doubled` and `wordy` are sure and are put right; the others are for a person, or a model, to weigh."""


class Finding(msgspec.Struct, frozen=True):
    """What to say of the text at an offset: the words found, and what to write instead or a sentence about them."""

    fault: Fault
    at: int
    found: str
    instead: str = ""
    note: str = ""
