"""The four roles, as decorators for plain functions, with the arguments and the result of each role.

    @generator   def write(brief, critique, history, context): ...           -> str or Draft
    @critic      def judge(draft, history, brief, context): ...              -> Critique, score, bool or object
    @refiner     def improve(draft, critique, history, brief, context): ...  -> str, Draft or Revision
    @publisher   def save(draft, brief, context): ...                        -> Receipt, str, path or None

Functions may be async or not (those that are not run in threads) and take any of these arguments, by name. Each
decorator takes a `name=` for the actor and a `version=` for its code, in place of those that the function itself gives.
With `isolation="process"` the function runs in a child process, which is killed at the step's deadline.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from textwrap import dedent
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, get_args, overload

from msgspec.structs import replace

from redraft.actors.plans.check_nodes import check_criteria, check_history, check_measures
from redraft.actors.values import VERSION_FORM, ignore, is_version
from redraft.events.errors import ActorError, PlanError, suggest
from redraft.events.messages.content import Draft
from redraft.events.messages.plan import Criterion, Option, Role
from redraft.events.messages.scales import Scale, scale_fault
from redraft.events.messages.usage import MOST, Usage

Function: TypeAlias = Callable[..., Any]
Isolation: TypeAlias = Literal["none", "process"]
Measures: TypeAlias = tuple[str, ...] | Callable[[Mapping[str, Option]], tuple[str, ...]]
"""The measures that a critic declares, or what says which they are by its options."""

ActorKey: TypeAlias = tuple[Role, str]
"""A role, and the name of an actor that has it."""

_SCALE: Final[Scale] = (0.0, 1.0)
_NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_CRITERIA: Final[Mapping[str, str | Criterion]] = MappingProxyType({})
_NO_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType({})

TAKES: Final[dict[Role, tuple[str, ...]]] = {
    "generator": ("brief", "critique", "history", "context"),
    "critic": ("draft", "history", "brief", "context"),
    "refiner": ("draft", "critique", "history", "brief", "context"),
    "publisher": ("draft", "brief", "context"),
}
_EXAMPLES: Final[dict[Role, str]] = {
    "generator": "def {name}(brief, context): ...  # -> str or Draft",
    "critic": "def {name}(draft, brief, context): ...  # -> Critique, a score from 0 to 1, or a bool",
    "refiner": "def {name}(draft, critique, history, brief, context): ...  # -> str or Revision",
    "publisher": "def {name}(draft, brief, context): ...  # -> Receipt, str or None",
}


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


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R_co = TypeVar("R_co", bound=Role, covariant=True, default=Role)
else:
    from typing import TypeVar

    R_co = TypeVar("R_co", bound=Role, covariant=True)

R = TypeVar("R", bound=Role)


@dataclass(frozen=True, slots=True)
class Actor(Generic[R_co]):
    """A function with a role and a name. `scale` is the range in which a critic gives its scores.

    `version` identifies the state of its code, see `source_version`; empty when it is unknown.
    `isolation` says where the function runs, and `file` names the Python file that the actor was loaded from, if any.
    `fields` are pairs: a field of what a critic returns, and the field of a critique that it stands for. `criteria` and
    `measures` are those that a critic declares. `history` is the number of earlier drafts whose texts it wants.
    """

    name: str
    role: R_co
    function: Function
    takes: tuple[str, ...]
    is_async: bool
    scale: Scale = _SCALE
    version: str = ""
    isolation: Isolation = "none"
    file: str = field(default="", compare=False)
    fields: tuple[tuple[str, str], ...] = ()
    criteria: tuple[Criterion, ...] = ()
    measures: Measures = ()
    history: int = 0

    def measures_by(self, options: Mapping[str, Option]) -> tuple[str, ...]:
        """Returns the measures that a critic with these options declares."""
        return self.measures if isinstance(self.measures, tuple) else self.measures(options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own result
        """Calls the function itself, as if it were not decorated."""
        return self.function(*args, **kwargs)


Generator: TypeAlias = Actor[Literal["generator"]]
Critic: TypeAlias = Actor[Literal["critic"]]
Refiner: TypeAlias = Actor[Literal["refiner"]]
Publisher: TypeAlias = Actor[Literal["publisher"]]
"""The types that the decorators return, for annotations: `def panel(*critics: Critic) -> StepSpec`."""

Decorator: TypeAlias = Callable[[Function], Actor[R]]

MAPPED: Final = (
    *("score", "approved", "strengths", "weaknesses", "suggestions", "errors", "samples"),
    *("criteria", "confidence", "measures", "issues"),
)
"""The fields of a critique that `@critic(fields={...})` may map others to."""


@overload
def generator(function: Function, /) -> Generator: ...
@overload
def generator(
    *, name: str | None = None, version: str | None = None, isolation: Isolation = "none", history: int = 0
) -> Decorator[Literal["generator"]]: ...
def generator(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
    history: int = 0,
) -> Generator | Decorator[Literal["generator"]]:
    """Makes an actor that writes a first draft, or another in each iteration of a loop.

    In a loop it may take what was said of the last draft (`critique`) and the `history`, with the texts of so many
    earlier drafts. Raises ActorError when the arguments are not a generator's.
    """
    return _make_decorator("generator", function, _SCALE, name, version, isolation, history=history)


@overload
def critic(function: Function, /) -> Critic: ...
@overload
def critic(
    *,
    name: str | None = None,
    scale: Scale = _SCALE,
    version: str | None = None,
    isolation: Isolation = "none",
    fields: Mapping[str, str] = _NO_FIELDS,
    criteria: Mapping[str, str | Criterion] = _NO_CRITERIA,
    weights: Mapping[str, float] = _NO_WEIGHTS,
    measures: Measures = (),
    history: int = 0,
) -> Decorator[Literal["critic"]]: ...
def critic(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    scale: Scale = _SCALE,
    version: str | None = None,
    isolation: Isolation = "none",
    fields: Mapping[str, str] = _NO_FIELDS,
    criteria: Mapping[str, str | Criterion] = _NO_CRITERIA,
    weights: Mapping[str, float] = _NO_WEIGHTS,
    measures: Measures = (),
    history: int = 0,
) -> Critic | Decorator[Literal["critic"]]:
    """Makes an actor that judges a draft, scoring on `scale` (low, high), on which conditions are read too.

    `criteria` are what it judges, each with a sentence that says what is meant, or a Criterion with a scale of its own:
    it returns `criteria={"accuracy": 8, …}`. Its score is their mean, by `weights` (1 unless given), unless it returns
    one. `measures` are the names of numbers that it counts and returns each time, `measures={"words": 312}`; one whose
    name ends with `?` may be missing. `fields` names fields of what the function returns that stand for a critique's:
    `{"improvements": "suggestions"}`. If it takes the `history`, that has the texts of so many earlier drafts. Raises
    ActorError when the function's arguments are not a critic's, the scale is
    not two rising numbers, a criterion or a measure cannot be used, or `fields` names a field that a critique has not.
    """
    declared = _declared_criteria(criteria, weights)
    if not callable(measures):
        measures = tuple(measures)
        _check(lambda: check_measures("@critic", measures, declared))
    return _make_decorator("critic", function, scale, name, version, isolation, fields, declared, measures, history)


@overload
def refiner(function: Function, /) -> Refiner: ...
@overload
def refiner(
    *, name: str | None = None, version: str | None = None, isolation: Isolation = "none", history: int = 0
) -> Decorator[Literal["refiner"]]: ...
def refiner(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
    history: int = 0,
) -> Refiner | Decorator[Literal["refiner"]]:
    """Makes an actor that improves a draft; its history has the texts of so many earlier drafts.

    Raises ActorError when the function's arguments are not a refiner's.
    """
    return _make_decorator("refiner", function, _SCALE, name, version, isolation, history=history)


@overload
def publisher(function: Function, /) -> Publisher: ...
@overload
def publisher(
    *, name: str | None = None, version: str | None = None, isolation: Isolation = "none"
) -> Decorator[Literal["publisher"]]: ...
def publisher(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
) -> Publisher | Decorator[Literal["publisher"]]:
    """Makes an actor that publishes a draft. Raises ActorError when the function's arguments are not a publisher's."""
    return _make_decorator("publisher", function, _SCALE, name, version, isolation)


def _make_decorator(
    role: R,
    function: Function | None,
    scale: Scale,
    name: str | None,
    version: str | None,
    isolation: Isolation,
    fields: Mapping[str, str] = _NO_FIELDS,
    criteria: tuple[Criterion, ...] = (),
    measures: Measures = (),
    history: int = 0,
) -> Actor[R] | Decorator[R]:
    given = (name, version, isolation, scale, fields, criteria, measures, history)
    if function is not None:
        return _make_actor(role, function, *given)
    return lambda decorated: _make_actor(role, decorated, *given)


def _declared_criteria(criteria: Mapping[str, str | Criterion], weights: Mapping[str, float]) -> tuple[Criterion, ...]:
    for name in weights:
        if name not in criteria:
            raise ActorError(f"@critic: weights: {name!r} is no criterion of it; {suggest(name, tuple(criteria))}")
    found = []
    for name, said in criteria.items():
        made = replace(said, name=name) if isinstance(said, Criterion) else Criterion(name, said)
        found.append(replace(made, weight=weights[name]) if name in weights else made)
    _check(lambda: check_criteria("@critic", tuple(found)))
    return tuple(found)


def _check(check: Callable[[], None]) -> None:
    try:
        check()
    except PlanError as error:
        raise ActorError(str(error)) from None


def _make_actor(
    role: R,
    function: Function,
    name: str | None,
    version: str | None,
    isolation: Isolation,
    scale: Scale,
    fields: Mapping[str, str],
    criteria: tuple[Criterion, ...],
    measures: Measures,
    history: int,
) -> Actor[R]:
    known = name or str(getattr(function, "__name__", ""))
    if not known.replace("-", "_").isidentifier():
        raise ActorError(f"@{role}: {known!r} is not a name for an actor; use letters, digits, _ and -")
    if not (all(-math.inf < end < math.inf for end in scale) and scale[0] < scale[1]):
        raise ActorError(f"@{role} {known}: the scale {scale!r} is not two rising numbers, such as (1, 10)")
    if fault := scale_fault(*scale):
        raise ActorError(f"@{role} {known}: the scale is {scale!r}, and {fault}; write such as (1, 10)")
    if version is not None and not is_version(version):
        raise ActorError(f"@{role} {known}: version is {version!r}; write {VERSION_FORM}")
    if isolation not in get_args(Isolation):
        raise ActorError(f"@{role} {known}: isolation is {isolation!r}; write 'process', or leave it out")
    for theirs, ours in fields.items():
        if ours not in MAPPED:
            raise ActorError(f"@{role} {known}: fields: {theirs!r} stands for {ours!r}; {suggest(ours, MAPPED)}")
    _check(lambda: check_history(f"@{role} {known}", history))
    takes = _argument_names(role, known, function)
    if history and "history" not in takes:
        raise ActorError(f"@{role} {known}: history is {history}, and the function does not take 'history'; add it")
    version = source_version(function) if version is None else version
    pairs = tuple(fields.items())
    said = (isolation, "", pairs, criteria, measures, history)
    return Actor(known, role, function, takes, _is_async(function), scale, version, *said)


def source_version(function: Callable[..., Any]) -> str:
    """Returns the first 12 hex digits of the SHA-256 of the function's source, decorators included.

    For a callable object it is the source of its class. Functions that it calls are not part of it. Empty if the source
    is not available, as for a function that was typed into a prompt.
    """
    while isinstance(function, partial):
        function = function.func
    written = function if inspect.isroutine(function) else type(function)
    try:
        source = inspect.getsource(written)
    except (OSError, TypeError, SyntaxError, IndentationError):
        return ""
    return sha256(dedent(source).encode(errors="replace")).hexdigest()[:12]


def _argument_names(role: Role, name: str, function: Function) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise ActorError(f"@{role} {name}: not a function; write {_EXAMPLES[role].format(name=name)}") from None
    taken = tuple(each.name for each in parameters)
    faults = [_reason_refused(role, each) for each in parameters]
    if "draft" in TAKES[role] and "draft" not in taken:
        faults.append("does not take 'draft'")
    for fault in filter(None, faults):
        raise ActorError(f"@{role} {name}: {fault}; write {_EXAMPLES[role].format(name=name)}")
    return tuple(each for each in taken if each in TAKES[role])


def _reason_refused(role: Role, parameter: inspect.Parameter) -> str | None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        return f"arguments come by name, so {parameter} cannot be filled"
    if parameter.name not in TAKES[role] and parameter.default is parameter.empty:
        return f"there is no argument {parameter.name!r}"
    return None


def _is_async(function: Function) -> bool:
    call: Literal["__call__"] = "__call__"
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, call, None))
