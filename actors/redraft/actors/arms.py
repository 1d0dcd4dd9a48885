"""Steps that choose among several actors: their arms, and a step as one of its arms does it. Pure.

Which arm it is, is no matter of the plan: whoever decides is given a `Choose`, so that chance is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from redraft.actors.plan_paths import as_done_by, step_at, step_key
from redraft.events.content import DraftRef
from redraft.events.domain_events import Choice, StepRequested
from redraft.events.plan import Arm, Plan, Role, Step

NAMES: Final[Mapping[Role, str]] = {"generator": "generate", "critic": "critique", "refiner": "refine"}
"""How a step that chooses is named where nobody said; only these roles choose."""


class Choose(Protocol):
    """Which of these arms, named in the order of the plan, a request is for.

    `path` is that of the request (`Refinement[2]/critique`), `step` that of the step in the plan, `draft` what is to be
    worked on. The same is given whenever the same is asked.
    """

    def __call__(self, path: str, step: str, arms: Sequence[str], draft: DraftRef | None, /) -> Choice: ...


def first_arm(path: str, step: str, arms: Sequence[str], draft: DraftRef | None = None) -> Choice:
    """The first: what is chosen where nobody has a say."""
    return Choice(arms[0])


def given_to(plan: Plan, asked: StepRequested, choose: Choose) -> StepRequested:
    """The request for a step that chooses, to the actor of the arm that is chosen."""
    key = step_key(asked.path)
    step = step_at(plan.steps, key)
    choice = choose(asked.path, key, tuple(arm.name for arm in step.choose), asked.draft)
    return replace(asked, actor=resolved(step, choice, "").actor, choice=choice)


def resolved(step: Step, choice: Choice, actor: str) -> Step:
    """The step as the chosen arm does it; where its plan has no such arm any more, by this actor."""
    arm = next((each for each in step.choose if each.name == choice.arm), None)
    return as_done_by(step, arm) if arm else replace(step, actor=actor, choose=())


def asked_step(plan: Plan, asked: StepRequested) -> Step:
    """Returns the step that a request is for, one that chooses as the chosen arm does it; LookupError if none is."""
    step = step_at(plan.steps, step_key(asked.path))
    return step if asked.choice is None else resolved(step, asked.choice, asked.actor)


def with_arms(change: Callable[[Step], Step]) -> Callable[[str, Step], Step]:
    """The same change of a step's version and options, of one that chooses made to each of its arms."""

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


def recorded(events: Iterable[object]) -> Choose:
    """What was chosen in a record: for the same draft, by its text, at the same path the same.

    At another path it is what the same step chose first for that draft, else what it chose last, else the first arm.
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
