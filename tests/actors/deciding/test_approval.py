"""People decide on drafts, and make drafts of their own."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given as given_any
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.properties.test_deciding_properties import NOW, RUN, Run, examples, step

from redraft.actors.deciding.evolve import fold
from redraft.actors.deciding.steering import why_void
from redraft.actors.plans.check import check_plan
from redraft.events.errors import PlanError
from redraft.events.messages.commands import (
    ApproveDraft,
    EditDraft,
    ExpireStep,
    GuideRun,
    Message,
    PauseRun,
    RejectDraft,
)
from redraft.events.messages.conditions import approved, elapsed, plateau, score
from redraft.events.messages.content import MAX_DRAFT_BYTES, DraftRef
from redraft.events.messages.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    DomainEvent,
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
    DraftPublished,
    DraftRefined,
    DraftRejected,
    IterationStarted,
    LoopEnded,
    RunEnded,
    StepRequested,
)
from redraft.events.messages.plan import Approve, Node, OnDeadline, Parallel, Plan, Repeat

WRITE, JUDGE = step("generator", "write"), step("critic", "judge")
IMPROVE, SAVE = step("refiner", "improve"), step("publisher", "save")
REFINE = Repeat("Refinement", score >= 0.9, 3, (JUDGE, IMPROVE))


def plan(*middle: Node) -> Plan:
    return check_plan(Plan("p", (WRITE, *middle, SAVE)))


def asking(people: Approve, *before: Node) -> Run:
    """A run that stands before people, with draft 1."""
    run = Run(plan(*(before or (REFINE,)), people))
    run.answer("write", value=0, text="one")
    run.answer(next(iter(run.state.open)), value=0.95, text="")
    return run


def in_loop(*after: Node, people: Approve | None = None, most: int = 3) -> Run:
    """A run in a loop that ends when people approve, standing before them with draft 1."""
    loop = Repeat("Review", approved, most, (REFINE, people or Approve("editor"), *after))
    return asking_in(loop)


def asking_in(loop: Repeat) -> Run:
    run = Run(plan(loop))
    run.answer("write", value=0, text="one")
    run.answer(next(iter(run.state.open)), value=0.95, text="")
    return run


def waiting(run: Run) -> DraftRef:
    assert run.state.approval is not None
    return run.state.approval.request.draft


def approve(run: Run, by: str = "ann", draft: DraftRef | None = None) -> tuple[DomainEvent, ...]:
    return run.send(ApproveDraft(RUN, draft or waiting(run), "good", by))


def reject(run: Run, by: str = "ann", feedback: str = "too long") -> tuple[DomainEvent, ...]:
    return run.send(RejectDraft(RUN, waiting(run), feedback, by))


def ended(run: Run) -> RunEnded:
    last = run.events[-1]
    assert isinstance(last, RunEnded)
    return last


def test_nothing_is_asked_for_until_people_have_approved() -> None:
    run = asking(Approve("editor", ("ann", "ben"), 2, 3600.0))
    assert run.events[-1] == ApprovalRequested("editor", waiting(run), NOW + timedelta(hours=1), ("ann", "ben"), 2)
    assert run.state.open == {}
    assert approve(run, "ann") == (DraftApproved("editor", waiting(run), "ann", "good"),)
    assert approve(run, "ann") == (), "nobody counts twice"
    assert approve(run, "eve") == (), "who is not named is not asked"
    granted, asked = approve(run, "ben")
    assert isinstance(granted, DraftApproved)
    assert granted.granted
    assert isinstance(asked, StepRequested)
    assert (asked.path, asked.draft) == ("save", granted.draft)


def test_an_approval_of_another_draft_counts_for_nothing() -> None:
    run = asking(Approve("editor"))
    known = waiting(run)
    assert approve(run, draft=DraftRef(known.version + 1, known.sha256)) == ()
    assert approve(run, draft=DraftRef(known.version, "0" * 64)) == ()


def test_a_rejection_outside_of_loops_ends_the_run_unpublished() -> None:
    run = asking(Approve("editor"))
    reject(run)
    assert (ended(run).outcome, ended(run).reason) == ("rejected", "ann rejected draft 1: too long")
    assert not any(isinstance(event, DraftPublished) for event in run.events)


def test_a_rejection_in_a_loop_is_advice_for_the_next_refinement_which_starts_from_that_draft() -> None:
    run = in_loop()
    reject(run)
    run.answer("Review[2]/Refinement[1]/judge", value=0.95, text="")
    asked = run.events[-1]
    assert isinstance(asked, StepRequested)
    assert asked.path == "Review[2]/Refinement[1]/improve", "the critic's score does not help a rejected draft"
    version = next(n for n, event in enumerate(run.events, 1) if isinstance(event, DraftRejected))
    assert asked.advice == (version,)
    run.answer(asked.path, value=0, text="two")
    run.answer("Review[2]/Refinement[2]/judge", value=0.92, text="")
    assert waiting(run).version == 2
    approve(run)
    run.answer("save", value=0, text="")
    assert ended(run).outcome == "accepted"
    assert [event.draft.version for event in run.events if isinstance(event, DraftPublished)] == [2]


def test_a_rejected_draft_keeps_the_score_that_critics_gave_it() -> None:
    body = (JUDGE, Approve("editor"), IMPROVE)
    asked = reject(asking_in(Repeat("Review", approved, 2, body)))[-1]
    assert isinstance(asked, StepRequested)
    assert (asked.path, asked.draft and asked.draft.version, asked.score) == ("Review[1]/improve", 1, 0.95)
    last = asking_in(Repeat("Review", approved, 1, body))
    reject(last)
    assert (ended(last).outcome, ended(last).score) == ("rejected", 0.95)


def test_a_rejected_draft_never_leaves_as_the_best_one() -> None:
    run = in_loop()
    reject(run)
    while run.state.approval is None and run.state.status == "running":
        run.answer(next(iter(run.state.open)), value=0.3, text=f"text {len(run.said)}")
    assert waiting(run).version > 1


def test_a_rejection_in_the_last_pass_ends_the_run() -> None:
    run = in_loop(most=1)
    reject(run)
    assert ended(run).outcome == "rejected"


def test_people_are_asked_only_about_a_draft_that_would_leave_if_they_approve_it() -> None:
    loop = Repeat("Review", (score >= 0.9) & approved, 2, (JUDGE, Approve("editor"), IMPROVE))
    run = Run(plan(loop))
    run.answer("write", value=0, text="one")
    run.answer("Review[1]/judge", value=0.5, text="", verdict=True)
    assert list(run.state.open) == ["Review[1]/improve"], "nor does a critic's own word end what people decide on"
    run.answer("Review[1]/improve", value=0, text="two")
    run.answer("Review[2]/judge", value=0.95, text="")
    approve(run)
    assert list(run.state.open) == ["save"]


def test_nothing_leaves_a_loop_in_which_people_decide_but_what_they_approved() -> None:
    loop = Repeat("Review", ((score >= 0.9) & approved) | plateau(0.2, 1), 9, (JUDGE, Approve("editor"), IMPROVE))
    run = Run(plan(loop))
    run.answer("write", value=0, text="one")
    while run.state.status == "running":
        run.answer(next(iter(run.state.open)), value=0.5, text=f"text {len(run.said)}")
    assert ended(run).outcome == "plateaued"
    assert not any(isinstance(event, LoopEnded | DraftPublished) for event in run.events)


@pytest.mark.parametrize(("then", "outcome"), [("approve", "accepted"), ("reject", "rejected"), ("fail", "failed")])
def test_what_happens_when_nobody_decides_in_time_is_what_the_plan_says(then: OnDeadline, outcome: str) -> None:
    run = asking(Approve("editor", deadline=60.0, on_deadline=then))
    assert run.send(ExpireStep(RUN, "editor", 1)) == (), "it is not yet time"
    run.now += timedelta(seconds=60)
    draft = waiting(run)
    assert run.send(ExpireStep(RUN, "editor", 1))[0] == ApprovalExpired("editor", draft, then)
    if then == "approve":
        run.answer("save", value=0, text="")
    assert ended(run).outcome == outcome
    assert any(isinstance(event, DraftPublished) for event in run.events) == (then == "approve")


def test_an_approval_counts_while_the_run_is_paused_and_nothing_is_asked_for() -> None:
    run = asking(Approve("editor"))
    run.send(PauseRun(RUN, by="ben"))
    assert [type(event) for event in approve(run)] == [DraftApproved]
    assert run.state.open == {}


def test_an_edit_voids_approvals_is_critiqued_by_the_critics_before_and_people_are_asked_again() -> None:
    run = asking(Approve("editor", ("ann", "ben"), 2))
    approve(run, "ann")
    old = waiting(run)
    edited, asked = run.send(EditDraft(RUN, old, "my own", "shorter", "ben", "k"))
    assert isinstance(edited, DraftEdited)
    assert (edited.draft.version, edited.before, edited.by) == (2, old, "ben")
    assert isinstance(asked, StepRequested)
    assert (asked.path, asked.draft) == ("Refinement[edit1]/judge", edited.draft.ref)
    assert approve(run, "ben", old) == (), "the old draft is not waited for any more"
    run.answer("Refinement[edit1]/judge", value=0.2, text="")
    assert waiting(run) == edited.draft.ref
    assert len(approve(run, "ben")) == 1, "the approval of the old draft does not count for the new one"
    approve(run, "ann")
    run.answer("save", value=0, text="")
    assert [event.draft for event in run.events if isinstance(event, DraftPublished)] == [edited.draft.ref]


def test_critics_outside_of_loops_look_at_an_edit_too() -> None:
    panel = Parallel("Panel", (step("critic", "a"), step("critic", "b")))
    run = Run(plan(JUDGE, panel, Approve("editor")))
    run.answer("write", value=0, text="one")
    for _ in range(3):
        run.answer(next(iter(run.state.open)), value=0.9, text="")
    run.send(EditDraft(RUN, waiting(run), "mine", "", "ann"))
    paths = []
    while run.state.approval is None:
        paths.append(next(iter(run.state.open)))
        run.answer(paths[-1], value=0.4, text="")
    assert paths == ["judge[edit1]", "Panel[edit1]/a", "Panel[edit1]/b"]
    assert waiting(run).version == 2


def before_a_gate_that_refused() -> Run:
    run = Run(plan(replace(JUDGE, gate=True), Approve("editor")))
    run.answer("write", value=0, text="one")
    run.answer("judge", value=0.4, text="")
    return run


def test_people_do_not_overrule_a_gate_that_stands_outside_of_loops() -> None:
    run = before_a_gate_that_refused()
    approve(run)
    assert (ended(run).outcome, ended(run).reason) == ("rejected", "gate judge did not pass draft 1")
    assert not any(isinstance(event, StepRequested) and event.role == "publisher" for event in run.events)


def test_but_they_can_mend_the_draft() -> None:
    run = before_a_gate_that_refused()
    run.send(EditDraft(RUN, waiting(run), "mine", "", "ann"))
    run.answer("judge[edit1]", value=1, text="")
    approve(run)
    run.answer("save", value=0, text="")
    assert ended(run).outcome == "accepted"


def test_an_edit_in_a_loop_begins_the_next_pass_and_gives_up_what_was_under_way() -> None:
    run = Run(plan(REFINE))
    run.answer("write", value=0, text="one")
    run.answer("Refinement[1]/judge", value=0.5, text="")
    edited, started, asked = run.send(EditDraft(RUN, DraftRef(1, ""), "mine", "", "ann"))
    assert isinstance(edited, DraftEdited)
    assert isinstance(started, IterationStarted)
    assert isinstance(asked, StepRequested)
    assert (asked.path, asked.draft) == ("Refinement[2]/judge", edited.draft.ref)
    assert list(run.state.open) == ["Refinement[2]/judge"]
    run.answer("Refinement[2]/judge", value=0.95, text="")
    assert list(run.state.open) == ["save"]


def test_an_edit_in_the_last_pass_is_judged_once_before_the_loop_ends() -> None:
    run = Run(plan(Repeat("Refinement", score >= 0.9, 1, (JUDGE, IMPROVE))))
    run.answer("write", value=0, text="one")
    run.answer("Refinement[1]/judge", value=0.5, text="")
    run.send(EditDraft(RUN, DraftRef(1, ""), "mine", "", "ann"))
    run.answer("Refinement[closing]/judge", value=0.7, text="")
    assert run.state.open["save"].draft == DraftRef(2, run.state.open["save"].draft.sha256)  # type: ignore[union-attr]


def test_an_edit_that_cannot_be_taken_up_changes_nothing() -> None:
    run = Run(plan(REFINE))
    assert run.send(EditDraft(RUN, DraftRef(0, ""), "mine", "", "ann")) == (), "there is no draft yet"
    run.answer("write", value=0, text="one")
    for text in ("one", " ", "\ud800"):
        assert run.send(EditDraft(RUN, DraftRef(1, ""), text, "", "ann")) == ()
    run.answer("Refinement[1]/judge", value=0.95, text="")
    assert run.send(EditDraft(RUN, DraftRef(1, ""), "mine", "", "ann")) == (), "it is being published"


@pytest.mark.parametrize(
    ("node", "fault"),
    [
        (Approve("editor", ("ann", "ann")), "name each of them once"),
        (Approve("editor", ("ann", " ")), "none of them empty"),
        (Approve("editor", ("ann",), 2), "quorum is 2, and 1 may approve"),
        (Approve("editor", quorum=0), "quorum is 0"),
        (Approve("editor", deadline=0), "deadline is 0"),
        (Approve("editor", deadline=91 * 86400), "at most 90 days"),
        (Approve("editor", on_deadline="wait"), "write approve or reject or fail"),  # type: ignore[arg-type]
        (Repeat("R", score >= 0.9, 2, (JUDGE, Approve("editor"))), "until does not mention approved"),
        (Repeat("R", approved, 2, (JUDGE, IMPROVE, Approve("editor"))), "nothing judges the draft before people"),
    ],
)
def test_what_cannot_be_decided_on_is_refused(node: Node, fault: str) -> None:
    with pytest.raises(PlanError, match=fault):
        plan(REFINE, node)


def test_a_draft_that_is_changed_after_it_was_approved_is_not_published() -> None:
    with pytest.raises(PlanError, match="save: a step before this one changes what people approved"):
        plan(REFINE, Approve("editor"), Repeat("More", score >= 1.0, 2, (JUDGE, IMPROVE)))
    plan(REFINE, Approve("one"), Repeat("More", score >= 1.0, 2, (JUDGE, IMPROVE)), Approve("two"))


PLANS = (
    (REFINE, Approve("editor", ("ann", "ben"), 2)),
    (Repeat("Review", approved, 3, (REFINE, Approve("editor"))),),
    (Repeat("Review", (score >= 0.7) & approved, 3, (JUDGE, Approve("editor"), Approve("legal", ("ben",)), IMPROVE)),),
    (JUDGE, Approve("first"), Repeat("Review", approved | plateau(0.1, 1), 2, (IMPROVE, JUDGE, Approve("editor")))),
)


@examples
@given_any(st.sampled_from(PLANS), st.sampled_from(["fail", "publish_best"]), st.data())
def test_only_what_people_approved_is_published_whatever_they_do(middle, on_failure, data: st.DataObject) -> None:
    run = Run(check_plan(Plan("p", (WRITE, *middle, SAVE), on_failure)))
    for number in range(400):
        if run.state.status != "running":
            break
        run.now += timedelta(seconds=1)
        message = data.draw(st.sampled_from(_messages(run, number)))
        if message is not None:
            run.send(message)
        elif run.state.open:
            path = data.draw(st.sampled_from(sorted(run.state.open)))
            if data.draw(st.integers(0, 19)) == 19:
                run.fail(path)
            else:
                run.answer(path, value=data.draw(st.sampled_from([0.95, 0.6, 0.2])), text=f"text {number}")
        elif run.state.approval:
            approve(run, "ann" if number % 2 else "ben")
    assert fold(run.events) == run.state
    if run.state.status == "ended":
        assert [type(event) for event in run.events].count(RunEnded) == 1
    for place, event in enumerate(run.events):
        if isinstance(event, DraftPublished):
            before = run.events[:place]
            assert event.draft in [each.draft for each in before if isinstance(each, DraftApproved) and each.granted]
            assert event.draft in [each.draft for each in before if isinstance(each, DraftCritiqued)]
            changed = [n for n, each in enumerate(before) if isinstance(each, DraftRefined | DraftEdited)]
            granted = [n for n, each in enumerate(before) if isinstance(each, DraftApproved) and each.granted]
            assert not changed or max(granted) > max(changed), "what was approved was changed since"


def _messages(run: Run, number: int) -> list[Message | None]:
    """What people may say now; None stands for the workers' turn."""
    known = run.state.current.ref if run.state.current else DraftRef(1, "")
    asked = run.state.approval.request if run.state.approval else None
    said: list[Message | None] = [None, None, None, None, GuideRun(RUN, "shorter", by="ann")]
    said.append(EditDraft(RUN, known, f"mine {number}", "", "ann"))
    if asked:
        said += [ApproveDraft(RUN, asked.draft, "", by) for by in ("ann", "ben")]
        said += [RejectDraft(RUN, asked.draft, "no", "ben"), ExpireStep(RUN, asked.path, 1)]
    else:
        said.append(ApproveDraft(RUN, known, "", "ann"))
    return said


