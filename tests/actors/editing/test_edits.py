"""Edits make exactly the text that they say, and who checks records agrees with who makes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.test_deciding_properties import examples

from redraft.actors.editing.edits import apply_edits, check_only_issues, with_text
from redraft.actors.editing.places import changes_only
from redraft.events.errors import ContentError
from redraft.events.messages.content import Edit, Issue, Refusal, Revision
from redraft.projections.record_check.places import _left_alone, edits_fault

TEXT = "Teh tide comes in. The tide goes out.\r\nIt is the Moon.\n"


def test_edits_change_their_quotes_and_nothing_else() -> None:
    edits = [Edit("the Moon", "the Moon and the Sun"), Edit("Teh", "The"), Edit("goes out.\r\n", "ebbs.\r\n")]
    assert apply_edits(edits, TEXT) == "The tide comes in. The tide ebbs.\r\nIt is the Moon and the Sun.\n"


@pytest.mark.parametrize(
    ("edits", "fault"),
    [
        ([Edit("tide", "flood")], "gave an edit of 'tide', which is in the draft more than once"),
        ([Edit("Tide", "flood")], "gave an edit of 'Tide', which is not in the draft"),
        (
            [Edit("goes out.\n", "")],
            r"gave an edit of 'goes out\.\\n', which is in the draft with other spaces or line",
        ),
        ([Edit("The  tide", "")], "gave an edit of 'The  tide', which is in the draft with other spaces or line ends"),
        ([Edit("", "Now: ")], "gave an edit without a quote"),
        ([Edit("comes in", "x"), Edit("in. The", "y")], "overlap: of 'comes in' and of 'in. The'"),
        ([Edit("Teh", "The"), Edit("Teh", "A")], "overlap"),
        ([Edit(str(number), "") for number in range(1001)], "gave 1,001 edits; give at most 1,000"),
    ],
)
def test_edits_that_do_not_apply_are_refused_with_the_reason(edits: list[Edit], fault: str) -> None:
    with pytest.raises(ContentError, match=fault):
        apply_edits(edits, TEXT)
    assert edits_fault(edits, TEXT, TEXT)


def test_a_quote_whose_places_overlap_stands_there_twice() -> None:
    with pytest.raises(ContentError, match="more than once"):
        apply_edits([Edit("aa", "b")], "baaab")
    assert "2 times" in edits_fault([Edit("aa", "b")], "baaab", "bbab")


def test_an_edit_answers_the_issues_whose_place_its_quote_overlaps() -> None:
    issues = [
        Issue("misspelled", "Teh", (0, 3), id="slip"),
        Issue("dull", "tide comes", (4, 14), id="dull"),
        Issue("wide", TEXT, (0, len(TEXT)), id="wide"),
        Issue("refused", "Teh", (0, 3), id="refused"),
        Issue("elsewhere", "Moon", (50, 54), id="moon"),
        Issue("touched", " ", (3, 4), id="space"),
        Issue("nowhere", id="nowhere"),
    ]
    edits = (Edit("Teh", "The"), Edit("tide comes", "sea comes", ("wide",)))
    made = with_text(Revision(edits=edits, refusals=(Refusal("refused", "no"),)), TEXT, issues)
    assert [each.issues for each in made.edits] == [("slip",), ("wide", "dull")]
    assert with_text(Revision(edits=made.edits), TEXT, issues[:3]).edits == made.edits


def test_a_revision_names_only_issues_that_there_are_and_says_which_it_declines() -> None:
    issue = Issue("misspelled", "Teh", (0, 3), id="one")
    made = with_text(Revision(edits=(Edit("Teh", "The", ("one",)),)), TEXT, [issue])
    assert made.text.startswith("The tide comes in.")
    kept = with_text(Revision(refusals=(Refusal("one", "it is a name"),)), TEXT, [issue])
    assert (kept.text, kept.declined) == (TEXT, ("“Teh”: misspelled — it is a name",))
    with pytest.raises(ContentError, match="declined the issue 'one' without a reason; say why"):
        with_text(Revision(refusals=(Refusal("one", " "),)), TEXT, [issue])
    both = Revision(edits=(Edit("Teh", "The", ("one",)),), refusals=(Refusal("one", "it is a name"),))
    with pytest.raises(ContentError, match="declined the issue 'one' and answered it with an edit; do one of them"):
        with_text(both, TEXT, [issue])
    for said in (Revision(refusals=(Refusal("two", "no"),)), Revision(edits=(Edit("Teh", "The", ("two",)),))):
        with pytest.raises(ContentError, match="named the issue 'two', which the critique does not have"):
            with_text(said, TEXT, [issue])
    with pytest.raises(ContentError, match="a text and edits that do not make this text"):
        with_text(Revision("Other.", edits=(Edit("Teh", "The"),)), TEXT, [])


def test_only_what_an_issue_quotes_may_change() -> None:
    issues = [Issue("misspelled", "Teh", (0, 3)), Issue("dull", "goes out", (28, 36)), Issue("no end")]
    check_only_issues(TEXT, TEXT.replace("Teh", "The").replace("goes out", ""), issues)
    check_only_issues(TEXT, TEXT, [])
    for other in (TEXT.replace("Moon", "Sun"), TEXT + "More.", TEXT.replace("\r\n", "\n"), TEXT[:-1], "Teh"):
        with pytest.raises(ContentError, match="changed what no issue names"):
            check_only_issues(TEXT, other, issues)
    with pytest.raises(ContentError, match="changed what no issue names"):
        check_only_issues(TEXT, f" {TEXT}", [Issue("no end")])


letters = st.text("ab", max_size=12)


@examples
@given(
    st.text("ab", min_size=1, max_size=12),
    letters,
    st.lists(st.tuples(st.integers(0, 11), st.integers(1, 4)), max_size=3),
)
def test_the_checker_of_records_agrees_on_what_was_left_alone(
    before: str, after: str, places: list[tuple[int, int]]
) -> None:
    spans = [(start, min(start + length, len(before))) for start, length in places if start < len(before)]
    assert changes_only(spans, before, after) == _left_alone([Issue("x", span=span) for span in spans], before, after)


@examples
@given(st.text("abc", min_size=1, max_size=20), st.data())
def test_the_checker_of_records_agrees_on_edits(text: str, data: st.DataObject) -> None:
    quotes = st.text("abc", max_size=4)
    edits = data.draw(st.lists(st.builds(Edit, quotes, letters), min_size=1, max_size=3))
    try:
        made = apply_edits(edits, text)
    except ContentError:
        assert edits_fault(edits, text, text)
        return
    assert edits_fault(edits, text, made) == ""
    assert edits_fault(edits, text, f"{made}x") != ""
    assert changes_only(
        [(text.index(each.quote), text.index(each.quote) + len(each.quote)) for each in edits], text, made
    )
