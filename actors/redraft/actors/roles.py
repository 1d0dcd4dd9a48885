"""The four roles, as decorators for plain functions, and what a function of each role takes and gives.

    @generator   def write(brief, context): ...                              -> str or Draft
    @critic      def judge(draft, brief, context): ...                       -> Critique
    @refiner     def improve(draft, critique, history, brief, context): ...  -> str or Revision
    @publisher   def save(draft, brief, context): ...                        -> Receipt or str

Functions may be async or not (those that are not run in threads) and take any of these arguments, by name. Each
decorator takes a `name=` for the actor and a `version=` for its code, in place of those that the function itself gives.
With `isolation="process"` the function runs in a child process, which is killed at the step's deadline.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args, overload

from redraft.actors.versions import VERSION_FORM, is_version, source_version
from redraft.events.content import Draft
from redraft.events.errors import ActorError
from redraft.events.plan import Option, Role
from redraft.events.usage import MOST, Usage

Scale: TypeAlias = tuple[float, float]
Function: TypeAlias = Callable[..., Any]
Isolation: TypeAlias = Literal["none", "process"]
Seat: TypeAlias = tuple[Role, str]
"""A role, and the name of an actor that has it."""

TAKES: Final[dict[Role, tuple[str, ...]]] = {
    "generator": ("brief", "context"),
    "critic": ("draft", "brief", "context"),
    "refiner": ("draft", "critique", "history", "brief", "context"),
    "publisher": ("draft", "brief", "context"),
}
_NEEDS: Final[dict[Role, tuple[str, ...]]] = {
    "generator": (),
    "critic": ("draft",),
    "refiner": ("draft",),
    "publisher": ("draft",),
}
_RIGHT: Final[dict[Role, str]] = {
    "generator": "def {name}(brief, context): ...  # -> str or Draft",
    "critic": "def {name}(draft, brief, context): ...  # -> Critique",
    "refiner": "def {name}(draft, critique, history, brief, context): ...  # -> str or Revision",
    "publisher": "def {name}(draft, brief, context): ...  # -> Receipt or str",
}


def _unheard() -> None:
    """Tells nobody."""


@dataclass(slots=True)
class Context:
    """What a step is part of: the run, the path with its iterations, the try (from 1), the plan's options for the step.

    `outputs` are the finished drafts of the loops around, `beside` the drafts among which the judge of a parallel
    compares the one that it judges. `timeout` is in seconds. `idempotency_key` names the work, and is the same at every
    attempt: give it to whatever must take the work's effect once. `spent` and `used` report what the work used, whether
    it then succeeds or fails.
    """

    run: str
    path: str
    attempt: int
    timeout: float
    idempotency_key: str
    options: dict[str, Option] = field(default_factory=dict)
    outputs: tuple[Draft, ...] = ()
    usage: Usage = field(default_factory=Usage)
    beside: tuple[Draft, ...] = ()
    meters: tuple[Callable[[], Usage], ...] = ()
    heard: Callable[[], None] = _unheard

    @property
    def total(self) -> Usage:
        """What was used until now, with what meters that still run say."""
        return sum((meter() for meter in self.meters), self.usage)

    @contextmanager
    def metered(self, meter: Callable[[], Usage]) -> Iterator[None]:
        """Counts what the meter says was used: when the block ends, and also when a deadline comes in the middle."""
        self.meters = (*self.meters, meter)
        try:
            yield
        finally:
            self.meters = tuple(each for each in self.meters if each is not meter)
            self.used(meter())

    def spent(self, *, tokens: int = 0, cost: float = 0.0) -> None:
        """Adds to what this step has used; conditions such as `tokens > 5000` count it. Raises ValueError below 0."""
        self.used(Usage(tokens, cost))

    def used(self, usage: Usage) -> None:
        """Adds all that is known of what this step has used: model, tokens in and out, cost and currency, calls.

        Raises ValueError when a number is below 0 or above 10**15.
        """
        for name in usage.__struct_fields__:
            value = getattr(usage, name)
            if not (isinstance(value, str) or 0 <= value <= MOST):
                raise ValueError(f"{name}={value}: what was spent is a number from 0 to 10**15")
        self.usage += usage
        self.heard()


@dataclass(frozen=True, slots=True)
class Actor:
    """A function with a role and a name. `scale` is the range in which a critic gives its scores.

    `version` tells one state of its code from another (see `redraft.actors.versions`); empty when nothing is known.
    `isolation` says where the function runs, and `file` names the Python file that the actor was loaded from, if any.
    """

    name: str
    role: Role
    function: Function
    takes: tuple[str, ...]
    is_async: bool
    scale: Scale = (0.0, 1.0)
    version: str = ""
    isolation: Isolation = "none"
    file: str = field(default="", compare=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own result
        """Calls the function itself, as if it were not decorated."""
        return self.function(*args, **kwargs)


@overload
def generator(function: Function, /) -> Actor: ...
@overload
def generator(
    *, name: str | None = None, version: str | None = None, isolation: Isolation = "none"
) -> Callable[[Function], Actor]: ...
def generator(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
) -> Actor | Callable[[Function], Actor]:
    """Makes an actor that writes a first draft. Raises ActorError when the arguments are not a generator's."""
    return _decorated("generator", function, name, version, isolation)