def test_after_a_rejection_the_loop_goes_on_though_a_limit_was_reached_while_people_decided() -> None:
    run = asking_in(Repeat("Review", approved | (elapsed > 3600), 3, (REFINE, Approve("editor"))))
    run.now += timedelta(hours=2)
    events = reject(run)
    assert [type(event) for event in events[:2]] == [DraftRejected, IterationStarted]


def test_a_second_edit_is_looked_at_too() -> None:
    run = asking(Approve("editor"))
    for number, text in enumerate(("two", "three"), start=2):
        run.send(EditDraft(RUN, waiting(run), text, "ann"))
        (path,) = run.state.open
        assert path == f"Refinement[edit{number - 1}]/judge"
        run.answer(path, value=0.7, text="")
        assert waiting(run).version == number


def test_a_critics_yes_to_the_last_draft_accepts_nothing_where_people_decide() -> None:
    loop = Repeat("Review", approved & (score >= 0.9), 1, (JUDGE, Approve("editor"), IMPROVE))
    run = Run(plan(loop))
    run.answer("write", value=0, text="one")
    run.answer("Review[1]/judge", value=0.5, text="")
    run.answer("Review[1]/improve", value=0, text="two")
    run.answer("Review[closing]/judge", value=0.95, text="", verdict=True)
    assert ended(run).outcome != "accepted"


