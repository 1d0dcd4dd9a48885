"""The key by which a verdict is taken again: the hash of all that a critic is given, with its actor and version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from redraft.events.messages.content import Brief, DraftRef
from redraft.events.messages.plan import Node, Parallel, Repeat, Step
from redraft.events.messages.run_state import Values

Row: TypeAlias = list[tuple[str, Step]]

_RECORDED: Final = msgspec.json.Decoder(Step)


def verdict_key(
    step: Step,
    twins: int,
    brief: Brief,
    draft: DraftRef,
    media_type: str,
    outputs: Sequence[DraftRef],
    values: Values,
) -> str:
    """Returns the SHA-256 of what a critic is given about a draft of this media type; `values` are the run's state.

    The place in the plan and the numbers of drafts, attempts and iterations take no part: the same actor, version,
    options and texts give the same key, in every loop and run. `twins` (see `twins_before`) keeps critics apart that
    are given the very same about the same draft.
    """
    texts = brief, draft.sha256, media_type, [each.sha256 for each in outputs]
    recorded = _RECORDED.decode(msgspec.json.encode(step))  # a scale of 1 to 10 is recorded as one of 1.0 to 10.0
    given = (*_given(recorded), twins, texts, *([values] if values else ()))
    return sha256(msgspec.json.encode(given, order="deterministic")).hexdigest()


def twins_before(nodes: Sequence[Node], place: str) -> int:
    """Returns how many critics before the one at this place in a plan judge each draft with it and are given the same.

    Whoever has two such critics in a panel, or in a row, wants two opinions: no two of them share a verdict.
    """
    for row in _rows(nodes, ""):
        for number, (path, step) in enumerate(row):
            if path == place:
                return sum(_given(other) == _given(step) for _, other in row[:number])
    return 0


def _given(step: Step) -> tuple[object, ...]:
    """Returns what the plan gives to a critic, and who it is."""
    return step.actor, step.version, step.options, step.scale, step.criteria, step.measures


def _rows(nodes: Sequence[Node], parent: str) -> Iterator[Row]:
    """Yields the critics that judge each draft together: those of a panel, and of panels and critics in a row."""
    row: Row = []
    for node in nodes:
        path = f"{parent}{node.name}"
        match node:
            case Step(role="critic"):
                row.append((path, node))
                continue
            case Parallel(steps=steps) if steps[0].role == "critic":
                row += [(f"{path}/{step.name}", step) for step in steps]
                continue
            case Repeat(body=body):
                yield from _rows(body, f"{path}/")
            case _:
                pass
        yield row
        row = []
    yield row
