"""A plan: what a workflow is, as data. All of it is stored in `RunStarted`, so a run keeps the plan it began with.

Plans are built by `redraft.actors.Workflow` or read from YAML, and checked by `redraft.actors.plan_check` either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from redraft.events.conditions import Condition

Role: TypeAlias = Literal["generator", "critic", "refiner", "publisher"]
Keep: TypeAlias = Literal["best", "last"]
Combine: TypeAlias = Literal["min", "median", "mean", "weights", "veto"]
OnFailure: TypeAlias = Literal["fail", "publish_best"]
OnOscillation: TypeAlias = Literal["ignore", "stop", "tell", "raise_temperature"]
OnDeadline: TypeAlias = Literal["approve", "reject", "fail"]
Option: TypeAlias = bool | int | float | str | list[str | int] | dict[str, str]


class Retry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How often a step is tried (`attempts`, at least 1, the first included) and how long apart, in seconds.

    The wait after attempt n is `initial * factor ** (n - 1)`, at most `maximum`, times a jitter of 0.5..1 that comes
    from the request's id and so is repeatable.
    """

    attempts: int = 3
    initial: float = 1.0
    factor: float = 2.0
    maximum: float = 60.0


class Arm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One of the actors that a step chooses among. Its `name` is what its record is kept under.

    Its `options` stand over those of the step; `version` is that of its code, as a step's.
    """

    actor: str
    name: str
    options: dict[str, Option] = {}
    version: str = ""


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="node", tag="step"):
    """One piece of work by one actor in one role. `timeout` is seconds for one attempt; `options` go to the actor.

    `version` is that of the actor's code with which the run began; empty when nobody said. A critic that is a `gate`
    speaks before the others: a draft that it does not pass (full score without errors, or its approval) cannot be
    accepted or published, whatever its score, and the critics that are no gates are not asked about it.

    `queue_wait` is how many seconds the step waits while no worker serves its actor; None is as the deployment's
    setting says.

    With `choose` there is no `actor`: each time that the step is asked for, one of these arms (at least two) is chosen
    by how the runs ended in which each took part.
    """

    role: Role
    actor: str
    name: str
    timeout: float = 300.0
    retry: Retry = Retry()
    options: dict[str, Option] = {}
    version: str = ""
    gate: bool = False
    choose: tuple[Arm, ...] = ()
    queue_wait: float | None = None


class Parallel(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="node", tag="parallel"
):
    """Steps of one role at the same time; done when all, the first, or `wait` of them have answered.

    Critics' scores are joined by `combine` (`weights` are in the order of the steps; `veto`: one `approved=False` makes
    the score 0, otherwise the mean). Generators and refiners need a `judge`, a critic that scores each draft; the best
    goes on. With a `deadline`, in seconds, all critics are awaited so long, and after that as few as `wait` says.
    """

    name: str
    steps: tuple[Step, ...]
    wait: int | Literal["all", "first"] = "all"
    combine: Combine = "min"
    weights: tuple[float, ...] = ()
    judge: Step | None = None
    deadline: float | None = None


class Repeat(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="node", tag="repeat"
):
    """A body that is passed through until the condition holds, `max_iterations` times at most (at least 1).

    `keep` says which draft leaves when no draft met the condition: of those that may be published, the best judged or
    the last. When a refinement scores lower than the best by more than `rollback_margin` (0..1), the next one starts
    from the best draft again.
    `on_oscillation` is what happens when a refinement repeats an earlier draft or undoes a change: nothing, the loop
    ends, the next refiner is told, or its option `temperature` is raised by 0.2.
    """

    name: str
    until: Condition
    max_iterations: int
    body: tuple[Node, ...]
    keep: Keep = "best"
    rollback_margin: float = 0.1
    on_oscillation: OnOscillation = "ignore"


class Approve(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="node", tag="approve"
):
    """People decide on the current draft: it goes on once `quorum` of the `approvers` (empty: anybody) approved it.

    One rejection is enough. In a loop it is advice for the next refinement; else the run ends as rejected. When nobody
    has decided within `deadline` seconds, `on_deadline` is what happens.
    """

    name: str
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    deadline: float = 86400.0
    on_deadline: OnDeadline = "reject"


Node: TypeAlias = Step | Parallel | Repeat | Approve


def loops_of(nodes: Iterable[Node], parent: str = "") -> Iterator[tuple[str, Repeat]]:
    """Yields every loop with its path in the plan, outer ones first."""
    for node in nodes:
        if isinstance(node, Repeat):
            path = f"{parent}/{node.name}" if parent else node.name
            yield path, node
            yield from loops_of(node.body, path)


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What may be used at most; None is no limit. `cost` is in the unit that actors report, `calls` are to models.

    `seconds` are those since the run began, waits included.
    """

    tokens: int | None = None
    cost: float | None = None
    calls: int | None = None
    seconds: float | None = None


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A workflow's name and nodes, and whether a step that fails for good ends the run or publishes the best draft.

    `budget` is for one run, `daily` for all runs of this workflow that begin on one day (UTC) together.
    """

    name: str
    steps: tuple[Node, ...]
    on_failure: OnFailure = "fail"
    budget: Budget | None = None
    daily: Budget | None = None
