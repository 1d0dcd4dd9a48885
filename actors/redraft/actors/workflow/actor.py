"""An actor: a function with a role, a name and what it declares; and how one is made of a function and checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from textwrap import dedent
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, cast, get_args

from redraft.actors.plans.check_nodes import check_history, check_scale
from redraft.actors.values import VERSION_FORM, is_version, shown
from redraft.events.errors import ActorError, PlanError, suggest
from redraft.events.messages.conditions import Compare, Condition, HasCondition, StateValue
from redraft.events.messages.plan import Criterion, Option, Role
from redraft.events.messages.run_state import is_value_name
from redraft.events.messages.scales import Scale

Function: TypeAlias = Callable[..., Any]
Isolation: TypeAlias = Literal["none", "process"]
Measures: TypeAlias = tuple[str, ...] | Callable[[Mapping[str, Option]], tuple[str, ...]]
"""The measures that a critic declares, or what says which they are by its options."""

Hermetic: TypeAlias = bool | Callable[[Mapping[str, Option]], bool]
"""Whether a critic looks at nothing but what it is given, or what says so by its options."""

ActorKey: TypeAlias = tuple[Role, str]
"""A role, and the name of an actor that has it."""

SCORES: Final[Scale] = (0.0, 1.0)
"""The range of scores of a critic that declares none."""

NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})
"""The fields that a critic maps unless it says which."""

TAKES: Final[dict[Role, tuple[str, ...]]] = {
    "generator": ("brief", "critique", "history", "context"),
    "critic": ("draft", "folder", "history", "brief", "context"),
    "refiner": ("draft", "folder", "critique", "history", "brief", "context"),
    "publisher": ("draft", "folder", "brief", "context"),
    "step": ("draft", "folder", "critique", "history", "brief", "context"),
}
_NEEDS: Final = {"critic": "draft", "refiner": "draft", "publisher": "draft"}
"""The argument without which a function of this role could not do its work."""

_CONDITION: Final = ("facts", "context")
"""The arguments of a condition of one's own."""

_EXAMPLES: Final[dict[Role, str]] = {
    "generator": "def {name}(brief, context): ...  # -> str or Draft",
    "critic": "def {name}(draft, brief, context): ...  # -> Critique, a score from 0 to 1, or a bool",
    "refiner": "def {name}(draft, critique, history, brief, context): ...  # -> str or Revision",
    "publisher": "def {name}(draft, brief, context): ...  # -> Receipt, str or None",
    "step": "def {name}(draft, critique, brief, context): ...  # -> dict of the values that it changes",
}
_EXAMPLE: Final = "def {name}(facts): ...  # -> True, or why it does not hold"


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
    `measures` are those that a critic declares. `history` is the number of earlier drafts whose texts it wants. A
    critic that is not `hermetic` looks at more than it is given, such as files, programs or a database; it may say so
    by a function of its step's options, as of its measures. `writes` names
    values of the run's state: it may change these alone. A `condition` is a critic that says only whether it holds.
    """

    name: str
    role: R_co
    function: Function
    takes: tuple[str, ...]
    is_async: bool
    scale: Scale = SCORES
    version: str = ""
    isolation: Isolation = "none"
    file: str = field(default="", compare=False)
    fields: tuple[tuple[str, str], ...] = ()
    criteria: tuple[Criterion, ...] = ()
    measures: Measures = ()
    history: int = 0
    hermetic: Hermetic = True
    writes: tuple[str, ...] = ()
    condition: bool = False

    def measures_by(self, options: Mapping[str, Option]) -> tuple[str, ...]:
        """Returns the measures that a critic with these options declares."""
        return self.measures if isinstance(self.measures, tuple) else self.measures(options)

    def is_hermetic(self, options: Mapping[str, Option]) -> bool:
        """Returns whether a critic with these options looks at nothing but what it is given.

        False, too, where its own function fails to say so: that must not cost an answer which was paid for.
        """
        if not callable(self.hermetic):
            return self.hermetic
        try:
            return bool(self.hermetic(options))
        except Exception:  # noqa: BLE001 - a user's function
            return False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own result
        """Calls the function itself, as if it were not decorated."""
        return self.function(*args, **kwargs)

    def as_condition(self) -> Condition:
        """Returns the condition that this one, in the loop's body, holds; raises ActorError for any other actor."""
        if not self.condition:
            raise ActorError(f"{self.name}: a {self.role} is no condition; decorate a function with @condition")
        return Compare("criterion", ">=", 1.0, self.name)

    def __and__(self, other: Condition | StateValue | HasCondition) -> Condition:
        return self.as_condition() & other

    def __or__(self, other: Condition | StateValue | HasCondition) -> Condition:
        return self.as_condition() | other

    def __invert__(self) -> Condition:
        return ~self.as_condition()


