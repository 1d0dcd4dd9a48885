"""The surroundings of a step: what an actor may ask of them, and how it reports what its work used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from redraft.actors.values import ignore
from redraft.events.messages.content import Draft
from redraft.events.messages.plan import Criterion, Option
from redraft.events.messages.scales import Scale
from redraft.events.messages.usage import MOST, Usage

NOTHING: Final = Usage()
"""The usage of a step that has reported none."""


@dataclass(slots=True)
class Context:
    """The surroundings of a step: its run, its path with iterations, the attempt (from 1) and its options in the plan.

    `outputs` are the finished drafts of the loops around, `beside` the drafts among which the judge of a parallel
    compares the one that it judges. `timeout` is in seconds. `idempotency_key` names the work, and is the same at every
    attempt: give it to any service that must apply the work's effect once. `scale` and `criteria` are those on which
    the plan has a critic judge, `measures` the names of what it counts; with `only_issues` it has a refiner change
    nothing but what the critique's issues quote. `spent` and `used` report the usage of the work, whether it then
    succeeds or fails.
    """

    run: str
    path: str
    attempt: int
    timeout: float
    idempotency_key: str
    options: dict[str, Option] = field(default_factory=dict)
    outputs: tuple[Draft, ...] = ()
    usage: Usage = NOTHING
    beside: tuple[Draft, ...] = ()
    meters: tuple[Callable[[], Usage], ...] = ()
    scale: Scale | None = None
    criteria: tuple[Criterion, ...] = ()
    measures: tuple[str, ...] = ()
    only_issues: bool = False
    on_usage: Callable[[], None] = ignore

    @property
    def total(self) -> Usage:
        """The usage so far, with the readings of running meters."""
        return sum((meter() for meter in self.meters), self.usage)

    @contextmanager
    def metered(self, meter: Callable[[], Usage]) -> Iterator[None]:
        """Counts the meter's usage when the block ends, and also when a deadline comes in the middle."""
        self.meters = (*self.meters, meter)
        try:
            yield
        finally:
            self.meters = tuple(each for each in self.meters if each is not meter)
            self.used(meter())

    def spent(self, *, tokens: int = 0, cost: float = 0.0) -> None:
        """Adds to the usage of this step; conditions such as `tokens > 5000` count it. Raises ValueError below 0."""
        self.used(Usage(tokens, cost))

    def used(self, usage: Usage) -> None:
        """Adds usage to this step: model, tokens in and out, cost and currency, calls.

        Raises ValueError when a number is below 0 or above 10**15.
        """
        for name in usage.__struct_fields__:
            value = getattr(usage, name)
            if not (isinstance(value, str) or 0 <= value <= MOST):
                raise ValueError(f"{name}={value}: what was spent is a number from 0 to 10**15")
        self.usage += usage
        self.on_usage()
