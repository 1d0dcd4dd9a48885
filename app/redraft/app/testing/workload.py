"""The workload of a history: random plans, and scripted actors that answer late, wrong, or not at all."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random
from typing import Final, Protocol, TypeAlias

from msgspec.structs import replace

from redraft.actors import Actor, Context, Critique, Draft, Receipt, Revision
from redraft.actors.conditions.text import parse_condition
from redraft.actors.plans.check import check_ready
from redraft.actors.plans.paths import map_nodes
from redraft.actors.workflow.actor import Function
from redraft.app.testing.faults import Faults
from redraft.app.testing.learning import random_wish
from redraft.app.testing.places import random_issues, random_revision
from redraft.app.testing.reusing import text_again
from redraft.app.testing.several import said_of_files
from redraft.app.testing.stateful import SURE, beside, free_actors
from redraft.events.errors import PlanError
from redraft.events.messages.conditions import AnyOf, Approved, Compare, Condition, Plateau
from redraft.events.messages.lessons import Lesson
from redraft.events.messages.plan import (
    Approve,
    Arm,
    Budget,
    Criterion,
    Keep,
    Node,
    Parallel,
    Plan,
    Repeat,
    Retry,
    Role,
    Step,
    measure_name,
)
from redraft.events.messages.run_state import Values
from redraft.events.messages.scales import on_scale
from redraft.events.messages.usage import Usage

CRITICS: Final = ("facts", "prose", "taste")
ACTORS: Final[dict[Role, tuple[str, ...]]] = {
    "generator": ("write", "dictate"),
    "critic": (*CRITICS, "gate"),
    "refiner": ("improve",),
    "publisher": ("save", "web"),
}


SCALE: Final = (1.0, 10.0)
CRITERIA: Final = (Criterion("accuracy", "every claim is right", weight=2.0), Criterion("tone", scale=(0.0, 100.0)))
"""The criteria that critics of some plans declare, on two scales."""


def random_for(seed: int, trait: str, share: float) -> Random | None:
    """Returns the randomness with which a trait is drawn for a history; None if the history does not have it.

    `share` of all seeds have it. The trait's text is part of the randomness, so that no trait changes another.
    """
    random = Random(f"{seed} {trait}")
    return random if random.random() < share else None


def random_plan(random: Random, criteria: Random | None = None, measures: Random | None = None) -> Plan:
    """Returns a valid random plan: nested loops, panels, choices, gates, approvals, budgets.

    With `criteria` and `measures` its critics declare some, and its conditions name them, as those draw.
    """
    while True:
        try:
            plan = _plan(random)
            plan = plan if criteria is None else _with_criteria(criteria, plan)
            return check_ready(plan if measures is None else _with_measures(measures, plan))
        except PlanError:
            continue


COUNTED: Final = ("words", "wrong", "ease?")
"""The measures that critics of some plans declare."""

COUNTS: Final = (
    "words >= 300 and wrong == 0",
    "facts.words >= 300 or taste.words >= 300",
    "not wrong > 0 and score >= 0.5",
    "facts.wrong == 0 and not prose.words < 100",
    "ease > 0.5 or plateau(gain=0.05, over=2)",
    "change(words) < 0.1",
    "change(facts.words) < 0.2 and not change(taste.words) >= 0.5",
    "not change(facts.words) > 0.1 or tokens > 2000",
    "wrong or words == 105",
)
"""Conditions on measures; a plan whose critics have not all that one names, or several, is drawn again."""


def _with_measures(random: Random, plan: Plan) -> Plan:
    """Returns the plan with measures for its critics, and conditions that name them."""

    def changed(path: str, node: Node) -> Node:
        match node:
            case Step(role="critic"):
                node = replace(node, measures=random.choice((COUNTED, COUNTED, COUNTED[:2], COUNTED[1:])))
                if node.gate and random.random() < 0.7:
                    return replace(node, passes=parse_condition("wrong == 0 or approved"))
                return node
            case Repeat() if random.random() < 0.8:
                return replace(node, until=parse_condition(random.choice(COUNTS)))
            case _:
                return node

    return replace(plan, steps=map_nodes(plan.steps, changed))


def _with_criteria(random: Random, plan: Plan) -> Plan:
    """Returns the plan with a scale and criteria for its critics, and conditions that name them."""

    def changed(path: str, node: Node) -> Node:
        match node:
            case Step(role="critic"):
                judged = random.choice((CRITERIA, CRITERIA, CRITERIA[:1]))
                node = replace(node, scale=SCALE, criteria=judged)
                if node.gate and random.random() < 0.5:
                    return replace(node, passes=parse_condition("accuracy >= 6 or approved"))
                if node.choose and random.random() < 0.5:
                    return replace(node, success=parse_condition("accuracy >= 7 and confidence >= 0.5"))
                return node
            case Repeat():
                if random.random() < 0.3:
                    node = replace(node, rollback_of=random.choice(("accuracy", "min(criteria)")))
                if random.random() < 0.3:
                    node = replace(node, rollback_margin=random.choice((1.0, 2.0)), rollback_top=10.0)
                if node.rollback_of == "min(criteria)":
                    node = replace(node, rollback_margin=0.1, rollback_top=None)
                return (
                    replace(node, until=parse_condition(random.choice(CONDITIONS))) if random.random() < 0.8 else node
                )
            case _:
                return node

    return replace(plan, steps=map_nodes(plan.steps, changed))


def lowest_plan(plan: Plan) -> Plan:
    """Returns the plan with loops that end by the lowest of their criteria, if their critics have criteria."""

    def changed(path: str, node: Node) -> Node:
        return replace(node, until=parse_condition("min(criteria) >= 0.5")) if isinstance(node, Repeat) else node

    try:
        return check_ready(replace(plan, steps=map_nodes(plan.steps, changed)))
    except PlanError:
        return plan


CONDITIONS: Final = (
    "score >= 8",
    "accuracy >= 8 and tone >= 60",
    "accuracy >= 6 and not confidence < 0.5",
    "score >= 1 of 10 and accuracy > 7 or plateau(gain=2, over=1, of=accuracy)",
    "min(criteria) >= 0.8 or oscillating(window=3, of=tone)",
    "facts.accuracy >= 8 or plateau(gain=1 of 10)",
    "taste.tone >= 90 and facts.score >= 5 or accuracy >= 9",
    "score >= 90 of 100 or tokens > 2000",
)
"""Conditions on criteria; a plan whose critics have not all that one names is drawn again."""


def _plan(random: Random) -> Plan:
    steps: list[Node] = [_first(random)]
    steps += [_loop(random, f"Loop{number}", depth=0) for number in range(random.choice((1, 1, 1, 2)))]
    if random.random() < 0.25:
        steps.append(_approve(random, "Editor"))
    steps.append(_last(random))
    budget = Budget(calls=random.randint(2, 20)) if random.random() < 0.15 else None
    on_failure = random.choice(("fail", "publish_best"))
    return Plan(f"plan-{random.getrandbits(24):06x}", tuple(steps), on_failure, budget)  # type: ignore[arg-type]


def _step(random: Random, role: Role, actor: str, *, gate: bool = False) -> Step:
    retry = Retry(random.randint(1, 4), random.choice((0.0, 1.0, 30.0)))
    return Step(role, actor, actor, random.choice((30.0, 300.0)), retry, gate=gate)


def _first(random: Random) -> Node:
    if random.random() < 0.2:
        both = (_step(random, "generator", "write"), _step(random, "generator", "dictate"))
        return Parallel("Best", both, random.choice(("all", "first")), judge=_step(random, "critic", "taste"))
    return _step(random, "generator", "write")


def _last(random: Random) -> Node:
    if random.random() < 0.2:
        return Parallel("Out", (_step(random, "publisher", "save"), _step(random, "publisher", "web")))
    return _step(random, "publisher", "save")


def _loop(random: Random, name: str, depth: int) -> Repeat:
    body: list[Node] = [*_critics(random), _step(random, "refiner", "improve")]
    if depth == 0 and random.random() < 0.2:
        body.insert(0, _loop(random, f"{name}in", depth=1))
    asks = random.random() < 0.12
    if asks:
        body.insert(len(body) - 1, _approve(random, "Reader"))
    until = Approved() if asks and random.random() < 0.5 else _condition(random)
    keep: Keep = random.choice(("best", "best", "last"))
    return Repeat(name, until, random.randint(1, 4), tuple(body), keep, random.choice((0.0, 0.1, 1.0)))


def _critics(random: Random) -> list[Node]:
    kind = random.random()
    if kind < 0.35:
        return [_step(random, "critic", "facts")]
    if kind < 0.45:
        return [_step(random, "critic", "gate", gate=True), _step(random, "critic", "facts")]
    if kind < 0.55:
        arms = tuple(Arm(actor, actor) for actor in ("facts", "prose"))
        return [Step("critic", "", "chosen", retry=Retry(2, 1.0), choose=arms)]
    members = tuple(_step(random, "critic", name) for name in random.sample(CRITICS, random.choice((2, 3))))
    wait = random.choice(("all", "first", 2))
    deadline = random.choice((None, None, 60.0))
    combine = random.choice(("min", "median", "mean", "veto"))
    return [Parallel("Panel", members, wait, combine, deadline=deadline)]  # type: ignore[arg-type]


def _condition(random: Random) -> Condition:
    enough = Compare("score", ">=", random.choice((0.5, 0.8, 0.95)))
    return AnyOf((enough, Plateau(0.05, 2))) if random.random() < 0.3 else enough


def _approve(random: Random, name: str) -> Approve:
    return Approve(name, quorum=random.choice((1, 1, 2)), deadline=random.choice((600.0, 7200.0)))


class Cast(Protocol):
    """The actors of a history, with the number of calls and of publications for each request."""

    calls: Counter[tuple[str, str, int]]
    published: Counter[tuple[str, str, int]]

    def actors(self) -> list[Actor]:
        """Returns one actor for each role and name in the plans, for a process that starts."""


Answer: TypeAlias = Callable[[Context, Draft | None, Critique | None], object]


class Script:
    """Scripted actors, with the number of calls for each request."""

    def __init__(self, random: Random, faults: Faults) -> None:
        self.calls: Counter[tuple[str, str, int]] = Counter()
        self.published: Counter[tuple[str, str, int]] = Counter()
        self.places: Random | None = None
        """Draws issues with a place, and edits; None where drafts are only rewritten."""
        self.again: Random | None = None
        """The generator of refiners' texts where earlier ones recur; None where each text is new."""
        self.unchanged: Random | None = None
        """Draws whether a refiner returns the text that it was given; None where none does."""
        self.files: Random | None = None
        """Draws drafts of several files; None where each is one text."""
        self.values: Random | None = None
        """Draws changes of runs' state; None where no plan has any."""
        self.given: defaultdict[tuple[str, str, int], list[Values]] = defaultdict(list)
        """The state that the actor was given at each call, by request."""
        self.learning: Random | None = None
        """Draws what critics ask for where runs are given lessons; None where no plan asks for any."""
        self.lessons: defaultdict[tuple[str, str, int], list[tuple[Lesson, ...]]] = defaultdict(list)
        """The lessons that the actor was given at each call, by request."""
        self._random = random
        self._faults = faults

    def actors(self) -> list[Actor]:
        """Returns one actor for each role and name of a plan."""
        random = self._random
        answers: dict[Role, Answer] = {
            "generator": lambda *_: f"draft {random.getrandbits(40)}",
            "critic": self._critique,
            "refiner": self._revision,
            "publisher": lambda *_: Receipt("shelf"),
        }
        on_draft = ("context", "draft")
        takes: dict[Role, tuple[str, ...]] = {"critic": on_draft, "refiner": (*on_draft, "critique")}
        more = [] if self.values is None else free_actors(self.values, self._function)
        return [
            Actor(name, role, self._function(role, name, answers[role]), takes.get(role, ("context",)), is_async=True)
            for role, names in ACTORS.items()
            for name in names
        ] + more

    def _critique(self, context: Context, draft: Draft | None, critique: Critique | None) -> object:
        random = self._random
        approved = False if random.random() < 0.04 else None
        share = random.choice((0.3, 0.6, 0.6, 0.9, 1.0))
        issues = random_issues(self.places, draft.text) if self.places and draft else ()
        if not context.criteria:
            said = Critique(share, suggestions=self._wishes(), approved=approved, issues=issues)
            return replace(said, measures=self._count(context)) if context.measures else said
        quote = draft.text[:5] if self.places and draft else ""
        marks = {
            each.name: {
                "quote": quote,
                "score": on_scale(random.choice((0.3, 0.6, 0.9, 1.0)), each.scale or SCALE),
                "confidence": share,
            }
            for each in context.criteria
        }
        own = {"score": on_scale(share, SCALE)} if random.random() < 0.3 else {}
        counted = {"measures": self._count(context)} if context.measures else {}
        return {
            "criteria": marks,
            "suggestions": self._wishes(),
            "approved": approved,
            "issues": issues,
            **own,
            **counted,
        }

    def _wishes(self) -> tuple[str, ...]:
        return ("say more",) if self.learning is None else ("say more", random_wish(self.learning))

    def _count(self, context: Context) -> dict[str, float]:
        """Returns numbers for what the plan has counted, and only sometimes for what may be missing."""
        asked = [each for each in context.measures if not each.endswith("?") or self._random.random() < 0.5]
        return {measure_name(each): self._random.choice((0, 0, 1, 0.6, 100, 105, 300)) for each in asked}

    def _revision(self, context: Context, draft: Draft | None, critique: Critique | None) -> object:
        text = f"draft {self._random.getrandbits(40)}" if self.again is None else text_again(self.again)
        if self.unchanged is not None and draft is not None and self.unchanged.random() < 0.3:
            text = draft.text
        said = Revision(text, exit=self._random.random() < 0.03)
        if self.places is None or draft is None:
            return said
        return random_revision(self.places, said, draft.text, critique)

    def _function(self, role: Role, name: str, answer: Answer) -> Function:
        async def act(context: Context, draft: Draft | None = None, critique: Critique | None = None) -> object:
            odds, what = self._faults.odds, f"{name} at {context.path} of {context.run}"
            place = (context.run, context.path, context.attempt)
            self.calls[place] += 1
            if self.values is not None:
                self.given[place].append(dict(context.state))
            self.lessons[place].append(context.lessons)
            context.used(Usage(calls=1, tokens=100))
            await asyncio.sleep(self._faults.between(0.01, 5))
            if self._faults.happens(odds.actor_late, f"{what} takes longer than its time"):
                await asyncio.sleep(context.timeout + 60)
            if self._faults.happens(odds.actor_wrong, f"{what} returns what its role does not allow"):
                return 3.14
            if self._faults.happens(odds.actor_fails, f"{what} fails"):
                raise RuntimeError("out of order")
            if role == "publisher":
                self.published[place] += 1
            said = answer(context, draft, critique)
            if self.files is not None and role in ("generator", "refiner"):
                said = said_of_files(self.files, said)
            return said if self.values is None or role == "step" or name == SURE else beside(self.values, said)

        return act