FIRST, SECOND = Approve("first"), Approve("second")


def test_one_word_said_twice_counts_for_one_of_two_steps_about_one_draft() -> None:
    run = Run(plan(REFINE, FIRST, SECOND))
    run.answer("write", value=0, text="one")
    run.answer(next(iter(run.state.open)), value=0.95, text="")
    draft = waiting(run)
    assert approve(run, "ann", draft)
    for word in (ApproveDraft(RUN, draft, "good", "ann"), RejectDraft(RUN, draft, "no", "ann")):
        assert "name this step" in why_void(run.state, word, MAX_DRAFT_BYTES)
        assert run.send(word) == ()
    late = ApproveDraft(RUN, draft, "good", "ann", step="first")
    assert why_void(run.state, late, MAX_DRAFT_BYTES) == "first asks no more; second does, also about draft 1"
    assert run.send(late) == ()
    assert any(isinstance(event, DraftApproved) for event in run.send(replace(late, step="second")))


def test_an_edit_of_the_latest_draft_does_not_take_the_place_of_another() -> None:
    run = asking(FIRST)
    draft = waiting(run)
    first, second = (EditDraft(RUN, draft, text, by=by, latest=True) for text, by in (("A", "ann"), ("B", "ben")))
    assert run.send(first)
    run.answer(next(iter(run.state.open)), value=0.95, text="")
    assert why_void(run.state, second, MAX_DRAFT_BYTES).startswith("draft 2 was made after draft 1")
    assert run.send(second) == ()
    assert run.send(replace(second, latest=False)), "who names an older draft on purpose may go back to it"
