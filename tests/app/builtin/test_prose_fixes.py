"""What is put right, what is only spoken of, and what is left alone."""

from __future__ import annotations

import pytest

from redraft.app.builtin.prose.actors import SUGGESTIONS, judge, list_findings, read
from redraft.app.builtin.prose.masking import Finding
from redraft.app.builtin.prose.spelling.lexicon import read_lexicon
from redraft.app.builtin.prose.style import FUNCTION_WORDS, PLAIN, PLAINER


def rewritten(text: str) -> str:
    return read(text, rewrite=True, headings=True).rewritten


def told(text: str) -> list[tuple[str, str, str]]:
    return [(each.fault, each.found, each.instead) for each in judge(read(text)).findings]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("This is the end of teh day.", "This is the end of the day."),
        ("He recieves it from us.", "He receives it from us."),
        ("It works atleast once a day.", "It works at least once a day."),
        ("It did\u2019nt work, and it did'nt.", "It didn\u2019t work, and it didn't."),
        ("It is a well-definied self-containted thing.", "It is a well-defined self-contained thing."),
        ("It is [teh link](a.md) to the page.", "It is [the link](a.md) to the page."),
        ("You can find the repositroy in the list.", "You can find the repository in the list."),
        ("- a list of the avaiable parts", "- a list of the available parts"),
        ("It is teh one, teh two, and teh three of the end.", "It is the one, the two, and the three of the end."),
    ],
)  # fmt: skip
def test_misspellings_of_running_text_are_put_right(text: str, right: str) -> None:
    assert rewritten(text) == right


@pytest.mark.parametrize(
    "text",
    [
        "The word \u201cteh\u201d and 'teh' and \"teh\" is in it.",
        "You can use teh_name, my_teh, teh.py, ./teh, teh(), --teh, #teh, @teh, $teh, teh1, 2teh, teh=1, \\teh.",
        "We met Phineas Gage, Mark Skelton and Ari Autio in the house.",
        "The SEH, HSA and CNA are here, and ADN too.",
        "This is an iPohne and a tehThing.",
        "This is caf&eacute;s teh`x` of it",
        "We use `teh` in the text.",
        "It is the **teh** or _avaiable_ one.",
        "You can put them together by using the words and and or in it.",
        "Recieved it from the other side of the house.",
        "The avaiable parts are in the list (avaiable -> available).",
        "Fix a typo in the text: it is avaiable.",
        "| It is in teh table of the text |\n| --- |\n| It is in teh table of the text |",
        "> It is in teh quotation of the text.",
        "He said \"it is in teh quotation of the text\" to us.",
        "It is in teh code(a, b) of the text and in x = {teh};",
        "This is the name of the pevent and the regset in the text.",
        "Ciao, allo zoo il gatto vede i pesci e il cane, ma non vede le altre cose che sono nel parco della villa.",
        "The Teh tribe is here, and teh tribe is there.",
        "In the code the name is `teh`, and it is teh name.",
        "It is teh one, and teh other, and teh third of all.",
        "git format-patch --root A A",
        "Use MatchFirst_ or Or_ in the text, or Or in it.",
        "It is by Synopsys, Inc. in the text.",
    ],
)  # fmt: skip
def test_names_code_quotations_notes_and_what_is_meant_are_left_alone(text: str) -> None:
    assert rewritten(text) == text


def test_terms_of_a_licence_are_left_alone() -> None:
    text = (
        "THE SOFTWARE IS PROVIDED WITH REGARD TO teh use and the the warranty of it.\n\n"
        "It is in teh terms that follow.\n\nYou may copy teh licence of the program.\n"
    )
    assert rewritten(text) == text


def test_a_misspelling_of_several_words_is_only_spoken_of() -> None:
    assert told("It is throwed away.") == [("doubtful", "throwed", "threw, thrown")]
    assert rewritten("It is throwed away.") == "It is throwed away."


def test_a_capitalised_misspelling_is_only_spoken_of() -> None:
    assert told("Teh end is here.") == [("doubtful", "Teh", "The")]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("You put the the cup down.", "You put the cup down."),
        ("You put the the the cup down.", "You put the cup down."),
        ("The the cup is here.", "The cup is here."),
        ("You put the\nthe cup down.", "You put\nthe cup down."),
        ("You put the\r\n  the cup down.", "You put\r\n  the cup down."),
        ("You put teh the cup down.", "You put the cup down."),
        ("You put the  the cup down.", "You put the cup down."),
        ("It will be be sent to us.", "It will be sent to us."),
    ],
)
def test_doubled_words_are_made_one(text: str, right: str) -> None:
    assert rewritten(text) == right


