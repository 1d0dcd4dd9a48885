"""What the ninth rules mend: inner loops are worked off before their loop ends, and no edit leaves a loop unjudged."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.actors.deciding.test_rules_two import IMPROVE, JUDGE, OTHER, WRITE, begun, play, played
from tests.properties.test_deciding_properties import NOW, RUN, Run, step
from tests.streams import recorded

from redraft.actors.deciding.forking import begin_fork
from redraft.actors.deciding.steering import why_void
from redraft.events.messages.commands import Completed, EditDraft, StartRun
from redraft.events.messages.conditions import Condition, elapsed, outputs, score, state
from redraft.events.messages.content import MAX_DRAFT_BYTES, Brief, DraftRef, new_draft
from redraft.events.messages.domain_events import DraftEdited, LoopEnded, Parent
from redraft.events.messages.plan import Approve, Node, Parallel, Plan, Repeat, Step
from redraft.projections.record_check.check import check_events

INNER = Repeat("Inner", score >= 0.8, 2, (JUDGE, IMPROVE))
AGAIN = step("refiner", "again")
JUDGED = Parallel("Best", (step("refiner", "one"), step("refiner", "two")), judge=OTHER)
CHOSEN = Repeat("Chosen", score >= 0.9, 2, (JUDGED,))
WHEN = "edit a draft "


def is_sound(run: Run) -> bool:
    return check_events(recorded(RUN, [("somebody", event) for event in run.events])) == ()


def ended_loops(run: Run) -> list[str]:
    return [event.path for event in run.events if isinstance(event, LoopEnded)]


@pytest.mark.parametrize("until", [outputs >= 1, score >= 0.8])
@pytest.mark.parametrize(("rules", "ended"), [(9, ["Outer[1]/First"]), (8, ["Outer[1]/First", "Outer"])])
def test_a_loop_does_not_end_before_the_last_of_its_inner_loops(rules: int, ended: list[str], until: Condition) -> None:
    first = Repeat("First", score >= 0.8, 2, (OTHER, AGAIN))
    run = played(Plan("p", (Repeat("Outer", until, 3, (WRITE, first, INNER)),)), "one", 0.9, rules=rules)
    assert ended_loops(run) == ended
    if rules == 9:
        assert list(run.state.open) == ["Outer[1]/Inner[1]/judge"]
        play(run, 0.9)
        assert ended_loops(run) == ["Outer[1]/First", "Outer[1]/Inner", "Outer"]
    assert is_sound(run)


UNJUDGED = [
    pytest.param((AGAIN, INNER), outputs >= 2, f"{WHEN}while Inner has it, or once people are asked", id="critics"),
    pytest.param((JUDGED,), score >= 0.9, f"{WHEN}once people are asked", id="a-judge-alone"),
    pytest.param((AGAIN, CHOSEN), elapsed >= 60, f"{WHEN}once people are asked", id="a-judge-inside"),
]


@pytest.mark.parametrize(("body", "until", "remedy"), UNJUDGED)
def test_an_edit_that_nobody_would_judge_is_refused_with_the_reason(
    body: tuple[Node, ...], until: Condition, remedy: str
) -> None:
    run = played(Plan("p", (WRITE, Repeat("Outer", until, 1, body))), "one", rules=9)
    said = EditDraft(RUN, DraftRef(1, new_draft(1, "one").sha256), "mine", by="ann")
    assert why_void(run.state, said, MAX_DRAFT_BYTES) == f"no critic in Outer itself would judge it; {remedy}"
    assert run.send(said) == ()


def test_an_edit_is_judged_where_an_inner_loop_has_the_draft() -> None:
    run = played(Plan("p", (WRITE, Repeat("Outer", outputs >= 2, 2, (AGAIN, INNER)))), "one", "two", rules=9)
    (edited, *_) = run.send(EditDraft(RUN, DraftRef(2, new_draft(2, "two").sha256), "mine", by="ann"))
    assert isinstance(edited, DraftEdited)
    assert list(run.state.open) == ["Outer[1]/Inner[2]/judge"]


def test_where_drafts_need_no_judge_an_edit_is_taken() -> None:
    run = played(Plan("p", (WRITE, Repeat("Outer", elapsed >= 60, 2, (AGAIN,)))), "one", rules=9)
    assert run.send(EditDraft(RUN, DraftRef(1, new_draft(1, "one").sha256), "mine", by="ann")) != ()


def test_the_checker_names_an_edit_that_nobody_would_judge() -> None:
    """As an earlier release recorded it, in a run of today's rules."""
    run = begun(Plan("p", (WRITE, Repeat("Outer", outputs >= 2, 1, (AGAIN, INNER)))), rules=9)
    run.answer("write", value=0, text="one")
    edited = DraftEdited(new_draft(2, "mine"), DraftRef(1, new_draft(1, "one").sha256), "ann")
    [fault] = check_events(recorded(RUN, [("somebody", event) for event in (*run.events, edited)]))
    assert "in which nobody would judge it" in fault.message


