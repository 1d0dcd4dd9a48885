"""The checker of records finds issues that are not in their draft, and edits that do not make the next one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.projections.record_check.test_damage import JUDGE, PLAN, driven, nth, recorded

from redraft.events.messages.conditions import score
from redraft.events.messages.content import Edit, Issue, Mark, Refusal, new_draft
from redraft.events.messages.domain_events import DomainEvent, DraftCritiqued, DraftGenerated, DraftRefined, RunStarted
from redraft.events.messages.plan import Criterion, Repeat, Step
from redraft.events.messages.redaction import ERASED
from redraft.projections.record_check import check_events

PLAIN = driven(PLAN, [0.5, 0.95])
IMPROVE = Step("refiner", "improve", "improve", only_issues=True)
HELD = replace(PLAN, steps=(PLAN.steps[0], Repeat("L", score >= 0.9, 3, (JUDGE, IMPROVE)), PLAN.steps[2]))
ISSUE = Issue("dull", "text", (0, 4), id="one")


def found(*, issue: Issue = ISSUE, edits: tuple[Edit, ...] = (), refused: str = "one", held: bool = False) -> list[str]:
    """The codes of what is found in a run with this issue, and a revision by these edits."""
    told: list[DomainEvent] = []
    for event in PLAIN:
        match event:
            case RunStarted() if held:
                told.append(replace(event, plan=HELD))
            case DraftCritiqued(draft=draft) if draft.version == 1:
                told.append(replace(event, critique=replace(event.critique, issues=(issue,))))
            case DraftRefined():
                told.append(replace(event, edits=edits, refusals=(Refusal(refused, "no"),)))
            case _:
                told.append(event)
    return [each.code for each in check_events(recorded(told))]


BEFORE = nth(PLAIN, DraftGenerated)[1].draft.text
AFTER = nth(PLAIN, DraftRefined)[1].draft.text
RIGHT = (Edit(BEFORE, AFTER, ("one",)),)


def test_a_true_record_is_found_to_be_true() -> None:
    assert BEFORE.startswith("text")
    assert AFTER.startswith("text")
    assert found(edits=RIGHT) == []
    assert found(issue=replace(ISSUE, quote=BEFORE, span=(0, len(BEFORE))), held=True) == []


@pytest.mark.parametrize(
    "issue",
    [replace(ISSUE, span=(1, 5)), replace(ISSUE, span=None), replace(ISSUE, quote=""), replace(ISSUE, quote="texts")],
)
def test_an_issue_that_does_not_stand_where_it_says(issue: Issue) -> None:
    assert found(issue=issue) == ["issue-place"]


@pytest.mark.parametrize(
    "edits",
    [
        (Edit("nowhere", "x"),),
        (Edit("t", "x"),),
        (Edit("text", "txet"),),
        (Edit("text", "text"), Edit("ext", "ext")),
        (Edit("", "x"),),
        (replace(RIGHT[0], issues=("two",)),),
        (Edit(BEFORE, f"{AFTER}."),),
    ],
)
def test_edits_that_do_not_make_the_draft(edits: tuple[Edit, ...]) -> None:
    assert found(edits=edits) == ["edits"]


@pytest.mark.parametrize(
    ("quote", "codes"),
    [("", []), (" ", []), ("text", []), ("te xt", ["criterion-quote"]), ("texts", ["criterion-quote"])],
)
def test_a_criterion_that_quotes_what_is_not_in_the_draft(quote: str, codes: list[str]) -> None:
    judge = replace(JUDGE, criteria=(Criterion("tone"),))
    plan = replace(
        PLAN,
        steps=(
            PLAN.steps[0],
            Repeat("L", score >= 0.9, 3, (judge, replace(IMPROVE, only_issues=False))),
            PLAN.steps[2],
        ),
    )
    told: list[DomainEvent] = []
    for event in PLAIN:
        match event:
            case RunStarted():
                told.append(replace(event, plan=plan))
            case DraftCritiqued():
                mark = Mark("tone", event.critique.score, quote=quote if event.draft.version == 1 else "")
                told.append(replace(event, critique=replace(event.critique, criteria=(mark,))))
            case _:
                told.append(event)
    assert [each.code for each in check_events(recorded(told))] == codes


def test_a_refusal_of_an_issue_that_there_is_not() -> None:
    assert found(refused="two") == ["edits"]


def test_a_change_that_no_issue_names() -> None:
    assert found(held=True) == ["only-issues"]


def test_what_is_erased_is_not_compared() -> None:
    told = [
        replace(e, draft=replace(new_draft(e.draft.version, "x"), text=ERASED), edits=(Edit(ERASED, ERASED),))
        if isinstance(e, DraftRefined)
        else e
        for e in PLAIN
    ]
    assert "edits" not in [each.code for each in check_events(recorded(told))]
