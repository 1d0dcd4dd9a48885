"""Issues are found in their draft, keep their identity, and are lines of the critique too."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from redraft.actors.editing.issues import locate_issues
from redraft.events.errors import ContentError
from redraft.events.messages.content import Critique, Issue

TEXT = "Teh tide 🌊 comes\nin, and teh tide goes out."
SECOND = TEXT.rindex("tide")


def located(*issues: Issue, criteria: tuple[str, ...] = ()) -> Critique:
    return locate_issues(Critique(0.5, issues=issues), TEXT, criteria)


def test_an_issue_has_its_place_and_is_a_line_too() -> None:
    slip = Issue("misspelled", "Teh", criterion="spelling", severity="error", replacement="The")
    found = located(slip, Issue("say why", "tide  🌊 comes in"), Issue("no end"), criteria=("spelling",))
    assert [issue.span for issue in found.issues] == [(0, 3), (4, 19), None]
    assert [issue.quote for issue in found.issues] == ["Teh", "tide 🌊 comes\nin", ""]
    assert found.errors == ("“Teh”: misspelled",)
    assert found.suggestions == ("“tide 🌊 comes in”: say why", "no end")
    assert locate_issues(found, TEXT, ("spelling",)) == found


def test_an_issue_keeps_its_identity_while_its_words_stay() -> None:
    first, second = located(Issue("misspelled", "Teh")).issues[0], located(Issue("Misspelled ", "Teh")).issues[0]
    assert first.id == second.id
    moved = locate_issues(Critique(0.5, issues=(Issue("misspelled", "Teh"),)), f"So: {TEXT}", ()).issues[0]
    assert (moved.id, moved.span) == (first.id, (4, 7))
    assert (
        len({first.id, *(each.id for each in located(Issue("misspelled", "teh tide"), Issue("wrong", "Teh")).issues)})
        == 3
    )


def test_what_is_said_of_two_places_is_two_issues_and_said_twice_of_one_is_one() -> None:
    found = located(
        Issue("dull", "tide", (4, 8)), Issue("dull", "tide", (SECOND, SECOND + 4)), Issue("dull", "tide", (4, 8))
    )
    assert [issue.span for issue in found.issues] == [(4, 8), (SECOND, SECOND + 4)]
    assert len({issue.id for issue in found.issues}) == 2
    assert located(Issue("dull", id="7"), Issue("dull")).issues[0].id == "7"


def test_each_issue_counts_also_where_its_words_are_those_of_another() -> None:
    here, there = Issue("dull", "tide", (4, 8), severity="error"), Issue("dull", "tide", (SECOND, SECOND + 4))
    found = located(here, replace(there, severity="error"), Issue("dull", severity="error"), there)
    assert found.errors == ("“tide”: dull", "“tide”: dull", "dull")
    assert found.suggestions == ("“tide”: dull",)
    assert locate_issues(found, TEXT, ()) == found


@pytest.mark.parametrize("listed", [("dull",), ("dull", "dull")])
def test_a_line_that_the_critic_lists_itself_stands_for_one_issue(listed: tuple[str, ...]) -> None:
    two = tuple(Issue("dull", "tide", (at, at + 4), severity="error") for at in (4, SECOND))
    found = locate_issues(Critique(0.5, errors=listed, issues=two), TEXT, ())
    assert found.errors == (*listed, "“tide”: dull")[:2]
    assert locate_issues(found, TEXT, ()) == found


@pytest.mark.parametrize(
    ("issue", "fault"),
    [
        (Issue("dull", "ebb"), "quoted 'ebb', which is not in the draft"),
        (Issue("  ", "Teh"), "gave an issue without a text"),
        (Issue("dull", "Teh", (1, 4)), "quoted 'Teh', and at 1 to 4 stands 'eh '"),
        (Issue("dull", span=(40, 99)), "gave the place 40 to 99 in a draft of 43 characters"),
        (Issue("dull", span=(3, 3)), "gave the place 3 to 3"),
        (Issue("dull", "Teh", criterion="tnoe"), "of 'tnoe', a criterion that it does not declare; .*tone"),
        (Issue("dull", replacement="The"), "gave a replacement and no quote"),
        (Issue("dull", id="x" * 65), "an id of 65 characters"),
    ],
)
def test_an_issue_that_cannot_be_is_refused_with_the_reason(issue: Issue, fault: str) -> None:
    with pytest.raises(ContentError, match=fault):
        located(issue, criteria=("tone",))


def test_a_quote_of_spaces_alone_is_no_place() -> None:
    (found,) = located(Issue("dull", "  \n")).issues
    assert (found.quote, found.span) == ("", None)


def test_an_id_is_given_once() -> None:
    with pytest.raises(ContentError, match="gave the id '7' to two issues"):
        located(Issue("dull", id="7"), Issue("long", id="7"))