Generator: TypeAlias = Actor[Literal["generator"]]
Critic: TypeAlias = Actor[Literal["critic"]]
Refiner: TypeAlias = Actor[Literal["refiner"]]
Publisher: TypeAlias = Actor[Literal["publisher"]]
FreeStep: TypeAlias = Actor[Literal["step"]]
"""The types that the decorators return, for annotations: `def panel(*critics: Critic) -> StepSpec`."""

Decorator: TypeAlias = Callable[[Function], Actor[R]]

MAPPED: Final = (
    *("score", "approved", "strengths", "weaknesses", "suggestions", "errors", "samples"),
    *("criteria", "confidence", "measures", "issues"),
)
"""The fields of a critique that `@critic(fields={...})` may map others to."""


def make_actor(
    role: R,
    function: Function,
    *,
    name: str | None = None,
    version: str | None = None,
    isolation: Isolation = "none",
    scale: Scale = SCORES,
    fields: Mapping[str, str] = NO_FIELDS,
    criteria: tuple[Criterion, ...] = (),
    measures: Measures = (),
    history: int = 0,
    hermetic: Hermetic = True,
    writes: Sequence[str] = (),
    condition: bool = False,
) -> Actor[R]:
    """Returns the actor of a function; raises ActorError when its arguments or what it declares are not its role's."""
    known = _actor_name(role, str(getattr(function, "__name__", "")) if name is None else name)
    scale = _read_scale(f"@{role} {known}", scale)
    if version is not None and not is_version(version):
        raise ActorError(f"@{role} {known}: version is {version!r}; write {VERSION_FORM}")
    if isolation not in get_args(Isolation):
        raise ActorError(f"@{role} {known}: isolation is {isolation!r}; write 'process', or leave it out")
    if not (isinstance(hermetic, bool) or callable(hermetic)):
        raise ActorError(f"@{role} {known}: hermetic is {shown(hermetic)}; write False, or a function of the options")
    _check_fields(f"@{role} {known}", fields)
    require(lambda: check_history(f"@{role} {known}", history))
    if isinstance(writes, str) or not all(map(is_value_name, writes)):
        raise ActorError(f"@{role} {known}: writes is {shown(writes)}; give names of values, such as ['tests_pass']")
    takes = _argument_names(role, known, function, condition=condition)
    if history and not condition and "history" not in takes:
        raise ActorError(f"@{role} {known}: history is {history}, and the function does not take 'history'; add it")
    version = source_version(function) if version is None else version
    pairs = tuple(fields.items())
    said = (isolation, "", pairs, criteria, measures, history, hermetic, tuple(writes), condition)
    return Actor(known, role, function, takes, is_async(function), scale, version, *said)


def _actor_name(role: Role, name: object) -> str:
    if isinstance(name, str) and name.replace("-", "_").isidentifier():
        return name
    raise ActorError(f"@{role}: {shown(name)} is not a name for an actor; use letters, digits, _ and -")


def _read_scale(who: str, scale: object) -> Scale:
    pair = tuple(scale) if isinstance(scale, list) else scale
    require(lambda: check_scale(who, "scale", pair))
    return cast("Scale", pair)


def _check_fields(who: str, fields: object) -> None:
    if not isinstance(fields, Mapping):
        raise ActorError(f'{who}: fields are {shown(fields)}; write such as {{"improvements": "suggestions"}}')
    for theirs, ours in fields.items():
        if ours not in MAPPED:
            raise ActorError(f"{who}: fields: {theirs!r} stands for {ours!r}; {suggest(str(ours), MAPPED)}")


def require(check: Callable[[], None]) -> None:
    """Runs a check of plans on what an actor declares; raises ActorError where it raises PlanError."""
    try:
        check()
    except PlanError as error:
        raise ActorError(str(error)) from None


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


def _argument_names(role: Role, name: str, function: Function, *, condition: bool) -> tuple[str, ...]:
    known = _CONDITION if condition else TAKES[role]
    needed = "facts" if condition else _NEEDS.get(role, "")
    who = "@condition" if condition else f"@{role}"
    example = (_EXAMPLE if condition else _EXAMPLES[role]).format(name=name)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise ActorError(f"{who} {name}: not a function; write {example}") from None
    taken = tuple(each.name for each in parameters)
    faults = [_reason_refused(known, each) for each in parameters]
    if needed and needed not in taken:
        faults.append(f"does not take {needed!r}")
    for fault in filter(None, faults):
        raise ActorError(f"{who} {name}: {fault}; write {example}")
    return tuple(each for each in taken if each in known)


def _reason_refused(known: tuple[str, ...], parameter: inspect.Parameter) -> str | None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        return f"arguments come by name, so {parameter} cannot be filled"
    if parameter.name not in known and parameter.default is parameter.empty:
        return f"there is no argument {parameter.name!r}"
    return None


def is_async(function: Callable[..., Any]) -> bool:
    """Returns whether calling this gives a coroutine: it is a coroutine function, or an object with such a call."""
    if isinstance(function, partial):
        return is_async(function.func)
    call: Literal["__call__"] = "__call__"
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, call, None))