@pytest.mark.parametrize(
    "text",
    [
        "He had had enough, and I know that that is so.",
        "Will will come, and it may be that May may too.",
        "It went from New York to Bora Bora.",
        "The, the, and the `the` the [the](x) the.",
        "They wrote \u201cthe the\u201d in it.",
        "the\n\nthe",
        "This is a test test here.",
        "He was logged in in March, and what it is is unknown.",
        "The keymap be be an arbitrary thing.",
        "- the\n- the",
        "> the\n\nthe",
        "in in-memory",
        "x x and n n",
    ],
)
def test_words_doubled_rightly_or_apart_are_left_alone(text: str) -> None:
    assert rewritten(text) == text


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("We met in order to talk.", "We met to talk."),
        ("In order to talk, we met.", "To talk, we met."),
        ("We met in\norder to talk.", "We met\nto talk."),
        ("It failed due to the fact that it rained.", "It failed because it rained."),
        ("We utilize it, utilizing the tools.", "We use it, using the tools."),
    ],
)
def test_wordy_phrases_are_made_plain_on_demand_and_else_are_only_spoken_of(text: str, right: str) -> None:
    assert rewritten(text) == right
    assert read(text).rewritten == text
    assert "plainer" in {fault for fault, _, _ in told(text)}


def test_a_phrase_that_needs_an_eye_is_only_spoken_of() -> None:
    assert told("It is shown by means of a lamp.") == [("plainer", "by means of", "by")]


@pytest.mark.parametrize(
    "text", ['Write "to", not "in order to".', "in order, to", "in order `x` to", "in order\n\nto"]
)
def test_a_phrase_spoken_of_or_broken_up_is_left_alone(text: str) -> None:
    assert rewritten(text) == text


@pytest.mark.parametrize("phrase", [*PLAIN, *PLAINER])
def test_each_phrase_of_the_tables_is_found(phrase: str) -> None:
    text = f"They said {phrase} them."
    (finding,) = (each for each in read(text, rewrite=True).findings if each.found == phrase)
    assert finding.fault == ("wordy" if phrase in PLAIN else "plainer")


def test_a_corrected_heading_keeps_its_anchor() -> None:
    text = "# Introduction to teh system\n\nSee [above](#introduction-to-teh-system).\n"
    assert rewritten(text) == (
        '# <a id="introduction-to-teh-system"></a>Introduction to the system\n\n'
        "See [above](#introduction-to-teh-system).\n"
    )
    assert rewritten(rewritten(text)) == rewritten(text)
    assert read(text).rewritten == text  # plain text: its headings may be underlined, or be no headings


def test_an_underlined_heading_is_left_alone() -> None:
    text = "Introduction to teh system\n==========================\n"
    assert rewritten(text) == text


def test_no_correction_is_itself_a_misspelling() -> None:
    book = read_lexicon()
    assert book is not None
    assert len(book.sure) > 50_000
    assert not [wrong for wrong, right in book.sure.items() if any(word.lower() in book.sure for word in right.split())]
    assert not FUNCTION_WORDS & {*book.sure, *book.doubtful}
    plain = {word for right in PLAIN.values() for word in right.split()}
    assert not plain & {*PLAIN, *PLAINER, *book.sure}


def test_findings_are_lines_in_order() -> None:
    reading = read("One\n\nIt is teh two.\n```\nteh\n```\nThis is avaiable to us.\n")
    assert list_findings(reading.prose, reading.findings, ("spelling",)) == ('line 7: "avaiable" -> "available"',)
    assert list_findings(reading.prose, reading.findings, ("doubtful",)) == ('line 3: "teh" may be misspelled: the?',)


def test_each_kind_of_suggestion_says_what_and_where() -> None:
    text = "A TODO, throwed\nby means of it; needless to say, very unique."
    reading = read(text)
    assert list_findings(reading.prose, judge(reading).findings, SUGGESTIONS) == (
        'line 1: "TODO": Annotation left in text.',
        'line 1: "throwed" may be misspelled: threw, thrown?',
        'line 2: "by means of" may be plainer as "by"',
        'line 2: "needless to say" can often be left out',
        "line 2: Comparison of an uncomparable: 'very unique' is not comparable.",
    )


def test_a_finding_keeps_its_offset() -> None:
    text = "Somebody said `x` about teh end of it."
    assert read(text).findings == (Finding("spelling", text.index("teh"), "teh", "the"),)
