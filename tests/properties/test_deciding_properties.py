"""Random plans with random outcomes: what must hold for every run."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.actors.rules_two import check_rules_two
from tests.golden.decide import Driven
from tests.golden.decide import plans as steered_plans

from redraft.actors.deciding.decider import MAX_SENDINGS, handle
from redraft.actors.deciding.evolve import fold
from redraft.actors.deciding.state import RunState
from redraft.events.messages.commands import (
    CancelRun,
    ConfirmStep,
    Critiqued,
    ExpireStep,
    Failed,
    Generated,
    Message,
    Published,
    Refined,
    RetryStep,
    StartRun,
)
from redraft.events.messages.conditions import Condition, approved, elapsed, errors, oscillating, plateau, score
from redraft.events.messages.content import Brief, Critique, DraftRef, Receipt
from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    IterationStarted,
    LoopEnded,
    RunEnded,
    StepFailed,
)
from redraft.events.messages.plan import RULES, Arm, Node, Parallel, Plan, Repeat, Retry, Role, Step

RUN = "r"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NEVER = (score > 0.999) & (score < 0.001)


def step(role: Role, name: str, attempts: int = 1) -> Step:
    return Step(role, name, name, retry=Retry(attempts, 0.0))


def choice(role: Role, name: str, attempts: int = 1) -> Step:
    """A step that chooses among two actors."""
    arms = tuple(Arm(f"{name}_{arm}", f"{name}_{arm}") for arm in "ab")
    return Step(role, "", name, retry=Retry(attempts, 0.0), choose=arms)


conditions: st.SearchStrategy[Condition] = st.sampled_from(
    [
        score >= 0.9,
        (score >= 0.8) & (errors == 0),
        (score >= 0.9) | plateau(0.01, 1),
        (score >= 0.9) | plateau(0.2, 2) | oscillating(3),
        approved,
        (errors == 0) | (elapsed > 50),
        ~(score < 0.7),
        NEVER,
    ]
)


@st.composite
def loops(draw: st.DrawFn, depth: int = 0, number: int = 0) -> Repeat:
    """A loop whose every pass judges, at times with a panel, at times with a loop inside."""
    attempts = draw(st.integers(1, 3))
    judge: Node = draw(
        st.sampled_from(
            [
                step("critic", "judge", attempts),
                choice("critic", "judge", attempts),
                Parallel("both", (choice("critic", "a", attempts), step("critic", "b")), wait="first"),
                Parallel("panel", (step("critic", "a"), step("critic", "b", attempts)), combine="mean"),
                Parallel("quorum", tuple(step("critic", f"c{n}", 2) for n in range(3)), wait=2, combine="veto"),
                Parallel("race", (step("critic", "x"), step("critic", "y")), wait="first"),
            ]
        )
    )
    improve = draw(st.sampled_from([step, choice]))("refiner", "improve", attempts)
    rate = draw(st.sampled_from([step, choice]))("critic", "rate")
    better = Parallel("samples", (step("refiner", "s1"), choice("refiner", "s2")), judge=rate)
    body: list[Node] = draw(
        st.sampled_from(
            [[judge, improve], [improve, judge], [judge, better], [judge, improve, step("critic", "after")]]
        )
    )
    if depth < 2 and draw(st.booleans()):
        inner = draw(loops(depth + 1))
        body = draw(st.sampled_from([[inner, *body], [*body, inner], [step("generator", "again"), inner]]))
    return Repeat(
        f"Loop{depth}{number}",
        draw(conditions),
        draw(st.integers(1, 3)),
        tuple(body),
        draw(st.sampled_from(["best", "last"])),
        draw(st.sampled_from([0.0, 0.1, 1.0])),
        draw(st.sampled_from(["ignore", "stop", "tell", "raise_temperature"])),
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    start: Node = draw(
        st.sampled_from(
            [
                step("generator", "write", 2),
                choice("generator", "write", 2),
                Parallel("drafts", (step("generator", "w1"), step("generator", "w2")), judge=step("critic", "first")),
            ]
        )
    )
    middle = [draw(loops(number=number)) for number in range(draw(st.integers(1, 2)))]
    end: Node = draw(
        st.sampled_from(
            [step("publisher", "save", 2), Parallel("everywhere", (step("publisher", "p1"), step("publisher", "p2")))]
        )
    )
    return Plan("random", (start, *middle, end), draw(st.sampled_from(["fail", "publish_best"])))


class Run:
    """A run that is driven by whatever outcomes a test draws; it keeps what was asked and what was answered."""

    def __init__(self, plan: Plan) -> None:
        self.state = RunState()
        self.events: list[DomainEvent] = []
        self.times: list[datetime] = []
        self.said: list[Message] = []
        self.now = NOW
        self.send(StartRun(RUN, plan, Brief("brief")))

    def send(self, message: Message) -> tuple[DomainEvent, ...]:
        decision = handle(self.state, message, self.now)
        self.state = decision.state
        self.events.extend(decision.events)
        self.times.extend(self.now for _ in decision.events)
        self.said.append(message)
        return decision.events

    def answer(self, path: str, *, value: float, text: str, verdict: bool | None = None, leave: bool = False) -> None:
        asked = self.state.open[path]
        draft = asked.draft or DraftRef(0, "")
        said = Critique(value, errors=("bad",) if value < 0.5 else (), approved=verdict)
        messages: dict[Role, Message] = {
            "generator": Generated(RUN, path, asked.attempt, text),
            "critic": Critiqued(RUN, path, asked.attempt, draft, said),
            "refiner": Refined(RUN, path, asked.attempt, text, exit=leave),
            "publisher": Published(RUN, path, asked.attempt, draft, Receipt("here")),
        }
        self.send(messages[asked.step.role])

    def fail(self, path: str, *, retryable: bool = True) -> None:
        asked = self.state.open[path]
        self.send(Failed(RUN, path, asked.attempt, "error", "broke", retryable))

    def wake(self, path: str) -> None:
        asked = self.state.open[path]
        assert asked.retry_at is not None
        self.now = max(self.now, asked.retry_at)
        self.send(RetryStep(RUN, path, asked.attempt))


def driven(plan: Plan, data: st.DataObject, *, failures: bool = True) -> Run:
    return driven_on(Run(plan), data, failures=failures)


def driven_on(run: Run, data: st.DataObject, *, failures: bool = True) -> Run:
    """Gives answers, and at times none, until the run has ended."""
    for _ in range(5000):
        if run.state.status != "running":
            break
        run.now += timedelta(seconds=1)
        path = data.draw(st.sampled_from(sorted(run.state.open)))
        if run.state.open[path].retry_at is not None:
            run.wake(path)
        elif failures and data.draw(st.integers(0, 9)) == 0:
            run.fail(path, retryable=data.draw(st.booleans()))
        else:
            run.answer(
                path,
                value=data.draw(st.sampled_from([0.0, 0.3, 0.6, 0.75, 0.85, 0.95, 1.0])),
                text=data.draw(st.sampled_from(["a", "b", "c", "d e f", "long " * 20])),
                verdict=data.draw(st.sampled_from([None, None, None, None, True, False])),
                leave=data.draw(st.integers(0, 9)) == 0,
            )
    return run


examples = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@examples
@given(plans(), st.data())
def test_every_run_ends_in_exactly_one_terminal_event_with_a_reason(plan: Plan, data: st.DataObject):
    run = driven(plan, data)
    ends = [event for event in run.events if isinstance(event, RunEnded)]
    assert len(ends) == 1
    assert run.events[-1] is ends[0]
    assert ends[0].reason


@examples
@given(plans(), st.data())
def test_nothing_is_published_that_was_not_critiqued_at_that_hash(plan: Plan, data: st.DataObject):
    judged: set[str] = set()
    for event in driven(plan, data).events:
        if isinstance(event, DraftCritiqued):
            judged.add(event.draft.sha256)
        if isinstance(event, DraftPublished):
            assert event.draft.sha256 in judged


@examples
@given(plans(), st.data())
def test_nothing_barred_is_ever_published_and_a_failed_run_ends_failed(plan: Plan, data: st.DataObject):
    run = driven(plan, data)
    check_rules_two(run.events)
    failed = any(isinstance(event, StepFailed) and event.retry_at is None for event in run.events)
    assert run.state.failure is None or (failed and run.events[-1].outcome == "failed")  # type: ignore[union-attr]


@examples
@given(st.sampled_from(sorted(dict(steered_plans()))), st.integers(0, 2**32))
def test_nor_where_people_steer_and_budgets_end(name: str, seed: int):
    run = Driven(dict(steered_plans())[name], seed, RULES)
    assert run.state.status == "ended"
    check_rules_two(run.events)
    assert fold(run.events) == run.state


@examples
@given(plans(), st.data())
def test_the_fold_of_any_prefix_never_raises_and_the_whole_gives_the_state(plan: Plan, data: st.DataObject):
    run = driven(plan, data)
    for length in range(len(run.events) + 1):
        assert fold(run.events[:length]).version == length
    assert fold(run.events) == run.state


@examples
@given(plans(), st.data())
def test_duplicate_late_and_foreign_outcomes_change_nothing(plan: Plan, data: st.DataObject):
    run = Run(plan)
    while run.state.status == "running" and len(run.said) < 200:
        path = data.draw(st.sampled_from(sorted(run.state.open)))
        for old in run.said:
            assert handle(run.state, old, run.now).events == ()
        asked = run.state.open[path]
        for foreign in (
            Critiqued(RUN, path, asked.attempt, DraftRef(99, "f" * 64), Critique(1.0)),
            Generated(RUN, "elsewhere[1]/write", 1, "text"),
            Generated(RUN, path, asked.attempt + 1, "text"),
            RetryStep(RUN, path, asked.attempt),
            ConfirmStep(RUN, path, asked.attempt, 2),
            ConfirmStep(RUN, path, asked.attempt + 1, MAX_SENDINGS),
            ExpireStep(RUN, path, asked.attempt),
        ):
            assert handle(run.state, foreign, run.now).events == ()
        run.answer(path, value=data.draw(st.sampled_from([0.2, 0.6, 1.0])), text=f"text {len(run.said)}")
    if run.state.status == "ended":
        assert handle(run.state, CancelRun(RUN, "late"), run.now).events == ()


@examples
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.data())
def test_n_iterations_means_n_at_every_depth(outer: int, inner: int, attempts: int, data: st.DataObject):
    judge, improve = step("critic", "judge", attempts), step("refiner", "improve", attempts)
    nested = Repeat("Inner", NEVER, inner, (judge, improve))
    write = step("generator", "write", attempts)
    plan = Plan("nested", (write, Repeat("Outer", NEVER, outer, (nested, judge, improve))))
    run = Run(plan)
    while run.state.status == "running":
        path, asked = next(iter(run.state.open.items()))
        if asked.retry_at is not None:
            run.wake(path)
        elif asked.attempt < attempts and data.draw(st.booleans()):
            run.fail(path)
        else:
            run.answer(path, value=0.5, text=f"text {len(run.said)}")
    passes = Counter(event.path for event in run.events if isinstance(event, IterationStarted))
    assert passes == {"Outer": outer, **{f"Outer[{n}]/Inner": inner for n in range(1, outer + 1)}}
    ended = {event.path: event.iterations for event in run.events if isinstance(event, LoopEnded)}
    assert ended == dict(passes)
    refined = [event for event in run.events if isinstance(event, DraftRefined)]
    assert len(refined) == outer * (inner + 1)


@examples
@given(st.lists(st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.85]), min_size=4, max_size=4), st.floats(0, 1))
def test_the_best_judged_draft_leaves_the_loop(scores: list[float], margin: float):
    loop = Repeat("L", score >= 0.9, 3, (step("critic", "judge"), step("refiner", "improve")), rollback_margin=margin)
    run = Run(Plan("p", (step("generator", "write"), loop, step("publisher", "save"))))
    given_scores = iter(scores)
    by_draft: dict[DraftRef, float] = {}
    while run.state.status == "running":
        path, asked = next(iter(run.state.open.items()))
        value = next(given_scores) if asked.step.role == "critic" else 0.0
        if asked.step.role == "critic" and asked.draft:
            by_draft[asked.draft] = value
        run.answer(path, value=value, text=f"text {len(run.said)}")
    published = next(event for event in run.events if isinstance(event, DraftPublished))
    assert by_draft[published.draft] == max(scores)
    assert next(event for event in run.events if isinstance(event, LoopEnded)).score == max(scores)


@examples
@given(plans(), st.data())
def test_attempts_follow_the_policy_and_no_step_is_answered_twice(plan: Plan, data: st.DataObject):
    run = driven(plan, data)
    answers = Counter(
        event.path
        for event in run.events
        if isinstance(event, DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished)
    )
    assert set(answers.values()) <= {1}
    finals = Counter(event.path for event in run.events if isinstance(event, StepFailed) and event.retry_at is None)
    assert set(finals.values()) <= {1}
    assert not set(finals) & set(answers)