@overload
def critic(function: Function, /) -> Actor: ...
@overload
def critic(
    *,
    name: str | None = None,
    scale: Scale = (0.0, 1.0),
    version: str | None = None,
    isolation: Isolation = "none",
) -> Callable[[Function], Actor]: ...
def critic(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    scale: Scale = (0.0, 1.0),
    version: str | None = None,
    isolation: Isolation = "none",
) -> Actor | Callable[[Function], Actor]:
    """Makes an actor that judges a draft, scoring on `scale` (low, high), which is normalised to 0..1.

    Raises ActorError when the function's arguments are not a critic's, or the scale is not two rising numbers.
    """
    return _decorated("critic", function, name, version, isolation, scale)


@overload
def refiner(function: Function, /) -> Actor: ...
@overload
def refiner(
    *, name: str | None = None, version: str | None = None, isolation: Isolation = "none"
) -> Callable[[Function], Actor]: ...
def refiner(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
) -> Actor | Callable[[Function], Actor]:
    """Makes an actor that improves a draft. Raises ActorError when the function's arguments are not a refiner's."""
    return _decorated("refiner", function, name, version, isolation)


@overload
def publisher(function: Function, /) -> Actor: ...
@overload
def publisher(
    *, name: str | None = None, version: str | None = None, isolation: Isolation = "none"
) -> Callable[[Function], Actor]: ...
def publisher(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
) -> Actor | Callable[[Function], Actor]:
    """Makes an actor that publishes a draft. Raises ActorError when the function's arguments are not a publisher's."""
    return _decorated("publisher", function, name, version, isolation)


def _decorated(
    role: Role,
    function: Function | None,
    name: str | None,
    version: str | None,
    isolation: Isolation,
    scale: Scale = (0.0, 1.0),
) -> Actor | Callable[[Function], Actor]:
    if function is not None:
        return _actor(role, function, name, version, isolation, scale)
    return lambda decorated: _actor(role, decorated, name, version, isolation, scale)


def _actor(
    role: Role, function: Function, name: str | None, version: str | None, isolation: Isolation, scale: Scale
) -> Actor:
    known = name or str(getattr(function, "__name__", ""))
    if not known.replace("-", "_").isidentifier():
        raise ActorError(f"@{role}: {known!r} is no name for an actor; use letters, digits, _ and -")
    if not (all(math.isfinite(end) for end in scale) and scale[0] < scale[1]):
        raise ActorError(f"@{role} {known}: the scale {scale!r} is not two rising numbers, such as (1, 10)")
    if version is not None and not is_version(version):
        raise ActorError(f"@{role} {known}: version is {version!r}; write {VERSION_FORM}")
    if isolation not in get_args(Isolation):
        raise ActorError(f"@{role} {known}: isolation is {isolation!r}; write 'process', or leave it out")
    takes = _arguments(role, known, function)
    told = source_version(function) if version is None else version
    return Actor(known, role, function, takes, _is_async(function), scale, told, isolation)


def _arguments(role: Role, name: str, function: Function) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise ActorError(f"@{role} {name}: not a function; write {_RIGHT[role].format(name=name)}") from None
    taken = tuple(each.name for each in parameters)
    faults = [_fault(role, each) for each in parameters] + [
        f"does not take {needed!r}" for needed in _NEEDS[role] if needed not in taken
    ]
    for fault in filter(None, faults):
        raise ActorError(f"@{role} {name}: {fault}; write {_RIGHT[role].format(name=name)}")
    return tuple(each for each in taken if each in TAKES[role])


def _fault(role: Role, parameter: inspect.Parameter) -> str | None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        return f"arguments come by name, so {parameter} cannot be filled"
    if parameter.name not in TAKES[role] and parameter.default is parameter.empty:
        return f"there is no argument {parameter.name!r}"
    return None


def _is_async(function: Function) -> bool:
    call: Literal["__call__"] = "__call__"
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, call, None))
