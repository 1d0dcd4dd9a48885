from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.streams import START, Told, article, book, recorded

from redraft.events.messages.content import Brief, Critique, DraftRef, Receipt, new_draft
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftPublished,
    DraftRefined,
    RunEnded,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.plan import Plan
from redraft.events.messages.scales import score_text
from redraft.projections.display import UNSEEN, counted, in_one_line, outcome_text, plain, visible
from redraft.projections.run_views.sentences import history, sentence_of

RUNS = (article(), book())


def sentences(*told: Told) -> list[str]:
    return [line.sentence for line in history(recorded("r", told))]


def test_the_story_names_who_asked_who_answered_and_what_came_of_it():
    told = [line.sentence for line in history(article())]
    assert told[0] == "a run of the workflow article began for a brief of 15 characters from essay.md"
    assert told[4] == "critic judge was asked to judge draft 1"
    assert told[5] == "critic judge scored draft 1 at 0.614 (2 errors, 1 suggestion)"
    assert told[6] == "refiner improve was asked to improve draft 1, which was scored at 0.614"
    assert told[7] == "refiner improve made draft 2 from draft 1: fixed 3 spellings; took out a doubled word"
    assert "the model is busy (503); to be tried again at 14:31:02 UTC" in told[12]
    assert told[13].endswith(", try 2")
    assert told[17] == "critic judge scored draft 3 at 0.931 and approved it"
    assert told[18].startswith(
        "Refinement ended as accepted after 3 iterations: the condition holds: score 0.931 >= 0.9"
    )
    assert told[-1] == (
        "the run ended as accepted: the condition holds: score 0.931 >= 0.9; it ends with draft 3, scored at 0.931"
    )


def test_each_line_has_its_place_its_cause_and_its_path():
    lines = history(book())
    assert [line.version for line in lines] == list(range(1, len(lines) + 1))
    assert [line.position for line in lines] == [line.version + 100 for line in lines]
    assert lines[4].path == "Chapters[1]/ChapterRefinement[1]"
    assert lines[4].causation == "01JQ-book/4"
    assert lines[11].path == "Chapters[1]/ChapterRefinement[closing]"
    assert lines[0].path == lines[-1].path == ""


@given(st.sampled_from(RUNS), st.integers(0, 40))
def test_a_prefix_tells_the_beginning_of_the_same_story(run, length):
    assert history(run[:length]) == history(run)[:length]


@pytest.mark.parametrize("run", RUNS)
def test_one_event_alone_is_told_as_in_the_story(run):
    assert [sentence_of(each, run) for each in run] == [line.sentence for line in history(run)]


def test_a_failure_is_told_of_the_actor_that_was_asked_not_of_the_clock_that_noticed():
    asked = StepRequested("judge", "critic", "prose", 1, START)
    late = StepFailed("judge", 1, "timeout", "no answer in 120 s", None)
    assert sentences(("coordinator", asked), ("timekeeper", late))[1] == (
        "critic prose timed out (attempt 1): no answer in 120 s; it is not tried again"
    )


def test_untrusted_words_cannot_steer_a_terminal_or_fill_it():
    evil = "\x1b[2J\r\n\u202egnp.exe\u2066\x07" + "A" * 5000
    ref = DraftRef(1, "0" * 64)
    draft = new_draft(2, "text")
    told = history(
        recorded(
            "r",
            [
                (evil, RunStarted(Plan(evil, ()), Brief("x", source=evil), START)),
                (evil, StepRequested(evil, "critic", evil, 1, START)),
                (evil, DraftCritiqued(evil, 1, ref, Critique(0.5, critic=evil))),
                (evil, DraftRefined(evil, 1, ref, draft, (evil,) * 50)),
                (evil, DraftPublished(evil, 1, ref, Receipt(evil, evil))),
                (evil, StepFailed(evil, 1, "error", evil, START + timedelta(seconds=1))),
                (evil, RunEnded("failed", evil, 0)),
            ],
        )
    )
    for line in told:
        for shown in (line.sentence, line.actor, line.path, line.causation):
            assert shown.isprintable()
            assert not set(shown) & set("\u202e\u2066\x1b\r\n\x07")
        assert len(line.sentence) < 2500
        assert len(line.actor) <= 60


@given(st.text(), st.integers(2, 300))
def test_plain_text_is_one_printed_line_of_the_length_that_was_asked(value, most):
    shown = plain(value, most)
    assert len(shown) <= most
    assert "\n" not in shown
    assert not any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 for letter in shown)
    assert shown.encode().decode() == shown


@pytest.mark.parametrize(
    ("score", "shown"),
    [
        (0.8999, "0.899"),
        (0.9, "0.90"),
        (0.7999999999999999, "0.80"),
        (1.0, "1.00"),
        (0.0, "0.00"),
        (float("nan"), "nan"),
        (7.5, "7.5"),
    ],
)
def test_a_score_never_looks_better_than_it_is(score, shown):
    assert score_text(score) == shown


def test_words_for_people():
    assert [counted(1, "error"), counted(2, "error"), counted(2, "pass")] == ["1 error", "2 errors", "2 passes"]
    assert outcome_text("over_budget") == "over budget"


@pytest.mark.check
def test_no_character_that_cannot_be_seen_is_shown():
    unseen = [each for each in map(chr, range(0x110000)) if re.match(f"[{UNSEEN}]", each)]
    assert [each for each in unseen if each in plain(f"a{each}b")] == []
    assert [each for each in unseen if each in visible(f"a{each}b")] == ["\t", "\n"]


def test_an_error_of_several_lines_is_one_line_with_bars_between():
    assert in_one_line("2 errors\n  tone: missing\n\n  words: none\n") == "2 errors | tone: missing | words: none"
    assert in_one_line("one line") == "one line"
