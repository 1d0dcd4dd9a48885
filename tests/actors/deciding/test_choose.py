"""Steps that choose among actors: who is chosen, what a run credits them with, and what else has to know of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

import pytest
from hypothesis import given as given_any
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.given import given
from tests.properties.test_deciding_properties import NEVER, NOW, Run, choice, driven_on, examples, plans, step
from tests.streams import recorded

from redraft.actors.deciding.decider import handle
from redraft.actors.deciding.evolve import fold
from redraft.actors.deciding.forking import begin_fork, why_unfit
from redraft.actors.deciding.policy import Policy
from redraft.actors.deciding.state import RunState
from redraft.actors.plans.arms import choose_as_recorded as recorded_choices
from redraft.actors.plans.arms import first_arm
from redraft.actors.plans.check import check_plan
from redraft.actors.plans.paths import steps_in
from redraft.actors.replay.whatif import what_if
from redraft.actors.runtime.coordinating.decisions import Tallies, thompson
from redraft.actors.runtime.relaying.request_builder import RequestBuilder
from redraft.actors.workflow.free_steps import step as part
from redraft.actors.workflow.roles import critic, generator, refiner
from redraft.actors.workflow.workflow import Workflow, approve, parallel, pin_versions, repeat, unpin_versions
from redraft.events.errors import ActorError, PlanError
from redraft.events.messages.commands import (
    ApproveDraft,
    CancelRun,
    Critiqued,
    Generated,
    Message,
    StartRun,
    Work,
)
from redraft.events.messages.conditions import approved, score
from redraft.events.messages.content import Brief, Critique, DraftRef
from redraft.events.messages.domain_events import (
    Choice,
    ChoicesCredited,
    Credit,
    DomainEvent,
    Parent,
    RunEnded,
    StepRequested,
    Tally,
)
from redraft.events.messages.plan import Arm, Node, Option, Parallel, Plan, Repeat, Role, Step
from redraft.events.messages.usage import Usage

WRITE, IMPROVE = step("generator", "write"), step("refiner", "improve")
JUDGE = choice("critic", "judge")
WRITERS = Step("generator", "", "write", choose=(Arm("good", "good"), Arm("bad", "bad")))


def plan_of(*body: Node, first: Node = WRITE, most: int = 3) -> Plan:
    return check_plan(Plan("p", (first, Repeat("L", score >= 0.9, most, body))))


def asked_in(events: Sequence[DomainEvent]) -> list[StepRequested]:
    return [event for event in events if isinstance(event, StepRequested)]


def credits_in(events: Sequence[DomainEvent]) -> list[tuple[str, str, bool]]:
    return [
        (each.step, each.arm, each.success)
        for event in events
        if isinstance(event, ChoicesCredited)
        for each in event.credits
    ]


def chosen(*arms: str):
    """Chooses these, one after the other."""
    left = list(arms)
    return lambda path, step, known, draft: Choice(left.pop(0), tuple(map(Tally, known)))


class Chosen(Run):
    """A run in which these arms are chosen, one after the other."""

    def __init__(self, plan: Plan, *arms: str) -> None:
        self.choose = chosen(*arms)
        super().__init__(plan)

    def send(self, message: Message) -> tuple[DomainEvent, ...]:
        decision = handle(self.state, message, self.now, choose=self.choose)
        self.state = decision.state
        self.events.extend(decision.events)
        return decision.events

    def say(self, *values: float) -> Chosen:
        """Each open step answers, one after the other; critics with these scores."""
        left = list(values)
        while self.state.status == "running" and self.state.open:
            path, asked = next(iter(self.state.open.items()))
            if asked.step.role == "critic" and not left:
                break
            value = left.pop(0) if asked.step.role == "critic" else 0.0
            self.answer(path, value=value, text=f"text {len(self.events)}")
        return self


# Who is chosen


def test_a_step_that_chooses_goes_to_the_chosen_actor_and_says_what_it_was_chosen_by() -> None:
    tallies: Tallies = {"L/judge": (Tally("judge_b", 400, 1), Tally("judge_a", 1, 400))}
    choose = partial(thompson, "r", tallies)
    started = StartRun("r", plan_of(JUDGE, IMPROVE), Brief("b"))
    begun = given().when(started, at=NOW, choose=choose)
    asked = given(*begun.events).when(Generated("r", "write", 1, "one"), at=NOW, choose=choose).events[-1]
    assert isinstance(asked, StepRequested)
    assert (asked.path, asked.role, asked.actor) == ("L[1]/judge", "critic", "judge_b")
    assert asked.choice == Choice("judge_b", (Tally("judge_a", 1, 400), Tally("judge_b", 400, 1)))


def test_the_same_request_and_tallies_give_the_same_choice_and_other_requests_others() -> None:
    tallies: Tallies = {"s": (Tally("a", 3, 2), Tally("b", 2, 3))}
    paths = [f"L[{number}]/s" for number in range(200)]
    first = [thompson("run", tallies, path, "s", "ab").arm for path in paths]
    assert first == [thompson("run", tallies, path, "s", "ab").arm for path in paths]
    assert set(first) == {"a", "b"}
    assert first != [thompson("other", tallies, path, "s", "ab").arm for path in paths]


def test_the_draw_is_the_same_in_every_process() -> None:
    """What a redelivered message is decided to be again must not depend on who decides."""
    tallies: Tallies = {"s": (Tally("a", 3, 2), Tally("b", 2, 3))}
    assert "".join(thompson("run", tallies, f"{n}", "s", "ab").arm for n in range(12)) == DRAWN


DRAWN = "bbabbbaaaaba"


def test_an_arm_that_is_new_is_known_of_nothing() -> None:
    assert thompson("r", {"s": (Tally("gone", 9, 0),)}, "p", "s", ("a", "b")).known == (Tally("a"), Tally("b"))


def drawn_in_runs(seed: int, runs: int = 300) -> list[str]:
    """Who wrote in whole runs by the decider: a draft of `good` is accepted in 9 of 10, one of `bad` in 2 of 10."""
    random = Random(seed)
    plan = plan_of(step("critic", "judge"), first=WRITERS, most=1)
    known = {"good": Tally("good"), "bad": Tally("bad")}
    drawn: list[str] = []
    for number in range(runs):
        run = f"{seed}-{number}"
        choose = partial(thompson, run, {"write": tuple(known.values())})
        state = handle(RunState(), StartRun(run, plan, Brief("b")), NOW, choose=choose).state
        drawn.append(state.open["write"].request.actor)
        state = handle(state, Generated(run, "write", 1, "text"), NOW, choose=choose).state
        value = 1.0 if random.random() < {"good": 0.9, "bad": 0.2}[drawn[-1]] else 0.1
        asked = state.open["L[1]/judge"].draft
        assert asked
        ended = handle(state, Critiqued(run, "L[1]/judge", 1, asked, Critique(value)), NOW, choose=choose).events
        for _, arm, success in credits_in(ended):
            tally = known[arm]
            counted = {"successes": tally.successes + success, "failures": tally.failures + (not success)}
            known[arm] = replace(tally, **counted)
    assert sum(each.successes + each.failures for each in known.values()) == runs
    return drawn


@pytest.mark.check
def test_the_better_arm_gets_most_of_the_draws_and_the_worse_is_still_tried() -> None:
    late = [drawn_in_runs(seed)[20:] for seed in range(8)]
    assert min(each.count("good") for each in late) >= 270
    assert sum(each.count("bad") for each in late) >= 3


def test_a_choice_is_made_anew_for_each_pass_but_not_for_a_retry() -> None:
    judge = choice("critic", "judge", attempts=2)
    run = Chosen(plan_of(judge, IMPROVE), "judge_a", "judge_b")
    run.answer("write", value=0, text="one")
    run.fail("L[1]/judge")
    run.wake("L[1]/judge")
    again = asked_in(run.events)[-1]
    assert (again.attempt, again.actor, again.choice) == (2, "judge_a", Choice("judge_a", _nothing("judge")))
    run.say(0.5)
    assert [each.actor for each in asked_in(run.events) if each.path.endswith("judge")] == [
        "judge_a",
        "judge_a",
        "judge_b",
    ]


def _nothing(name: str) -> tuple[Tally, ...]:
    return Tally(f"{name}_a"), Tally(f"{name}_b")


@examples
@given_any(plans(), st.data())
def test_the_state_is_folded_from_what_was_recorded_and_nothing_is_drawn(plan: Plan, data: st.DataObject) -> None:
    class Drawn(Run):
        def send(self, message: Message) -> tuple[DomainEvent, ...]:
            draw = partial(thompson, "r", {})
            decision = handle(self.state, message, self.now, choose=draw)
            assert decision == handle(self.state, message, self.now, choose=draw)
            self.state = decision.state
            self.events.extend(decision.events)
            self.said.append(message)
            return decision.events

    run = driven_on(Drawn(plan), data)
    assert fold(run.events) == run.state
    took = {(step, arm) for step, arm, _ in credits_in(run.events)}
    assert len(took) == len(credits_in(run.events)), "each once"
    asked = {(_key(each.path), each.choice.arm) for each in asked_in(run.events) if each.choice}
    assert took <= asked
    assert all(each.actor for each in asked_in(run.events))


def _key(path: str) -> str:
    return "/".join(part.partition("[")[0] for part in path.split("/"))


# What a run credits


def test_an_accepted_run_credits_each_arm_that_took_part_once() -> None:
    improve = choice("refiner", "improve")
    run = Chosen(plan_of(step("critic", "judge"), improve, first=WRITERS), "bad", "improve_a", "improve_b")
    run.say(0.1, 0.5, 1.0)
    assert isinstance(run.events[-2], ChoicesCredited)
    assert isinstance(run.events[-1], RunEnded)
    improved = (Credit("L/improve", arm, True) for arm in ("improve_a", "improve_b"))
    assert run.events[-2] == ChoicesCredited("p", (*improved, Credit("write", "bad", True)))


def test_a_run_that_ends_otherwise_is_a_failure_of_all_that_took_part() -> None:
    run = Chosen(plan_of(step("critic", "judge"), IMPROVE, first=WRITERS, most=1), "good").say(0.1, 0.2)
    assert credits_in(run.events) == [("write", "good", False)]


def test_a_cancelled_run_and_one_that_another_step_failed_say_nothing() -> None:
    plan = plan_of(step("critic", "judge"), IMPROVE, first=WRITERS)
    cancelled = Chosen(plan, "good")
    cancelled.answer("write", value=0, text="one")
    cancelled.send(CancelRun("r", "enough"))
    failed = Chosen(plan, "good")
    failed.answer("write", value=0, text="one")
    failed.fail("L[1]/judge")
    kept = Chosen(replace(plan, on_failure="publish_best"), "good")
    kept.say(0.5)
    kept.fail("L[2]/judge")
    for run in (cancelled, failed, kept):
        assert isinstance(run.events[-1], RunEnded)
        assert credits_in(run.events) == []


def test_an_arm_whose_own_step_failed_for_good_is_credited_with_a_failure_however_the_run_ends() -> None:
    failed = Chosen(plan_of(step("critic", "judge"), first=WRITERS), "bad")
    failed.fail("write", retryable=False)
    assert credits_in(failed.events) == [("write", "bad", False)]
    panel = Parallel("P", (JUDGE, step("critic", "other")), wait=1)
    run = Chosen(plan_of(panel, IMPROVE), "judge_a")
    run.answer("write", value=0, text="one")
    run.fail("L[1]/P/judge")
    run.answer("L[1]/P/other", value=1.0, text="")
    assert isinstance(run.events[-1], RunEnded)
    assert run.events[-1].outcome == "accepted"
    assert credits_in(run.events) == [("L/P/judge", "judge_a", False)]


def test_an_arm_that_was_asked_and_not_heard_took_no_part() -> None:
    panel = Parallel("P", (JUDGE, step("critic", "other")), wait="first")
    run = Chosen(plan_of(panel, IMPROVE), "judge_a")
    run.answer("write", value=0, text="one")
    run.answer("L[1]/P/other", value=1.0, text="")
    assert isinstance(run.events[-1], RunEnded)
    assert credits_in(run.events) == []


# A critic is not credited with its own word


def test_a_critic_that_alone_accepts_is_not_credited_with_it() -> None:
    run = Chosen(plan_of(JUDGE, IMPROVE), "judge_a").say(1.0)
    assert isinstance(run.events[-1], RunEnded)
    assert run.events[-1].outcome == "accepted"
    assert credits_in(run.events) == []


def test_a_critic_is_credited_when_another_one_accepts_what_came_of_its_advice() -> None:
    run = Chosen(plan_of(JUDGE, IMPROVE), "judge_a", "judge_b").say(0.5, 1.0)
    assert credits_in(run.events) == [("L/judge", "judge_a", True)]


@pytest.mark.parametrize("gate", [True, False])
def test_a_critic_is_credited_when_others_speak_of_the_accepted_draft_too(gate: bool) -> None:
    other = replace(step("critic", "other"), gate=gate)
    run = Chosen(plan_of(other, JUDGE, IMPROVE), "judge_a").say(1.0, 1.0)
    assert credits_in(run.events) == [("L/judge", "judge_a", True)]


def test_a_critic_is_credited_when_people_approve() -> None:
    body = (JUDGE, part_node(approve()), IMPROVE)
    run = Chosen(check_plan(Plan("p", (WRITE, Repeat("L", (score >= 0.9) & approved, 3, body)))), "judge_a")
    run.answer("write", value=0, text="one")
    run.answer("L[1]/judge", value=1.0, text="")
    waiting = run.state.approval
    assert waiting
    run.send(ApproveDraft("r", waiting.request.draft, "", "ann"))
    assert credits_in(run.events) == [("L/judge", "judge_a", True)]


@pytest.mark.parametrize("chief", [None, approve()])
def test_a_critic_is_credited_when_somebody_else_speaks_of_the_draft_after_the_loop(chief) -> None:
    after = step("critic", "chief") if chief is None else part_node(chief)
    plan = check_plan(Plan("p", (WRITE, Repeat("L", score >= 0.9, 3, (JUDGE, IMPROVE)), after)))
    run = Chosen(plan, "judge_a").say(1.0, 0.9)
    if run.state.approval:
        run.send(ApproveDraft("r", run.state.approval.request.draft, "", "ann"))
    assert isinstance(run.events[-1], RunEnded)
    assert credits_in(run.events) == [("L/judge", "judge_a", True)]


@pytest.mark.parametrize("others", [(), (step("critic", "chief"),)], ids=["alone", "with another"])
def test_a_critic_that_alone_ends_an_inner_loop_is_credited_only_if_the_outer_one_has_its_own(
    others: tuple[Step, ...],
) -> None:
    inner = Repeat("In", score >= 0.9, 2, (JUDGE, IMPROVE))
    plan = check_plan(Plan("p", (Repeat("Out", score >= 0.5, 2, (WRITE, inner, *others)),)))
    run = Chosen(plan, "judge_a").say(1.0, 0.6)
    assert isinstance(run.events[-1], RunEnded)
    assert run.events[-1].outcome == "accepted"
    assert credits_in(run.events) == ([("Out/In/judge", "judge_a", True)] if others else [])


def test_a_critic_whose_runs_are_not_accepted_fails_even_if_it_was_alone() -> None:
    run = Chosen(plan_of(JUDGE, IMPROVE, most=1), "judge_a", "judge_b").say(0.5, 0.6)
    assert credits_in(run.events) == [("L/judge", "judge_a", False), ("L/judge", "judge_b", False)]


# Forks and what-if


def told(run: Run, name: str = "r"):
    return recorded(name, [("coordinator", event) for event in run.events])


def test_a_fork_keeps_what_was_chosen_and_leaves_it_to_its_parent_to_credit() -> None:
    plan = plan_of(step("critic", "judge"), choice("refiner", "improve"), first=WRITERS)
    parent = Chosen(plan, "bad", "improve_a")
    parent.answer("write", value=0, text="one")
    parent.answer("L[1]/judge", value=0.5, text="")
    past = told(parent)
    start = StartRun("fork", plan, Brief("b"), "", (), Parent("r", len(past)))
    assert why_unfit(start, past) == ""
    begun = begin_fork(start, past, NOW, choose=chosen())
    again = asked_in(begun.events)[-1]
    assert (again.actor, again.choice) == ("improve_a", Choice("improve_a", _nothing("improve")))
    fork = Chosen(plan, "good")
    fork.state, fork.events = begun.state, list(begun.events)
    fork.say(1.0)
    assert credits_in(fork.events) == [("L/improve", "improve_a", True)]
    assert fold(fork.events) == fork.state


def test_what_if_follows_what_was_chosen() -> None:
    run = Chosen(plan_of(JUDGE, IMPROVE), "judge_b", "judge_b", "judge_a").say(0.5, 0.7, 1.0)
    found = what_if(told(run), Policy())
    assert found.parting is None
    assert found.imagined == found.recorded
    sooner = what_if(told(run), Policy(until=score >= 0.6))
    assert (sooner.imagined.outcome, sooner.imagined.score, sooner.saved) == ("accepted", 0.7, 2)


def test_what_if_takes_the_word_of_whom_a_draft_was_given_to_in_another_pass() -> None:
    """With fewer passes the last draft is judged in the closing look, by the critic that judged it in the next pass."""
    run = Chosen(plan_of(JUDGE, IMPROVE), *(f"judge_{arm}" for arm in "abaa")).say(0.5, 0.7, 0.6, 0.6)
    fewer = what_if(told(run), Policy(max_iterations=1))
    assert (fewer.imagined.outcome, fewer.imagined.score, fewer.ends_at) == ("exhausted", 0.7, None)


# What else knows of it


def test_a_worker_is_given_the_options_and_version_of_its_arm() -> None:
    options: dict[str, Option] = {"words": 9, "style": "plain"}
    arms = (Arm("llm", "small", {"model": "s", "style": "short"}, "v2"), Arm("llm", "large", {"model": "l"}))
    write = Step("generator", "", "write", options=options, choose=arms)
    plan = check_plan(Plan("p", (write,)))
    events = handle(RunState(), StartRun("r", plan, Brief("b")), NOW, choose=chosen("small")).events
    work: Work = RequestBuilder(recorded("r", [("c", event) for event in events])).command("r", asked_in(events)[0])
    assert (work.request.actor, work.request.version) == ("llm", "v2")
    assert work.request.options == {"words": 9, "style": "short", "model": "s"}


def test_what_an_arm_may_use_is_set_aside() -> None:
    arms = (Arm("a", "a", {"max_tokens": 70}), Arm("b", "b"))
    write = Step("generator", "", "write", options={"max_tokens": 30}, choose=arms)
    plan = check_plan(Workflow("p").then(write).budget(tokens=100).plan)
    for arm, tokens in (("a", 70), ("b", 30)):
        events = handle(RunState(), StartRun("r", plan, Brief("b")), NOW, choose=chosen(arm)).events
        assert asked_in(events)[0].reserved == Usage(tokens)


@critic
def kind(draft):
    """Finds everything good."""


@critic(name="strict")
def harsh(draft):
    """Finds nothing good."""


@generator
def author(brief):
    """Writes."""


@refiner
def editor(draft):
    """Improves."""


def test_each_arm_is_pinned_to_the_version_of_its_actor() -> None:
    flow = Workflow("p").then(author).repeat_until(score >= 1, max_iterations=1, body=[part(choose=[kind, harsh])])
    assert set(flow.actors) == {"author", "kind", "strict"}
    made = pin_versions(flow.plan, flow.actors.values())
    versions = {each.actor: each.version for _, each in steps_in(made.steps)}
    assert versions == {actor.name: actor.version for actor in (author, kind, harsh)}
    assert all(versions.values())
    assert unpin_versions(made) == flow.plan


# Building it, and what is refused


def part_node(made) -> Node:
    return made.node


def test_it_is_built_of_functions_names_and_steps() -> None:
    quick = part(editor, name="quick", options={"level": 1})
    made = part_node(part(choose=[quick, editor], timeout=60, options={"style": "plain"}))
    assert made == Step(
        "refiner",
        "",
        "refine",
        60,
        options={"style": "plain"},
        choose=(Arm("editor", "quick", {"level": 1}), Arm("editor", "editor")),
    )
    assert part_node(part(choose=["a", "b"], role="critic", name="judge")) == Step(
        "critic", "", "judge", choose=(Arm("a", "a"), Arm("b", "b"))
    )
    inside = parallel("P", part(choose=[kind, harsh]), step("critic", "other"))
    loop = repeat("L", until=score >= 1, max_iterations=1, body=[inside])
    assert {each.actor for _, each in steps_in([loop.node])} == {"kind", "strict", "other"}


NESTED = parallel("P", kind, harsh)


@pytest.mark.parametrize(
    ("members", "settings", "path", "fault"),
    [
        ([kind], {}, "critique", "choose names one actor; give at least two"),
        ([], {}, "choose", "it names no actor"),
        ([kind, kind], {}, "critique", "choose names 'kind' twice"),
        ([kind, part(kind, name="other")], {}, "critique", "choose: 'kind' and 'other' do the same"),
        ([kind, editor], {}, "kind", "choose has a critic and a refiner; choose among actors of one role"),
        ([kind, harsh], {"role": "refiner"}, "kind", "role is 'refiner', but it is a critic"),
        ([kind, NESTED], {}, "P", "choose takes actors and plain steps only; remove this one"),
        ([kind, approve()], {}, "approve", "choose takes actors and plain steps only; remove this one"),
        ([kind, part(harsh, gate=True)], {}, "strict", "choose: a gate asks the same of every draft"),
        (
            [kind, part(harsh, timeout=5)],
            {},
            "strict",
            "choose: timeout, queue_wait and retry are those of the whole step",
        ),
        ([kind, harsh], {"gate": True}, "critique", "choose: a gate asks the same of every draft"),
        ([kind, harsh], {"version": "1"}, "critique", "each actor has its own version; give it within choose"),
        (["a", "b"], {}, "'a'", "role is missing"),
        (["a", "b"], {"role": "publisher"}, "choice", "choose is for generators, critics and refiners"),
        (["a", "b c"], {"role": "critic"}, "'b c'", "name 'b c' cannot be used"),
        ([f"a{n}" for n in range(21)], {"role": "critic"}, "critique", "choose names 21 actors; 20 can be told apart"),
        ("ab", {"role": "critic"}, "'ab'", "choose takes a list of actors"),
        ([kind, 3], {}, "3", "this is not part of a workflow"),
    ],
)
def test_what_is_no_choice_is_refused_with_its_path(members, settings, path: str, fault: str) -> None:
    with pytest.raises(PlanError) as caught:
        part(choose=members, **settings)
    assert caught.value.path == path
    assert fault in caught.value.fault


def test_both_an_actor_and_a_choice_or_neither_are_refused() -> None:
    with pytest.raises(PlanError, match="names the actor 'kind' too; keep one"):
        part(kind, choose=[kind, harsh])
    with pytest.raises(PlanError, match="actor is missing"):
        part()


@pytest.mark.parametrize(
    ("choose", "fault"),
    [
        ([Arm("a", "a"), Arm("b", "b")], "give actors"),
        (("a", "b"), "give actors"),
        ((Arm("a", "a"), Arm("b c", "b")), "choose: actor 'b c' cannot be used"),
        ((Arm("a", "a"), Arm("b", "")), "choose: name is empty"),
        ((Arm("a", "a"), Arm("b", "b", version="no version!")), "choose: version"),
        ((Arm("a", "a"), Arm("b", "b", {"": 1})), "choose: with has the name"),
    ],
)
def test_a_plan_from_elsewhere_is_checked_as_well(choose, fault: str) -> None:
    with pytest.raises(PlanError) as caught:
        check_plan(Plan("p", (WRITE, Repeat("L", NEVER, 1, (Step("critic", "", "judge", choose=choose),)))))
    assert caught.value.path == "L/judge"
    assert fault in caught.value.fault


def test_an_unknown_role_is_refused() -> None:
    role: Role = "judge"  # type: ignore[assignment]
    with pytest.raises(PlanError, match="role is 'judge'"):
        check_plan(Plan("p", (Step(role, "", "x", choose=(Arm("a", "a"), Arm("b", "b"))),)))


def test_two_different_actors_of_one_name_are_refused() -> None:
    @critic(name="kind")
    def other(draft):
        """Another one."""

    with pytest.raises(ActorError, match="two different actors are named 'kind'"):
        part(choose=[kind, other])


def test_a_choice_is_the_first_where_nobody_has_a_say() -> None:
    assert first_arm("p", "s", ("b", "a")) == Choice("b")


def test_who_alone_spoke_for_a_draft_that_was_changed_afterwards_is_credited_with_nothing() -> None:
    after = step("refiner", "polish")
    run = Chosen(check_plan(Plan("p", (WRITE, Repeat("L", score >= 0.9, 3, (JUDGE,)), after))), "judge_a").say(0.95)
    last = run.events[-1]
    assert isinstance(last, RunEnded)
    assert (last.outcome, last.draft and last.draft.version) == ("accepted", 2)
    assert credits_in(run.events) == []


def test_a_record_tells_who_was_chosen_for_each_draft_then_who_was_chosen_last() -> None:
    """By the text at the same path; at another path by what the same step chose for that text."""
    asked = [
        StepRequested(
            f"L[{n}]/judge", "critic", f"judge_{arm}", 1, NOW, DraftRef(n, text), choice=Choice(f"judge_{arm}")
        )
        for n, (text, arm) in enumerate([("one", "a"), ("two", "b"), ("three", "a")], start=1)
    ]
    choose = recorded_choices([*asked, replace(asked[0], draft=DraftRef(4, "two"), choice=Choice("judge_c"))])
    arms = ("judge_a", "judge_b", "judge_c")

    def arm(path: str, text: str, among: Sequence[str] = arms) -> str:
        return choose(path, "L/judge", among, DraftRef(9, text)).arm

    assert arm("L[1]/judge", "one") == "judge_a"
    assert arm("L[2]/judge", "two") == arm("L[7]/judge", "two") == "judge_b"
    assert arm("L[1]/judge", "two") == "judge_c"
    assert arm("L[7]/judge", "unknown") == "judge_c"
    assert arm("L[2]/judge", "two", ("judge_a", "judge_c")) == "judge_a", "the first where it is one no more"
    assert choose("L[1]/judge", "M/judge", arms, None).arm == "judge_a"
