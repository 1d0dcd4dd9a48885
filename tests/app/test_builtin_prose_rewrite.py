"""What is put right, what is only spoken of, and what is left alone."""

from __future__ import annotations

import pytest

from redraft.app.builtin.prose_dictionary import spellings
from redraft.app.builtin.prose_finding import Finding
from redraft.app.builtin.prose_phrases import FUNCTION_WORDS, PLAIN, PLAINER
from redraft.app.builtin.prose_reading import judge, read
from redraft.app.builtin.prose_report import SUGGESTIONS, said


def rewritten(text: str) -> str:
    return read(text).rewritten


def told(text: str) -> list[tuple[str, str, str]]:
    return [(each.fault, each.found, each.instead) for each in judge(read(text)).findings]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Teh end of teh day.", "The end of the day."),
        ("TEH END", "THE END"),
        ("He recieves it.", "He receives it."),
        ("It works atleast once.", "It works at least once."),
        ("**teh** _teh_ (teh) teh: teh, \u201cteh end\u201d", "**the** _the_ (the) the: the, \u201cthe end\u201d"),
        ("It did\u2019nt, did'nt", "It didn\u2019t, didn't"),
        ("From amercia to Amercia", "From America to America"),
        ("a well-definied self-containted thing", "a well-defined self-contained thing"),
        ("[teh link](teh)", "[the link](teh)"),
    ],
)
def test_misspellings_are_put_right_in_their_own_capitals(text: str, right: str) -> None:
    assert rewritten(text) == right


@pytest.mark.parametrize(
    "text",
    [
        "The word \u201cteh\u201d and 'teh' and \"teh\".",
        "Use teh_name, my_teh, teh.py, ./teh, teh(), --teh, #teh, @teh, $teh, teh1, 2teh, teh=1, C:\\teh, \\teh.",
        "We met Phineas Gage, Mark Skelton and Ari Autio.",
        "The SEH, HSA and CNA are here, and ADN too.",
        "An iPohne and a tehThing.",
        "caf&eacute;s teh`x`",
        "We use `teh`.",
    ],
)
def test_names_acronyms_code_and_words_spoken_of_are_left_alone(text: str) -> None:
    assert rewritten(text) == text


def test_a_misspelling_of_several_words_is_only_spoken_of() -> None:
    assert told("It is throwed away.") == [("doubtful", "throwed", "threw, thrown")]
    assert rewritten("It is throwed away.") == "It is throwed away."


def test_a_capitalised_word_that_may_be_a_name_is_only_spoken_of() -> None:
    assert told("It was written by Mark Skelton.") == [("doubtful", "Skelton", "Skeleton")]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Put the the cup down.", "Put the cup down."),
        ("Put the the the cup down.", "Put the cup down."),
        ("The the cup.", "The cup."),
        ("THE THE CUP", "THE CUP"),
        ("Put the\nthe cup down.", "Put\nthe cup down."),
        ("Put the\r\n  the cup down.", "Put\r\n  the cup down."),
        ("- the\n  the cup", "- the cup"),
        ("A test test here.", "A test here."),
        ("Put teh the cup.", "Put the cup."),
        ("Put the  the cup.", "Put the cup."),
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
        "They wrote \u201cthe the\u201d.",
        "the\n\nthe",
        "# Setup\nSetup is easy.",
        "- the\n- the",
        "> the\n\nthe",
        "./configure\nmake\nmake test",
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
        ("In order to talk", "To talk"),
        ("IN ORDER TO TALK", "TO TALK"),
        ("We met in\norder to talk.", "We met\nto talk."),
        ("It failed due to the fact that it rained.", "It failed because it rained."),
        ("We utilize it, utilizing tools.", "We use it, using tools."),
        ("in order in order to to", "to"),
        ("due to the fact that that rain", "because that rain"),
        ("prior to to", "before to"),
    ],
)
def test_wordy_phrases_are_made_plain(text: str, right: str) -> None:
    assert rewritten(text) == right


def test_a_phrase_that_needs_an_eye_is_only_spoken_of() -> None:
    assert told("It is shown by means of a lamp.") == [("plainer", "by means of", "by")]


@pytest.mark.parametrize(
    "text", ['Write "to", not "in order to".', "in order, to", "in order `x` to", "in order\n\nto"]
)
def test_a_phrase_spoken_of_or_broken_up_is_left_alone(text: str) -> None:
    assert rewritten(text) == text


@pytest.mark.parametrize("phrase", [*PLAIN, *PLAINER])
def test_each_phrase_of_the_tables_is_found(phrase: str) -> None:
    (finding,) = (each for each in read(f"They said {phrase} them.").findings if each.found == phrase)
    assert finding.fault == ("wordy" if phrase in PLAIN else "plainer")


def test_no_plain_word_is_itself_wordy_or_wrong() -> None:
    book = spellings()
    plain = {word for right in PLAIN.values() for word in right.split()}
    assert not plain & {*PLAIN, *PLAINER, *book.sure}


def test_no_correction_is_itself_a_misspelling() -> None:
    book = spellings()
    assert len(book.sure) > 50_000
    assert not [wrong for wrong, right in book.sure.items() if any(word.lower() in book.sure for word in right.split())]
    assert not FUNCTION_WORDS & {*book.sure, *book.doubtful}


def test_findings_are_lines_in_order() -> None:
    reading = read("One\n\ntwo teh\n```\nteh\n```\nthree teh\n")
    assert said(reading.prose, reading.findings, ("spelling",)) == ('line 3: "teh" -> "the"', 'line 7: "teh" -> "the"')


def test_each_kind_of_suggestion_says_what_and_where() -> None:
    text = "A TODO, throwed\nby means of it; needless to say, very unique."
    reading = read(text)
    assert said(reading.prose, judge(reading).findings, SUGGESTIONS) == (
        'line 1: "TODO": Annotation left in text.',
        'line 1: "throwed" may be misspelled: threw, thrown?',
        'line 2: "by means of" may be plainer as "by"',
        'line 2: "needless to say" can often be left out',
        "line 2: Comparison of an uncomparable: 'very unique' is not comparable.",
    )


def test_a_finding_keeps_its_offset() -> None:
    text = "Somebody said `x` about teh end."
    assert read(text).findings == (Finding("spelling", text.index("teh"), "teh", "the"),)