def test_a_fork_repeats_an_edit_of_its_parent_also_with_a_condition_under_which_it_would_be_refused() -> None:
    plan = Plan("p", (WRITE, Repeat("Outer", elapsed >= 60, 2, (JUDGED,))))
    run = played(plan, "one", rules=9)
    assert run.send(EditDraft(RUN, DraftRef(1, new_draft(1, "one").sha256), "mine", by="ann"))
    past = recorded(RUN, [("somebody", event) for event in run.events])
    changed = replace(plan, steps=(WRITE, replace(plan.steps[1], until=score >= 0.9)))
    start = StartRun("fork", changed, Brief("brief"), parent=Parent(RUN, len(past)))
    first, *rest = recorded("fork", [("somebody", event) for event in begin_fork(start, past, NOW).events])
    repeated = [replace(event, repeats=of.id) for event, of in zip(rest, past[1:], strict=False)]
    assert check_events([first, *repeated, *rest[len(repeated) :]]) == ()


FIRST = Repeat("First", score >= 0.8, 2, (OTHER, AGAIN))
GATE = Step("critic", "gate", "gate", gate=True)
COUNT = Repeat("Count", state.n >= 1, 2, (step("step", "count"),))
ASK = Approve("editor")


def asked(*before: Node) -> Run:
    """A run of these nodes, whose critics and steps are content, as it stands before people."""
    run = begun(Plan("p", (WRITE, *before, ASK, step("publisher", "save"))), rules=9)
    while not run.state.approval:
        path, opened = next(iter(run.state.open.items()))
        if opened.step.role == "step":
            run.send(Completed(RUN, path, 1, {"n": 1}))
        else:
            run.answer(path, value=0.9 if opened.step.role == "critic" and not opened.step.gate else 1.0, text="one")
    return run


def edit(run: Run) -> EditDraft:
    assert run.state.approval is not None
    return EditDraft(RUN, run.state.approval.request.draft, "mine", by="ann")


@pytest.mark.parametrize(
    ("before", "looks"),
    [
        pytest.param((Repeat("Loop", score >= 0.8, 2, (GATE, JUDGE, IMPROVE)), COUNT), ["Loop[edit1]/gate"], id="loop"),
        pytest.param((GATE, JUDGE, COUNT), ["gate[edit1]"], id="row"),
        pytest.param((FIRST, step("generator", "anew"), INNER), ["Inner[edit1]/judge"], id="new"),
    ],
)
def test_all_who_judged_the_draft_before_people_judge_an_edit(before: tuple[Node, ...], looks: list[str]) -> None:
    run = asked(*before)
    run.send(edit(run))
    assert list(run.state.open) == looks
    assert is_sound(run)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param((GATE, Repeat("Plain", score >= 0.8, 2, (JUDGE,))), id="gate-and-loop"),
        pytest.param((Repeat("Outer", outputs >= 1, 2, (AGAIN, INNER)),), id="critics-inside"),
    ],
)
def test_an_edit_that_not_all_of_them_would_judge_is_refused_with_the_reason(before: tuple[Node, ...]) -> None:
    run = asked(*before)
    assert why_void(run.state, edit(run), MAX_DRAFT_BYTES).startswith(
        "not all who judged this draft would judge an edit"
    )
    assert run.send(edit(run)) == ()
    edited = DraftEdited(new_draft(run.state.drafts + 1, "mine"), edit(run).before, "ann")
    [fault, *_] = check_events(recorded(RUN, [("somebody", event) for event in (*run.events, edited)]))
    assert "not all who judged the draft before would judge" in fault.message
