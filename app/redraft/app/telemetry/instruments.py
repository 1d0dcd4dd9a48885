"""The table of all instruments: the only place where a metric is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

Values: TypeAlias = Mapping[tuple[str, ...], float]
"""The values of a gauge by those of its attributes, in the order of the table."""

Kind: TypeAlias = Literal["counter", "histogram", "gauge"]


class Instrument(msgspec.Struct, frozen=True):
    """A metric: its name and unit in OpenTelemetry, its attributes, and the bounds of a histogram's buckets."""

    name: str
    kind: Kind
    unit: str
    attributes: tuple[str, ...]
    description: str
    bounds: tuple[float, ...] = ()


_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 21_600, 86_400)
_MILLISECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_TENTHS: Final = tuple(each / 20 for each in range(1, 21))
_COUNTS: Final = (0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100)
_MONEY: Final = (0.0001, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 50, 100)
_RUN: Final = ("workflow", "outcome")
_WORK: Final = ("workflow", "role", "actor", "model")

INSTRUMENTS: Final = (
    Instrument("redraft.runs", "counter", "{run}", _RUN, "Runs that ended."),
    Instrument("redraft.run.duration", "histogram", "s", _RUN, "From the start of a run to its end.", _SECONDS),
    Instrument("redraft.run.score", "histogram", "", _RUN, "Score of a run's last draft, 0 to 1.", _TENTHS),
    Instrument(
        "redraft.run.iterations", "histogram", "{iteration}", _RUN, "Iterations of a run's outermost loops.", _COUNTS
    ),
    Instrument(
        "redraft.run.cost", "histogram", "", (*_RUN, "currency"), "Money that a run used, with its items.", _MONEY
    ),
    Instrument(
        "redraft.accepted_draft.cost",
        "gauge",
        "",
        ("workflow", "currency"),
        "Money that all ended runs used, for each run that was accepted; since this process began to follow the log.",
    ),
    Instrument(
        "redraft.step.duration",
        "histogram",
        "s",
        ("workflow", "role", "actor", "outcome"),
        "From the request of a step's attempt to its answer, waiting in the queue included.",
        _SECONDS,
    ),
    Instrument(
        "redraft.tokens", "counter", "{token}", (*_WORK, "type"), "Tokens used: input, output, or of unknown type."
    ),
    Instrument("redraft.cost", "counter", "", (*_WORK, "currency"), "Money used."),
    Instrument("redraft.queue.age", "gauge", "s", ("role", "actor"), "Age of the oldest request in an actor's queue."),
    Instrument("redraft.queue.waiting", "gauge", "{request}", ("role", "actor"), "Requests in an actor's queue."),
    Instrument("redraft.relay.lag", "gauge", "{event}", (), "Recorded events that are not relayed yet."),
    Instrument(
        "redraft.projection.lag", "gauge", "{event}", ("projection",), "Recorded events that are not projected yet."
    ),
    Instrument("redraft.dead_letters", "gauge", "{message}", (), "Messages among the dead letters."),
    Instrument(
        "redraft.append.duration", "histogram", "s", (), "From an append to its events being on disk.", _MILLISECONDS
    ),
    Instrument("redraft.healthy", "gauge", "", (), "1 while the process reaches its servers and gets on, else 0."),
    Instrument(
        "redraft.work.oldest", "gauge", "s", ("work",), "For how long the oldest work of a kind has been under way."
    ),
)
"""Every instrument. The document `docs/telemetry.md` has the same table; a test compares them."""
