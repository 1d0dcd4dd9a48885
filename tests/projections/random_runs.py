"""Runs by chance: plans with everything in them, driven through the decider by workers, people and time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from redraft.actors.deciding.decider import handle
from redraft.actors.deciding.forking import begin_fork
from redraft.actors.deciding.policy import with_limits
from redraft.actors.deciding.state import RunState
from redraft.actors.plans.check import check_plan
from redraft.events.errors import PlanError
from redraft.events.messages.codec import GENESIS
from redraft.events.messages.commands import (
    ApproveDraft,
    CancelRun,
    ChangeLimits,
    Critiqued,
    EditDraft,
    ExpireStep,
    Failed,
    Generated,
    GuideRun,
    Message,
    PauseRun,
    Published,
    Refined,
    RejectDraft,
    ResumeRun,
    RetryStep,
    StartRun,
)
from redraft.events.messages.conditions import (
    Condition,
    approved,
    cost,
    elapsed,
    errors,
    oscillating,
    outputs,
    plateau,
    score,
    tokens,
)
from redraft.events.messages.content import Brief, Critique, DraftRef, Receipt
from redraft.events.messages.domain_events import DomainEvent, Parent, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.plan import Approve, Arm, Budget, Node, Parallel, Plan, Repeat, Retry, Role, Step, loops_of
from redraft.events.messages.usage import Usage

RUN: Final = "r"
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS: Final = ("a", "b", "c", "a\nb", "b\nc", "a\nb\nc", "d e f", "long " * 20)
CONDITIONS: Final[Sequence[Condition]] = (
    score >= 0.9,
    (score >= 0.8) & (errors == 0),
    (score >= 0.9) | plateau(0.01, 1),
    (score >= 0.9) | plateau(0.2, 2) | oscillating(3),
    approved,
    approved & (score >= 0.5),
    (errors == 0) | (elapsed > 50),
    (score >= 0.95) | (tokens > 60) | (cost > 3),
    ~(score < 0.7),
    (score > 0.999) & (score < 0.001),
)


def random_plan(chance: Random) -> Plan:
    """A plan that can be run."""
    while True:
        try:
            return check_plan(_Plans(chance).plan())
        except PlanError:
            continue


class _Plans:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.number = 0

    def plan(self) -> Plan:
        chance = self.chance
        nodes: list[Node] = [self.work("generator"), *(self.node(0) for _ in range(chance.randint(1, 4)))]
        if chance.random() < 0.8:
            nodes.append(self.work("publisher"))
        limits = [Budget(tokens=300), Budget(calls=9, cost=40.0), Budget(seconds=200.0)]
        budget = chance.choice([None, None, None, *limits])
        daily = chance.choice([None, None, None, Budget(tokens=200)])
        return Plan("random", tuple(nodes), chance.choice(["fail", "publish_best"]), budget, daily)

    def name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    def node(self, depth: int) -> Node:
        kinds = ["critic", "critic", "refiner", "approve", "publisher", "generator", *["loop"] * (8 - 4 * depth)]
        kind = self.chance.choice(kinds)
        if kind == "loop":
            return self.loop(depth)
        if kind == "approve":
            people = self.chance.choice([(), ("ann", "ben")])
            then = self.chance.choice(["approve", "reject", "fail"])
            return Approve(self.name("ask"), people, self.chance.choice([1, 1, 2]), 30.0, then)
        return self.work(kind)  # type: ignore[arg-type]

    def loop(self, depth: int) -> Repeat:
        chance = self.chance
        body: list[Node] = [self.node(depth + 1) for _ in range(chance.randint(0, 3))]
        body.insert(chance.randint(0, len(body)), self.work("critic"))
        if chance.random() < 0.8:
            body.append(self.work("refiner"))
        until = chance.choice(CONDITIONS)
        if any(isinstance(node, Approve) for node in body):
            until = chance.choice([approved, approved & (score >= 0.5), approved | (elapsed > 60)])
        if any(isinstance(node, Repeat) for node in body) and chance.random() < 0.5:
            until = outputs >= 2
        return Repeat(
            self.name("loop"),
            until,
            chance.randint(1, 3),
            tuple(body),
            chance.choice(["best", "last"]),
            chance.choice([0.0, 0.1, 1.0]),
            chance.choice(["ignore", "stop", "tell", "raise_temperature"]),
        )

    def work(self, role: Role) -> Node:
        chance = self.chance
        if chance.random() < 0.7:
            return self.step(role)
        members = tuple(self.step(role) for _ in range(chance.randint(2, 3)))
        wait = chance.choice(["all", "first", 1, len(members)])
        if role in ("generator", "refiner"):
            return Parallel(self.name("best"), members, wait, judge=self.step("critic"))
        if role == "publisher":
            return Parallel(self.name("all"), members, wait)
        combine = chance.choice(["min", "median", "mean", "weights", "veto"])
        weights = tuple(float(chance.randint(1, 5)) for _ in members) if combine == "weights" else ()
        deadline = chance.choice([None, 20.0])
        return Parallel(self.name("panel"), members, wait, combine, weights, deadline=deadline)

    def step(self, role: Role) -> Step:
        chance = self.chance
        name = self.name(role[0])
        retry = Retry(chance.randint(1, 3), 1.0)
        gate = role == "critic" and chance.random() < 0.25
        options = chance.choice([{}, {}, {"reserve_tokens": 20, "reserve_calls": 1}])
        if role != "publisher" and chance.random() < 0.2:
            arms = tuple(Arm(f"{name}{arm}", arm) for arm in ("x", "y"))
            return Step(role, "", name, 60.0, retry, options, gate=gate, choose=arms)
        return Step(role, name, name, 60.0, retry, options, gate=gate)


class RandomRun:
    """A run that is driven by chance; it keeps what was decided, and when."""

    def __init__(self, chance: Random, *, steering: float = 0.1, failing: float = 0.08) -> None:
        self.chance, self.steering, self.failing = chance, steering, failing
        self.state = RunState()
        self.events: list[DomainEvent] = []
        self.times: list[datetime] = []
        self.now = NOW
        self.inherited = 0

    def start(self, plan: Plan) -> RandomRun:
        self.send(StartRun(RUN, plan, Brief("brief")))
        return self

    def fork(self, past: Sequence[Recorded], plan: Plan) -> RandomRun:
        """Begins as a fork of these events."""
        self.now = past[-1].time + timedelta(days=9)
        start = StartRun(RUN, plan, Brief("brief"), parent=Parent(past[0].run, len(past)))
        decision = begin_fork(start, past, self.now)
        self.inherited = len(past)
        self.state, self.events = decision.state, list(decision.events)
        self.times = [self.now for _ in self.events]
        return self

    def send(self, message: Message) -> None:
        others = Usage(self.chance.choice([0, 0, 0, 50]))
        decision = handle(self.state, message, self.now, others=others)
        self.state = decision.state
        self.events.extend(decision.events)
        self.times.extend(self.now for _ in decision.events)

    def drive(self, most: int = 300) -> RandomRun:
        """Goes on until the run has ended, or for so many messages."""
        for _ in range(most):
            if self.state.status != "running":
                break
            self.now += timedelta(seconds=self.chance.choice([0.1, 1.0, 1.0, 5.0]))
            self.turn()
        return self

    def turn(self) -> None:
        chance, state = self.chance, self.state
        if state.paused and chance.random() < 0.5:
            self.send(ResumeRun(RUN, by="ann"))
        elif chance.random() < self.steering:
            self.steer()
        elif state.approval is not None:
            self.people()
        elif state.late and chance.random() < 0.3:
            path, asked = chance.choice(sorted(state.late.items()))
            self.send(Critiqued(RUN, path, asked.attempt, asked.draft or DraftRef(0, ""), Critique(0.5), self.usage()))
        elif state.open:
            self.work()
        elif not state.paused:
            self.send(CancelRun(RUN, "stuck", "ann"))

    def work(self) -> None:
        chance = self.chance
        path, asked = chance.choice(sorted(self.state.open.items()))
        if asked.retry_at is not None:
            self.now = max(self.now, asked.retry_at)
            self.send(RetryStep(RUN, path, asked.attempt))
        elif chance.random() < self.failing:
            self.send(Failed(RUN, path, asked.attempt, "error", "broke", chance.random() < 0.7, self.usage()))
        elif chance.random() < 0.04:
            self.now = max(self.now, asked.due) if chance.random() < 0.5 else self.now
            self.send(ExpireStep(RUN, path, asked.attempt))
        else:
            self.answer(path)

    def answer(self, path: str) -> None:
        chance, asked = self.chance, self.state.open[path]
        draft = asked.draft or DraftRef(0, "")
        value = chance.choice([0.0, 0.3, 0.6, 0.75, 0.85, 0.95, 1.0])
        verdict = chance.choice([None, None, None, None, None, True, False])
        said = Critique(value, errors=("bad",) if value < 0.5 else (), approved=verdict)
        text, leave = chance.choice(TEXTS), chance.random() < 0.07
        messages: dict[Role, Message] = {
            "generator": Generated(RUN, path, asked.attempt, text, usage=self.usage()),
            "critic": Critiqued(RUN, path, asked.attempt, draft, said, self.usage()),
            "refiner": Refined(RUN, path, asked.attempt, text, exit=leave, usage=self.usage()),
            "publisher": Published(RUN, path, asked.attempt, draft, Receipt("here")),
        }
        self.send(messages[asked.step.role])

    def people(self) -> None:
        chance, waiting = self.chance, self.state.approval
        assert waiting is not None
        draft, by = waiting.request.draft, chance.choice(["ann", "ben", "eve"])
        kind = chance.choice(["yes", "yes", "yes", "no", "late", "edit"])
        if kind == "yes":
            self.send(ApproveDraft(RUN, draft, "", by))
        elif kind == "no":
            self.send(RejectDraft(RUN, draft, chance.choice(["", "worse"]), by))
        elif kind == "edit":
            self.edit()
        else:
            self.now = max(self.now, waiting.request.due)
            self.send(ExpireStep(RUN, waiting.request.path, 1))

    def steer(self) -> None:
        chance = self.chance
        kind = chance.choice(["guide", "guide", "limit", "limit", "pause", "edit", "edit", "cancel"])
        if kind == "guide":
            self.send(GuideRun(RUN, "be brief", by="ann"))
        elif kind == "limit":
            loops = [path for path, _ in loops_of(self.state.plan.steps)]
            if loops:
                until = chance.choice([None, *CONDITIONS])
                most = chance.choice([None, 1, 2, 4])
                self.send(ChangeLimits(RUN, chance.choice(loops), until, most, by="ann"))
        elif kind == "pause":
            self.send(PauseRun(RUN, by="ann"))
        elif kind == "edit":
            self.edit()
        elif chance.random() < 0.2:
            self.send(CancelRun(RUN, "enough", "ann"))

    def edit(self) -> None:
        if self.state.current is not None:
            self.send(EditDraft(RUN, self.state.current.ref, self.chance.choice(TEXTS), by="ann"))

    def usage(self) -> Usage:
        return self.chance.choice([Usage(), Usage(10, 0.5, 1), Usage(30, 1.25, 2)])

    def recorded(self, run: str = RUN) -> tuple[Recorded, ...]:
        """The events as they are read from a store, but for their hashes."""
        return as_recorded(self.events, self.times, run, self.inherited)


def as_recorded(
    events: Sequence[DomainEvent], times: Sequence[datetime], run: str = RUN, inherited: int = 0
) -> tuple[Recorded, ...]:
    """These events with ids and a chain of something like hashes."""
    return tuple(
        Recorded(
            f"{run}-{number}",
            run,
            number,
            time,
            "somebody",
            "",
            run,
            "",
            GENESIS if number == 1 else f"{number - 1:064}",
            f"{number:064}",
            EVENT_NAMES[type(event)],
            event,
            number,
            f"parent-{number}" if 1 < number <= inherited else "",
        )
        for number, (event, time) in enumerate(zip(events, times, strict=True), 1)
    )


def random_run(seed: int) -> RandomRun:
    """A run of a random plan."""
    chance = Random(seed)
    return RandomRun(chance).start(random_plan(chance)).drive()


def random_fork(seed: int) -> RandomRun:
    """A fork of a random run at a random event, by a plan with other limits."""
    chance = Random(seed)
    parent = random_run(seed)
    past = parent.recorded("parent")[: chance.randint(1, len(parent.events))]
    begun = past[0].data
    assert isinstance(begun, RunStarted)
    plan = begun.plan
    for path, _ in loops_of(plan.steps):
        if chance.random() < 0.6:
            try:
                plan = with_limits(plan, path, chance.choice(CONDITIONS), chance.randint(1, 4))
            except PlanError:
                continue
    return RandomRun(chance).fork(past, plan).drive()
