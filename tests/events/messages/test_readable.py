"""What is stored can be read again, whatever an actor's function returned, also where it is stored without a trial."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from redraft.events.errors import CodecError
from redraft.events.messages.codec import GENESIS, decode_event, encode_event
from redraft.events.messages.content import Critique, Draft, DraftRef, Receipt
from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    LoopEnded,
)
from redraft.events.messages.envelope import Origin

REF = DraftRef(1, "a" * 64)
DRAFT = Draft(2, "text", "b" * 64)
WRONG = (
    True,
    7,
    10**400,
    float("nan"),
    float("inf"),
    "text",
    ("text",),
    (1,),
    ["text"],
    b"text",
    None,
    {"a": 1},
    "\ud800",
)

CASES = [
    *((Critique(0.5, ("good",), critic="judge"), name) for name in Critique.__struct_fields__),
    *((DRAFT, name) for name in ("text", "media_type")),
    *((Receipt("here"), name) for name in Receipt.__struct_fields__),
    *((DraftRefined("a", 1, REF, DRAFT, ("shorter",)), name) for name in ("changes", "declined", "exit", "edits")),
    (LoopEnded("Loop", "accepted", "good", 1, REF, 0.5), "score"),
]


def with_wrong(part: Any, name: str, wrong: object) -> DomainEvent:
    """Returns an event in which this field of a part holds something else than its type says."""
    held: Any = msgspec.structs.replace(part, **{name: wrong})
    match part:
        case Critique():
            return DraftCritiqued("Loop[1]/judge", 1, REF, held)
        case Draft():
            return DraftGenerated("write", 1, held)
        case Receipt():
            return DraftPublished("save", 1, REF, held)
        case _:
            return held


@pytest.mark.parametrize(
    ("part", "name"), CASES, ids=lambda case: case if isinstance(case, str) else type(case).__name__
)
def test_what_was_encoded_can_be_read_or_is_refused(part: Any, name: str):
    for wrong in WRONG:
        event = with_wrong(part, name, wrong)
        try:
            kept = encode_event(
                "run", 1, GENESIS, datetime(2026, 3, 1, tzinfo=UTC), Origin("e", "judge", "c", "s"), event
            )
        except (CodecError, msgspec.MsgspecError, OverflowError, TypeError, UnicodeEncodeError):
            continue
        assert decode_event("run", 1, kept.name, kept.state).name == kept.name, wrong
