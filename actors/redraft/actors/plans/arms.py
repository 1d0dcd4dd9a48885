"""Steps that choose among several actors, and the arm that is chosen for a request. Pure.

The caller passes a `Choose`, so that chance is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from redraft.actors.plans.paths import as_done_by, step_at, step_key
from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import Choice, StepRequested
from redraft.events.messages.plan import Arm, Plan, Role, Step

NAMES: Final[Mapping[Role, str]] = {"generator": "generate", "critic": "critique", "refiner": "refine"}
"""The default names of steps that choose, by role; only these roles choose."""


class Choose(Protocol):
    """Chooses one of these arms, named in the order of the plan, for a request.

    `path` is that of the request (`Refinement[2]/critique`), `step` that of the step in the plan, `draft` the draft to
    work on. The same arguments give the same choice.
    """

    def __call__(self, path: str, step: str, arms: Sequence[str], draft: DraftRef | None, /) -> Choice: ...


def first_arm(path: str, step: str, arms: Sequence[str], draft: DraftRef | None = None) -> Choice:
    """Chooses the first arm; the default when no policy is configured."""
    return Choice(arms[0])


def choose_actor(plan: Plan, request: StepRequested, choose: Choose) -> StepRequested:
    """Returns the request for a step that chooses, with the actor of the chosen arm."""
    key = step_key(request.path)
    step = step_at(plan.steps, key)
    choice = choose(request.path, key, tuple(arm.name for arm in step.choose), request.draft)
    return replace(request, actor=resolve_arm(step, choice, "").actor, choice=choice)


def resolve_arm(step: Step, choice: Choice, actor: str) -> Step:
    """Returns the step as the chosen arm does it; with this actor if its plan no longer has the arm."""
    arm = next((each for each in step.choose if each.name == choice.arm), None)
    return as_done_by(step, arm) if arm else replace(step, actor=actor, choose=())


def requested_step(plan: Plan, request: StepRequested) -> Step:
    """Returns the step of a request, with its chosen arm applied. Raises LookupError if the plan has none."""
    step = step_at(plan.steps, step_key(request.path))
    return step if request.choice is None else resolve_arm(step, request.choice, request.actor)


def with_arms(change: Callable[[Step], Step]) -> Callable[[str, Step], Step]:
    """Returns the same change of a step's version and options, applied to each arm of a step that chooses."""

    def changed(path: str, step: Step) -> Step:
        if not step.choose:
            return change(step)
        arms = tuple(_arm(step, arm, change(as_done_by(step, arm))) for arm in step.choose)
        return step if arms == step.choose else replace(step, choose=arms)

    return changed


def _arm(step: Step, arm: Arm, done: Step) -> Arm:
    own = {
        key: value
        for key, value in done.options.items()
        if key in arm.options or key not in step.options or step.options[key] != value
    }
    return replace(arm, version=done.version, options=own)


def choose_as_recorded(events: Iterable[object]) -> Choose:
    """Returns a `Choose` that repeats recorded choices: the same path and draft text give the same choice.

    At another path it repeats the step's first choice for that draft, else its last choice, else it takes the first
    arm.
    """
    known: dict[tuple[str, str], Choice] = {}
    last: dict[str, Choice] = {}
    for event in events:
        if isinstance(event, StepRequested) and event.choice is not None:
            key = step_key(event.path)
            known[event.path, _text(event.draft)] = last[key] = event.choice
            known.setdefault((key, _text(event.draft)), event.choice)

    def choose(path: str, step: str, arms: Sequence[str], draft: DraftRef | None, /) -> Choice:
        choice = known.get((path, _text(draft))) or known.get((step, _text(draft))) or last.get(step)
        return choice if choice is not None and choice.arm in arms else first_arm(path, step, arms)

    return choose


def _text(draft: DraftRef | None) -> str:
    return draft.sha256 if draft else ""
