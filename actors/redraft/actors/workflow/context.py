"""The surroundings of a step: what an actor may ask of them, and how it reports what its work used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from redraft.actors.values import ignore
from redraft.events.messages.content import Brief, Critique, Draft, History
from redraft.events.messages.lessons import Lesson
from redraft.events.messages.plan import Criterion, Option
from redraft.events.messages.run_state import Value, Values
from redraft.events.messages.scales import Scale
from redraft.events.messages.usage import MOST, Usage

NOTHING: Final = Usage()
"""The usage of a step that has reported none."""


class RunValues(Mapping[str, Value]):
    """The values of a run's state, by name or as attributes: `state["audience"]`, `state.audience`.

    It is a copy: what a function changes in it is lost. A function changes the state by what it returns.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Values) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any JSON, which a function uses as what it is
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._values:
            known = ", ".join(self._values) or "none"
            raise AttributeError(f"the run's state has no value {name!r} now; there are: {known}")
        return self._values[name]

    def __repr__(self) -> str:
        return f"RunValues({self._values!r})"


@dataclass(frozen=True, slots=True)
class WithState:
    """The answer of an actor of one of the four roles that changes the run's state beside its result.

    `result` is what it would return otherwise; `state` are the values that it changes: a dict or an object with fields.
    """

    result: object
    state: object


@dataclass(frozen=True, slots=True)
class ConditionFacts:
    """The facts that a condition of one's own may look at.

    `draft` is the one that is judged, `critique` what the critics before the condition said of it; None where none was
    asked. `state` is the run's, `history` tells of earlier drafts if the step in the plan has it, `outputs` are the
    finished drafts of the loops around.
    """

    draft: Draft
    critique: Critique | None
    state: RunValues
    history: History
    brief: Brief
    outputs: tuple[Draft, ...] = ()

    @property
    def score(self) -> float | None:
        """The joined score of the critics, on their scale; None where none gave one."""
        return self.critique.known_score if self.critique else None

    @property
    def errors(self) -> int:
        """The number of errors that the critics found."""
        return len(self.critique.errors) if self.critique else 0

    @property
    def approved(self) -> bool | None:
        """The critics' verdict; None where they gave none."""
        return self.critique.approved if self.critique else None


@dataclass(slots=True)
class Context:
    """The surroundings of a step: its run, its path with iterations, the attempt (from 1) and its options in the plan.

    `outputs` are the finished drafts of the loops around, `beside` the drafts among which the judge of a parallel
    compares the one that it judges. `timeout` is in seconds. `idempotency_key` names the work, and is the same at every
    attempt: give it to any service that must apply the work's effect once. `scale` and `criteria` are those on which
    the plan has a critic judge, `measures` the names of what it counts; with `only_issues` it has a refiner change
    nothing but what the critique's issues quote. `state` is the run's state when the work was requested. `lessons` are
    those of earlier runs that a generator or refiner is given. `spent` and `used` report the usage of the work, whether
    it then succeeds or fails.
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
    state: RunValues = field(default_factory=lambda: RunValues({}))
    lessons: tuple[Lesson, ...] = ()
    on_usage: Callable[[], None] = ignore

    @property
    def total(self) -> Usage:
        """The usage so far, with the readings of running meters; one that raises, or gives no usage, counts nothing."""
        total = self.usage
        for meter in self.meters:
            with suppress(Exception, SystemExit):  # at a deadline nobody is left to tell
                with_reading = total + meter()
                with_reading.fault  # noqa: B018 - numbers that are none raise here
                total = with_reading
        return total

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
