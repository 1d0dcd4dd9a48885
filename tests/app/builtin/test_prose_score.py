"""The score's formula, readability against published figures, and what proselint adds."""

from __future__ import annotations

import math

import pytest

from redraft.app.builtin.prose.actors import judge, prose_score, read
from redraft.app.builtin.prose.masking import Fault, Finding
from redraft.app.builtin.prose.readability import Readability, readability, syllables

GETTYSBURG = """
Four score and seven years ago our fathers brought forth on this continent, a new nation, conceived in Liberty,
and dedicated to the proposition that all men are created equal. Now we are engaged in a great civil war,
testing whether that nation, or any nation so conceived and so dedicated, can long endure. We are met on a great
battle-field of that war. We have come to dedicate a portion of that field, as a final resting place for those
who here gave their lives that that nation might live. It is altogether fitting and proper that we should do
this. But, in a larger sense, we can not dedicate -- we can not consecrate -- we can not hallow -- this ground.
The brave men, living and dead, who struggled here, have consecrated it, far above our poor power to add or
detract. The world will little note, nor long remember what we say here, but it can never forget what they did
here. It is for us the living, rather, to be dedicated here to the unfinished work which they who fought here
have thus far so nobly advanced. It is rather for us to be here dedicated to the great task remaining before us
-- that from these honored dead we take increased devotion to that cause for which they gave the last full
measure of devotion -- that we here highly resolve that these dead shall not have died in vain -- that this
nation, under God, shall have a new birth of freedom -- and that government of the people, by the people, for
the people, shall not perish from the earth.
"""


def measured(text: str) -> Readability:
    reading = read(text)
    found = readability(reading.prose, reading.judged)
    assert found is not None
    return found


def faults(fault: Fault, count: int) -> list[Finding]:
    return [Finding(fault, 0, "x")] * count


def told(text: str) -> list[str]:
    return [each.note for each in judge(read(text)).findings]


@pytest.mark.parametrize(
    ("words", "findings", "ease", "score"),
    [
        (500, [], None, 1.0),
        (500, [], 30.0, 1.0),
        (500, [], 15.0, 0.95),
        (500, [], -40.0, 0.9),
        (1000, faults("spelling", 10), None, math.exp(-1 / 8)),
        (10, faults("spelling", 1), None, math.exp(-1 / 8)),
        (100, faults("doubled", 5), None, math.exp(-4 / 8)),
        (100, faults("wordy", 1), None, math.exp(-0.3 / 8)),
        (100, faults("style", 4), None, math.exp(-0.4 / 8)),
        (100, faults("spelling", 5), 0.0, math.exp(-5 / 8) - 0.1),
        (100, faults("spelling", 900), 0.0, 0.0),
    ],
)
def test_the_formula(words: int, findings: list[Finding], ease: float | None, score: float) -> None:
    assert prose_score(words, findings, ease) == pytest.approx(score, abs=0.0001)


def test_one_slip_keeps_a_short_text_from_being_accepted_but_does_not_sink_it() -> None:
    assert 0.8 < judge(read("It is teh end of it.")).score < 0.95


def test_reading_ease_and_grade_of_sentences_counted_by_hand() -> None:
    """6 words of one syllable each; 16 words of 23 syllables."""
    cat = measured("The cat sat on the mat. " * 20)
    assert cat.ease == pytest.approx(206.835 - 1.015 * 6 - 84.6)
    assert cat.grade == pytest.approx(0.39 * 6 + 11.8 - 15.59)
    sentence = "This sentence, taken as a reading passage unto itself, is being used to prove a point. "
    assert measured(sentence * 10) == Readability(160, 10, 230)


def test_words_and_sentences_of_a_known_speech() -> None:
    """The Gettysburg Address: ten sentences, 271 words when `battle-field` is one."""
    found = measured(GETTYSBURG)
    assert (found.words, found.sentences) == (271, 10)
    assert 10 < found.grade < 12


def test_abbreviations_initials_and_code_end_no_sentence() -> None:
    text = "Dr. A. Smith met e.g. Mr. Jones, cf. `a. B` and no. 5 vs. the U. S. team at 3.14 p.m. on it. "
    assert measured(text * 10).sentences == 10


def test_headings_and_tables_are_not_measured() -> None:
    paragraph = "The cat sat on the mat. " * 20
    around = (
        "# Incomprehensible counterrevolutionaries\n\n{}\n\n| Heterogeneous | x |\n|---|---|\n| Miscellaneous | y |\n"
    )
    assert measured(around.format(paragraph)) == measured(paragraph)


@pytest.mark.parametrize(
    ("word", "count"),
    [
        ("the", 1), ("any", 2), ("create", 2), ("used", 1), ("wanted", 2), ("changes", 2), ("names", 1),
        ("package", 2), ("available", 4), ("documentation", 5), ("dictionary", 4), ("variable", 4), ("knowledge", 2),
        ("believe", 2), ("little", 2), ("whole", 1), ("studies", 2), ("going", 2), ("radio", 3), ("well-known", 2),
        ("dog's", 1), ("Python\u2019s", 2), ("x", 1),
    ],
)  # fmt: skip
def test_syllables(word: str, count: int) -> None:
    assert syllables(word) == count


def test_a_long_sentence_is_a_suggestion() -> None:
    long = "The cat and " * 15 + "the dog sat down."
    assert told(long) == ["a sentence of 49 words; split it"]
    assert told("The cat and the dog sat down. " * 15) == []


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("It was, for all intents and purposes, done.", "'for all intents and purposes' is a clich\u00e9"),
        ("This is very unique.", "Comparison of an uncomparable: 'very unique' is not comparable."),
        ("It did not\nsucceed.", None),
        ("Type your PIN number.", "RAS syndrome. Use 'PIN' instead of 'PIN number'."),
        ("A TODO is here.", "Annotation left in text."),
        ("This is very truely odd and very `unique`.", None),
        ('They say "very unique" a lot.', None),
        ("Use straight \"quotes\" and '...' and (c).", None),
    ],
)
def test_style_is_proselints_without_its_typography_and_its_cut_words(text: str, note: str | None) -> None:
    assert [each for each in told(text) if each] == ([note] if note else [])


def test_a_place_is_spoken_of_once() -> None:
    assert [each.fault for each in judge(read("We write with regard to your letter.")).findings] == ["plainer"]


def test_a_text_that_is_hard_to_read_loses_score() -> None:
    hard = "Institutional heterogeneity necessitates reconceptualization of interdisciplinary methodology and "
    judgement = judge(read((hard * 3 + "administration. ") * 5))
    assert judgement.readability is not None
    assert judgement.readability.ease < 0
    assert judgement.score <= 0.9
