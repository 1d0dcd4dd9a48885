from __future__ import annotations

import msgspec
from tests.streams import START, recorded

from redraft.events.messages.conditions import State
from redraft.events.messages.content import Brief, Critique, DraftRef, new_draft
from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftCritiqued,
    DraftGenerated,
    IterationStarted,
    LoopEnded,
    RunStarted,
    StateChanged,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.plan import Plan, Repeat, StateSpec, Step
from redraft.events.messages.redaction import ERASED
from redraft.projections.run_views.narrative import narrate
from redraft.projections.run_views.sentences import history
from redraft.projections.run_views.state import ValueDifference, differences, state_at
from redraft.projections.run_views.tree import steps, tree
from redraft.projections.run_views.tree_model import Loop

DRAFT = new_draft(1, "The moon pulls the sea.")
PLAN = Plan(
    "article",
    (
        Step("step", "research", "research"),
        Step("generator", "write", "write"),
        Repeat("Tests", State("tests_pass"), 3, (Step("step", "run_tests", "run_tests"),)),
    ),
    state=StateSpec(defaults={"audience": "adults", "limit": 3}),
)

TOLD: list[tuple[str, DomainEvent]] = [
    ("redraft run", RunStarted(PLAN, Brief("Tides", state={"audience": "children"}), START)),
    ("coordinator", StepRequested("research", "step", "research", 1, START)),
    ("research", StateChanged("research", 1, {"sources": ["tides.org"], "limit": 5})),
    ("coordinator", StepRequested("write", "generator", "write", 1, START)),
    ("write", DraftGenerated("write", 1, DRAFT, state={"words": 5})),
    ("coordinator", IterationStarted("Tests", 1)),
    ("coordinator", StepRequested("Tests[1]/run_tests", "step", "run_tests", 1, START, draft=DRAFT.ref)),
    ("run_tests", StateChanged("Tests[1]/run_tests", 1, {"tests_pass": True})),
    ("coordinator", LoopEnded("Tests", "accepted", "state.tests_pass holds", 1, DRAFT.ref)),
]
RUN = recorded("r", TOLD)


def test_the_state_begins_with_the_plan_then_the_brief_and_answers_replace_values():
    assert state_at(RUN, 1).state == {"audience": "children", "limit": 3}
    assert state_at(RUN, 3).state == {"audience": "children", "limit": 5, "sources": ["tides.org"]}
    assert state_at(RUN).state == {
        "audience": "children",
        "limit": 5,
        "sources": ["tides.org"],
        "words": 5,
        "tests_pass": True,
    }


def test_each_change_names_its_event_its_author_and_its_step():
    found = state_at(RUN)
    assert [(each.version, each.by, each.path, [*each.state]) for each in found.changes] == [
        (1, "the plan", "", ["audience", "limit"]),
        (1, "the brief", "", ["audience"]),
        (3, "step research", "research", ["sources", "limit"]),
        (5, "generator write", "write", ["words"]),
        (8, "step run_tests", "Tests[1]/run_tests", ["tests_pass"]),
    ]
    assert {name: change.version for name, change in found.last_changes.items()} == {
        "audience": 1,
        "limit": 3,
        "sources": 3,
        "words": 5,
        "tests_pass": 8,
    }


def test_what_a_fork_was_begun_with_is_its_authors():
    forked = recorded("f", [*TOLD[:3], ("redraft fork", StateChanged("", 0, {"limit": 9}, by="ann"))])
    assert state_at(forked).state["limit"] == 9
    last = state_at(forked).last_changes["limit"]
    assert (last.by, last.path, last.version) == ("ann", "", 4)
    assert history(forked)[-1].sentence == "ann set limit = 9"


def test_a_verdict_that_came_too_late_and_a_failure_change_nothing():
    told = [
        *TOLD[:5],
        ("judge", VerdictLate("judge", 1, DRAFT.ref, Critique(0.5))),
        ("judge", StepFailed("judge", 1, "invalid", "it changes a value that the plan does not have")),
    ]
    assert state_at(recorded("r", told)).state == state_at(RUN, 5).state


def test_the_values_of_a_run_that_was_erased_are_gone():
    told = [
        ("redraft run", RunStarted(PLAN, Brief(ERASED, state={"erased": True}), START)),
        ("research", StateChanged("research", 1, {"erased": True})),
    ]
    found = state_at(recorded("r", told))
    assert (found.state, found.changes, found.erased) == ({}, (), True)
    assert history(recorded("r", told))[-1].sentence == "research set values that are erased"


