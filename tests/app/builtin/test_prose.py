"""The workflow `prose` as its users meet it: what the critic says, what the refiner changes, and the plan."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

import pytest

from redraft.actors.editing.edits import apply_edits, check_only_issues
from redraft.actors.editing.issues import locate_issues
from redraft.actors.formats.yaml_reader import print_plan, read_plan
from redraft.actors.plans.check import check_plan
from redraft.actors.workflow.context import Context
from redraft.app.builtin.prose.actors import UNSPELLED, prose_critic, prose_plan, prose_refiner
from redraft.app.builtin.prose.spelling import lexicon
from redraft.events.errors import PermanentError, PlanError
from redraft.events.messages.content import MAX_DRAFT_BYTES, Critique, Draft, Edit, Revision, digest, new_draft
from redraft.events.messages.plan import Option, Repeat, Step

SAMPLES = Path(__file__).parents[2] / "samples" / "prose"


def sample(name: str) -> str:
    return (SAMPLES / f"{name}.md").read_text(encoding="utf-8")


def step(**options: Option) -> Context:
    return Context("run-1", "Refinement[1]/critique", 1, 60.0, "key", options)


def judged(text: str, **options: Option) -> Critique:
    critique = prose_critic(Draft(1, text, digest(text), "text/markdown"), step(**options))
    assert isinstance(critique, Critique)
    return critique


def refined(text: str, **options: Option) -> Revision:
    revision = prose_refiner(Draft(1, text, digest(text), "text/markdown"), step(**options))
    assert isinstance(revision, Revision)
    return revision


def test_a_clean_text_is_accepted_and_praised() -> None:
    critique = judged(sample("clean"))
    assert critique.score >= 0.95
    assert (critique.errors, critique.weaknesses, critique.suggestions) == ((), (), ())
    assert "no known misspelling in 153 words" in critique.strengths


def test_a_bad_paragraph_fails_and_each_fault_is_named_with_its_line() -> None:
    critique = judged(sample("bad"))
    assert critique.score < 0.6
    assert 'line 1: "teh" -> "the"' in critique.errors
    assert 'line 3: "the the" -> "the"' in critique.errors  # it begins on line 3 and ends on line 4
    assert 'line 5: "the the" -> "the"' in critique.errors
    assert critique.weaknesses == ()
    assert 'line 4: "Prior to" may be plainer as "Before"' in critique.suggestions
    assert 'line 5: "wether" may be misspelled: weather, whether?' in critique.suggestions


def test_the_refiner_mends_a_bad_paragraph_and_leaves_what_is_a_matter_of_opinion() -> None:
    revision = refined(sample("bad"))
    assert revision.text == sample("mended")
    assert not revision.exit
    assert 'line 3: "recieved" -> "received"' in revision.changes
    after = judged(revision.text)
    assert after.errors == ()
    assert after.score >= 0.85


def test_every_error_is_a_change_of_the_refiner() -> None:
    critique, revision = judged(sample("bad")), refined(sample("bad"))
    assert sorted(revision.changes) == sorted(critique.errors)


def test_wordiness_is_put_right_on_demand() -> None:
    critique, revision = judged(sample("bad"), rewrite=True), refined(sample("bad"), rewrite=True)
    assert 'line 4: "Prior to" -> "Before"' in critique.weaknesses
    assert "Before the meeting" in revision.text
    assert judged(revision.text, rewrite=True).score >= 0.95


@pytest.mark.parametrize("name", ["clean", "mended", "structure"])
def test_a_text_with_nothing_to_mend_ends_the_loop(name: str) -> None:
    assert refined(sample(name)) == Revision(sample(name), (), exit=True)


@pytest.mark.parametrize(
    "text",
    ["", " \n\t\n", "```\nteh the the\n```\n", "    teh\n", "12 + 30 = 42", "`teh`", "[a]: teh\n", "<div>teh</div>"],
)
def test_a_text_without_prose_has_nothing_to_fear(text: str) -> None:
    critique = judged(text)
    assert critique.score == 1.0
    assert critique.strengths == ("no prose to judge: the text holds no English sentence outside code and markup",)
    assert refined(text).exit


def test_text_in_another_language_is_left_alone() -> None:
    german = "Der Vogel war als Erster da, und am Ende des Tages ist er vor allen anderen Tieren wieder auf dem Weg.\n"
    assert refined(german * 3).exit
    assert judged(german * 3).errors == ()


def test_long_lists_are_cut_and_say_by_how_much() -> None:
    text = "It is teh end of the day. \n" * 80
    critique, revision = judged(text), refined(text)
    for lines in (critique.errors, revision.changes):
        assert len(lines) == 51
        assert lines[49:] == ('line 50: "teh" -> "the"', "... and 30 more")


def test_ignored_words_are_right_in_any_capitals() -> None:
    text = "The one tribe says teh, and the other says recieve too.\n"
    assert refined(text, ignore=["Teh"]).text == "The one tribe says teh, and the other says receive too.\n"
    assert judged(text, ignore=["TEH", "recieve"]).errors == ()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"ignored": ["teh"]}, "prose: there is no option 'ignored'; did you mean 'ignore'?"),
        ({"ignore": "teh"}, "prose: option ignore: expected `array`, got `str`"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(options: dict[str, Option], fault: str) -> None:
    with pytest.raises(PermanentError) as refused:
        judged("Teh end.", **options)
    assert str(refused.value) == fault


def test_plain_text_and_markdown_are_read_alike() -> None:
    text = "This is teh report of the `one`.\n"
    plain, marked = (prose_refiner(new_draft(1, text, kind), step()) for kind in ("text/plain", "text/markdown"))
    assert plain == marked
    assert plain.text == "This is the report of the `one`.\n"


@pytest.mark.check
def test_the_same_text_gives_the_same_critique_in_many_threads() -> None:
    texts = [sample(name) for name in ("bad", "clean", "structure", "mended")] * 8
    alone = [judged(text) for text in texts]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(judged, texts)) == alone
        assert list(threads.map(refined, texts)) == [refined(text) for text in texts]


@pytest.mark.check
def test_a_draft_of_the_largest_size_is_mended_to_its_last_line() -> None:
    paragraph = sample("clean") + "\n"
    filling = paragraph * ((MAX_DRAFT_BYTES - 100) // len(paragraph.encode()))
    revision = refined(filling + "\nThis is avaiable to us.\n")
    assert revision.text == filling + "\nThis is available to us.\n"
    assert len(revision.changes) == 1


@pytest.mark.parametrize("publish", ["file", "stdout"])
def test_the_plan_can_be_run_and_has_the_names_that_its_paths_are_known_by(publish: str) -> None:
    plan = check_plan(prose_plan(publish="file" if publish == "file" else "stdout", ignore=["Teh"]))
    generate, loop, published = plan.steps
    assert plan.name == "prose"
    assert isinstance(generate, Step)
    assert isinstance(loop, Repeat)
    assert isinstance(published, Step)
    assert (generate.actor, generate.name) == ("source", "generate")
    assert [(each.actor, each.name) for each in loop.body if isinstance(each, Step)] == [
        ("structure", "structure"),
        ("prose", "critique"),
        ("prose-fix", "refine"),
    ]
    gate, *others = (each for each in loop.body if isinstance(each, Step))
    assert gate.gate
    assert all(each.options == {"ignore": ["Teh"]} for each in others)
    assert (loop.name, loop.max_iterations, published.actor, published.name) == ("Refinement", 5, publish, "publish")


def test_the_plan_is_the_same_after_yaml() -> None:
    plan = prose_plan(max_iterations=3, threshold=0.9)
    assert read_plan(print_plan(plan)) == plan


def test_without_its_dictionaries_it_says_that_spelling_was_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Distribution:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(lexicon, "distribution", missing)
    lexicon.read_lexicon.cache_clear()
    try:
        critique, revision = judged("It is teh end of the the day.\n"), refined("It is teh end of the the day.\n")
    finally:
        monkeypatch.undo()
        lexicon.read_lexicon.cache_clear()
    assert revision.text == "It is teh end of the day.\n"
    assert critique.suggestions[0] == UNSPELLED
    assert "pip install 'redraft[spelling]'" in UNSPELLED
    assert not any("misspelling" in each for each in critique.strengths)


def test_a_plan_without_iterations_is_refused() -> None:
    with pytest.raises(PlanError, match="max_iterations"):
        check_plan(prose_plan(max_iterations=0))


def test_findings_have_places_and_what_to_put_there_is_what_the_refiner_puts() -> None:
    text = "It is clear that the the tide comes in order to go, and teh sea is very calm.\n"
    said = judged(text, rewrite=True)
    found = locate_issues(said, text, ())
    assert (found.errors, found.suggestions) == (said.errors, said.suggestions)  # each finding is listed once
    assert [(each.quote, each.severity, each.replacement) for each in found.issues] == [
        ("the the", "error", "the"),
        ("teh", "error", "the"),
        ("in order to", "warning", "to"),
    ]
    edits = [Edit(each.quote, each.replacement) for each in found.issues if each.replacement is not None]
    mended = refined(text, rewrite=True).text
    assert apply_edits(edits, text) == mended
    check_only_issues(text, mended, found.issues)


def test_a_finding_is_the_same_issue_where_its_line_is_another() -> None:
    text = "The tide comes in and recieve it, as all of us know.\n"
    (one,), (other,) = (
        [each.id for each in locate_issues(judged(each), each, ()).issues if each.quote == "recieve"]
        for each in (text, f"A new line.\n\n{text}")
    )
    assert one == other
