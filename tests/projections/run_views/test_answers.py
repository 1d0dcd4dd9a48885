"""A diff says below each change which issues it answers."""

from __future__ import annotations

from collections.abc import Sequence

from tests.streams import recorded

from redraft.actors.editing.issues import locate_issues
from redraft.events.messages.content import Critique, Edit, Issue, new_draft
from redraft.events.messages.domain_events import DomainEvent, DraftCritiqued, DraftEdited, DraftGenerated, DraftRefined
from redraft.events.messages.envelope import Recorded
from redraft.projections.run_views.answers import Answers, named_between, with_answers
from redraft.projections.run_views.diff import diff, fold_unchanged

LINES = [f"line {number}" for number in range(12)]
FIRST = new_draft(1, "\n".join(["Teh tide", *LINES, "is calm", "the end"]))
SECOND = new_draft(2, "\n".join(["The tide", *LINES, "is calm", "the end"]))
THIRD = new_draft(3, "\n".join(["The tide", *LINES, "is wild", "a word", "the end", "more"]))
SLIP, DULL = Issue("misspelled", "Teh", id="slip"), Issue("dull", "is calm", id="dull")
SHORT, ODD = Issue("too short", id="short"), Issue("odd", "line 5", id="odd")


def judged(draft: int, text: str, *issues: Issue) -> DraftCritiqued:
    critique = locate_issues(Critique(0.5, issues=issues), text, ())
    return DraftCritiqued(f"L[{draft}]/judge", 1, new_draft(draft, text).ref, critique)


def told(*more: DomainEvent) -> Sequence[Recorded]:
    first = (DraftGenerated("write", 1, FIRST), judged(1, FIRST.text, SLIP, ODD))
    return recorded("one", [("x", each) for each in (*first, *more)])


def answered(events: Sequence[Recorded], before: str, after: str, a: int, b: int) -> list[list[str]]:
    """The ids of the issues that each changed stretch answers, and of each the line that comes before."""
    shown = list(with_answers(fold_unchanged(diff(before, after)), before, named_between(events, a, b)))
    return [[issue.id for issue in line.issues] for line in shown if isinstance(line, Answers)]


REFINED = DraftRefined("L[1]/improve", 1, FIRST.ref, SECOND)
AGAIN = DraftRefined(
    "L[2]/improve", 1, SECOND.ref, THIRD, edits=(Edit("calm\nthe end", "wild\na word\nthe end\nmore", ("short",)),)
)


def test_a_change_of_an_issues_place_answers_it() -> None:
    assert answered(told(REFINED), FIRST.text, SECOND.text, 1, 2) == [["slip"]]


def test_an_edit_answers_the_issues_that_it_names_too() -> None:
    events = told(REFINED, judged(2, SECOND.text, DULL, SHORT), AGAIN)
    assert answered(events, SECOND.text, THIRD.text, 2, 3) == [["dull", "short"], ["short"]]


def test_over_several_revisions_issues_of_drafts_between_count_where_they_stood_before() -> None:
    events = told(REFINED, judged(2, SECOND.text, DULL, SHORT), AGAIN)
    assert answered(events, FIRST.text, THIRD.text, 1, 3) == [["slip"], ["dull", "short"], ["short"]]


def test_lines_that_are_put_in_answer_what_stands_at_their_place() -> None:
    more = new_draft(2, FIRST.text + "\nmore")
    events = recorded(
        "one",
        [
            ("x", DraftGenerated("write", 1, FIRST)),
            ("x", judged(1, FIRST.text, Issue("say more", "the end", id="more"), SLIP)),
            ("ann", DraftEdited(more, FIRST.ref, "ann")),
        ],
    )
    assert answered(events, FIRST.text, more.text, 1, 2) == [["more"]]


def test_drafts_of_which_neither_was_made_from_the_other_are_compared_by_the_issues_of_the_first() -> None:
    events = told(DraftGenerated("other", 1, SECOND))
    assert answered(events, FIRST.text, SECOND.text, 1, 2) == [["slip"]]
    assert answered(events, SECOND.text, FIRST.text, 2, 1) == []