def test_a_step_is_asked_to_work_and_says_what_it_changed():
    told = [line.sentence for line in history(RUN)]
    assert told[1] == "step research was asked to work"
    assert told[2] == 'step research set sources = ["tides.org"], limit = 5'
    assert told[4] == "generator write wrote draft 1: 5 words; it set words = 5"
    assert told[6] == "step run_tests was asked to work on draft 1"
    unchanged = recorded("r", [*TOLD[:2], ("research", StateChanged("research", 1))])
    assert history(unchanged)[-1].sentence == "step research answered, and changed no value"


def test_the_narrative_says_what_the_state_begins_with():
    first = next(narrate(RUN, lambda loop: "state.tests_pass"))
    assert 'the state begins with audience = "children", limit = 3' in first.details


def test_long_values_and_many_of_them_are_cut_in_a_line():
    values = {f"v{number}": "x" * 1000 for number in range(7)}
    told = history(recorded("r", [*TOLD[:2], ("research", StateChanged("research", 1, values))]))[-1].sentence
    assert told.endswith("…, 2 more values")
    assert len(told) < 500


def test_a_value_shows_no_control_characters():
    told = history(recorded("r", [*TOLD[:2], ("research", StateChanged("research", 1, {"a": "x\x1b[31m\u202e"}))]))
    assert "\x1b" not in told[-1].sentence
    assert "\u202e" not in told[-1].sentence


def test_a_step_in_the_tree_has_what_it_changed_and_the_draft_that_it_was_asked_about():
    grown = tree(RUN)
    leaves = {leaf.path: leaf for leaf in steps(grown.branches)}
    tested = leaves["Tests[1]/run_tests"]
    assert (tested.role, tested.status, tested.changed, tested.draft) == ("step", "done", "tests_pass = true", 1)
    assert leaves["research"].draft is None
    assert leaves["write"].changed == "words = 5"
    assert grown.state.startswith('audience = "children", limit = 5')


def test_a_loop_in_which_no_critic_judges_says_that_it_has_no_score():
    loops = [each for each in tree(RUN).branches if isinstance(each, Loop)]
    assert [each.unjudged for each in loops] == [True]
    condition = Step("critic", "good_enough", "good_enough", condition=True)
    critic = Step("critic", "judge", "judge")
    for body, unjudged in (((condition,), True), ((condition, critic), False)):
        plan = msgspec.structs.replace(PLAN, steps=(Repeat("Tests", State("tests_pass"), 3, body),))
        run = recorded("r", [("run", RunStarted(plan, Brief("x"), START)), ("c", IterationStarted("Tests", 1))])
        (loop,) = tree(run).branches
        assert isinstance(loop, Loop)
        assert loop.unjudged is unjudged


def test_two_states_differ_in_values_and_in_names():
    found = differences({"a": 1, "b": [1], "c": None, "d": 1}, {"a": True, "b": [1], "c": None, "e": "x"})
    assert found == (
        ValueDifference("a", 1, True),
        ValueDifference("d", 1),
        ValueDifference("e", after="x"),
    )
    assert msgspec.to_builtins(found[1]) == {"name": "d", "before": 1}


def test_a_critique_beside_changes_is_judged_as_ever():
    told = [
        *TOLD[:5],
        ("coordinator", StepRequested("judge", "critic", "judge", 1, START, draft=DRAFT.ref)),
        ("judge", DraftCritiqued("judge", 1, DraftRef(1, DRAFT.sha256), Critique(0.7), state={"longest": 41})),
    ]
    run = recorded("r", told)
    assert history(run)[-1].sentence == "critic judge scored draft 1 at 0.70; it set longest = 41"
    leaf = next(each for each in steps(tree(run).branches) if each.name == "judge")
    assert (leaf.score, leaf.changed) == (0.7, "longest = 41")


def test_a_condition_says_whether_it_holds_and_why_not():
    def told(measure: float, *why: str) -> tuple[str, str]:
        verdict = Critique(0.0, scored=False, critic="short", measures={"short": measure}, weaknesses=why)
        run = recorded(
            "r",
            [
                *TOLD[:5],
                ("coordinator", StepRequested("short", "critic", "short", 1, START, draft=DRAFT.ref)),
                ("short", DraftCritiqued("short", 1, DRAFT.ref, verdict)),
            ],
        )
        return history(run)[-1].sentence, next(each for each in steps(tree(run).branches) if each.name == "short").marks

    assert told(1) == ("of draft 1 the condition short holds", "holds")
    reason = "does not hold: it is too long"
    assert told(0, "it is too long") == (f"of draft 1 the condition short {reason}", reason)
    assert told(7) == ("critic short judged draft 1 (short 7) and gave no score", "short 7")
