"""Models and programs say what is wrong where, and mend it by edits."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from model_server import Json, ModelServer
from msgspec.structs import replace
from tests.app.builtin.test_llm import DRAFT, failure, models, perform, request

from redraft.actors.editing.issues import locate_issues
from redraft.app.builtin.llm.actors import NO_PATCH, llm_critic, llm_refiner
from redraft.app.builtin.llm.reply import Declined, declined_of
from redraft.app.builtin.programs.command import command_critic, command_refiner
from redraft.events.messages.commands import Critiqued, CritiqueDraft, OutcomeMessage, Refine, Refined
from redraft.events.messages.content import Critique, Edit, History, Issue, Refusal, new_draft

LONG = new_draft(1, "Tides come once a day. " + "The Moon pulls the sea, and the Earth turns below it. " * 40)
ONCE = Issue("it is twice", "once a day", severity="error", id="once")
SAID = locate_issues(Critique(0.4, issues=(ONCE, Issue("say why", "Tides", id="why"))), LONG.text, ())


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789abcdef")
    monkeypatch.chdir(tmp_path)


async def refined(server: ModelServer, *, advice: tuple[str, ...] = (), **options: Any) -> OutcomeMessage:
    work = Refine(request(**options), LONG, SAID, History(advice=advice))
    return await perform(llm_refiner(models(server)), work)


def patch(*edits: Json, **others: Any) -> Json:
    return {"for": "by edits of it", "reply": {"edits": list(edits), "changes": ["Put right how often."], **others}}


TWICE = {"quote": "once a day", "replacement": "twice a day", "issues": ["once"]}
WHOLE = {"for": "the whole new text", "reply": {"text": LONG.text.replace("once", "twice"), "changes": ["All."]}}


async def test_a_model_says_where_how_grave_and_what_instead() -> None:
    said = {"quote": "once  a day", "message": "it is twice", "severity": "error", "replacement": "twice a day"}
    more = {"message": "say why", "severity": "note"}
    with ModelServer([{"reply": {"score": 5, "issues": [said, more]}}]) as server:
        outcome = await perform(llm_critic(models(server)), CritiqueDraft(request(issues=True), DRAFT))
    assert isinstance(outcome, Critiqued), outcome
    first, second = outcome.critique.issues
    assert (first.quote, first.span, first.severity, first.replacement) == (
        "once a day",
        (11, 21),
        "error",
        "twice a day",
    )
    assert (second.text, second.span) == ("say why", None)
    assert outcome.critique.errors == ("“once a day”: it is twice",)
    assert outcome.critique.suggestions == ("say why",)
    assert "Instead of suggestions and errors, list issues" in str(server.asked[0])


async def test_an_issue_that_is_not_in_the_draft_is_asked_for_again() -> None:
    wrong = [
        {"quote": "never said", "message": "x", "severity": "note"},
        {"quote": "", "message": "x", "severity": "note", "replacement": "y"},
        {"quote": "", "message": "x", "severity": "note", "criterion": "tone"},
    ]
    with ModelServer([{"reply": {"score": 5, "issues": [each]}} for each in wrong]) as server:
        outcome = await perform(llm_critic(models(server)), CritiqueDraft(request(issues=True), DRAFT))
    assert "got no valid reply" in failure(outcome, "invalid")
    assert "issues[0].quote is not in the draft" in str(server.asked[1])
    assert "issues[0] has a replacement and no quote" in str(server.asked[2])


async def test_a_model_mends_a_text_by_edits_and_says_what_they_saved() -> None:
    with ModelServer([patch(TWICE, declined=[{"suggestion": "be brief", "reason": "it is brief"}])]) as server:
        outcome = await refined(server, patch=True)
    assert isinstance(outcome, Refined), outcome
    assert outcome.text == LONG.text.replace("once", "twice")
    assert outcome.edits == (Edit("once a day", "twice a day", ("once",)),)
    assert (outcome.declined, outcome.refusals) == (("be brief — it is brief",), ())
    assert len(LONG.text) // 4 - 30 < outcome.saved_tokens < len(LONG.text) // 4


@pytest.mark.parametrize("words", ["Say why", "“Tides”: say why", "why"])
@pytest.mark.parametrize("patching", [True, False])
async def test_an_issue_that_a_model_declines_is_known_by_its_id(words: str, patching: bool) -> None:
    declined = [{"suggestion": words, "reason": "it is said below"}]
    whole = {**WHOLE, "reply": {**WHOLE["reply"], "declined": declined}}
    with ModelServer([patch(TWICE, declined=declined) if patching else whole]) as server:
        outcome = await refined(server, patch=patching)
    assert isinstance(outcome, Refined), outcome
    assert outcome.refusals == (Refusal("why", "it is said below"),)
    assert outcome.declined == ("“Tides”: say why — it is said below",)


def test_words_that_several_issues_share_name_none_of_them() -> None:
    both = (Issue("misspelled", "teh", id="a"), Issue("misspelled", "alot", id="b"))
    said = [Declined(suggestion=words, reason="no") for words in ("misspelled", "“alot”: misspelled")]
    assert declined_of(said, both) == (("misspelled — no",), (Refusal("b", "no"),))


async def test_edits_that_do_not_apply_are_asked_for_again_and_then_the_whole_text() -> None:
    wrong = {"quote": "The Moon pulls", "replacement": "It pulls"}
    with ModelServer([patch(wrong), patch(TWICE, TWICE), WHOLE]) as server:
        outcome = await refined(server, patch=True)
    assert isinstance(outcome, Refined), outcome
    assert (outcome.text, outcome.edits, outcome.saved_tokens) == (LONG.text.replace("once", "twice"), (), 0)
    assert outcome.changes == ("All.", NO_PATCH)
    assert "which is in the draft more than once" in str(server.asked[1])
    assert server.left == []


SAME = {"quote": "once a day", "replacement": "once a day", "issues": ["once"]}


async def test_an_edit_that_changes_nothing_is_asked_for_again() -> None:
    with ModelServer([patch(SAME), patch(TWICE, {"quote": "Tides", "replacement": "Tides"})]) as server:
        outcome = await refined(server, patch=True)
    assert isinstance(outcome, Refined), outcome
    assert outcome.edits == (Edit("once a day", "twice a day", ("once",)),)
    assert "no edit changes anything, and declined does not say why" in str(server.asked[1])


async def test_a_model_whose_edits_change_nothing_leaves_once_it_says_why() -> None:
    with ModelServer([patch(SAME, declined=[{"suggestion": "why", "reason": "it is Scots"}])]) as server:
        outcome = await refined(server, patch=True)
    assert isinstance(outcome, Refined), outcome
    assert (outcome.text, outcome.edits, outcome.exit) == (LONG.text, (), True)
    assert outcome.refusals == (Refusal("why", "it is Scots"),)


async def test_with_only_issues_a_model_changes_nothing_else_unless_people_ask_for_it() -> None:
    beyond = {"quote": "day. The Moon pulls", "replacement": "day. It pulls"}
    with ModelServer([patch(beyond), patch(TWICE)]) as server:
        outcome = await refined(server, patch=True, only_issues=True)
    assert isinstance(outcome, Refined), outcome
    assert outcome.edits[0].quote == "once a day"
    assert "You changed what no issue names" in str(server.asked[1])
    with ModelServer([patch(beyond)]) as server:
        outcome = await refined(server, advice=("Say it",), patch=True, only_issues=True)
    assert isinstance(outcome, Refined), outcome
    other = {"for": "the whole", "reply": {"text": LONG.text.replace("Moon", "Sun"), "changes": ["x"]}, "always": True}
    with ModelServer([other]) as server:
        outcome = await refined(server, only_issues=True)
    assert "You changed what no issue names" in failure(outcome, "invalid")


async def program(code: str, work: CritiqueDraft | Refine, **options: Any) -> OutcomeMessage:
    asked = request(run=[sys.executable, "-c", code], parser="json", **options)
    actor = command_critic if isinstance(work, CritiqueDraft) else command_refiner
    return await perform(actor, replace(work, request=asked))


async def test_a_program_prints_issues_and_their_places_are_found() -> None:
    printed = {"score": 0.5, "issues": [{"text": "it is twice", "quote": "once a day", "severity": "error"}, "say why"]}
    outcome = await program(f"print({json.dumps(printed)!r})", CritiqueDraft(request(), DRAFT))
    assert isinstance(outcome, Critiqued), outcome
    assert [(issue.span, issue.severity) for issue in outcome.critique.issues] == [
        ((11, 21), "error"),
        (None, "warning"),
    ]
    outcome = await program(
        'print(\'{"score": 1, "issues": [{"text": "x", "quote": "ebb"}]}\')', CritiqueDraft(request(), DRAFT)
    )
    assert failure(outcome, "invalid") == "command quoted 'ebb', which is not in the draft; quote it word by word"


MEND = """
import json, sys
critique = json.load(open(sys.argv[1]))
(once, why) = critique["issues"]
start, end = once["span"]
assert sys.stdin.read()[start:end] == once["quote"]
print(json.dumps({
    "edits": [{"quote": once["quote"], "replacement": "twice a day", "issues": [once["id"]]}],
    "refusals": [{"issue": why["id"], "reason": "it is said below"}],
}))
"""


async def test_a_program_mends_a_text_by_edits() -> None:
    asked = request(run=[sys.executable, "-c", MEND, "{critique}"], parser="json")
    outcome = await perform(command_refiner, Refine(asked, LONG, SAID))
    assert isinstance(outcome, Refined), outcome
    assert outcome.text == LONG.text.replace("once", "twice")
    assert outcome.refusals == (Refusal("why", "it is said below"),)
    assert outcome.declined == ("“Tides”: say why — it is said below",)


@pytest.mark.parametrize(
    ("printed", "fault"),
    [
        (
            '{"edits": [{"quote": "Moon", "replacement": "Sun"}]}',
            "command gave an edit of 'Moon', which is in the draft",
        ),
        ('{"edits": [{"quote": "once"}]}', "missing required field `replacement`"),
        ('{"edits": "once"}', "returned edits[0] as a str, not an object"),
        ('{"changes": []}', "the text is empty"),
        ('{"refusals": [{"issue": "x", "reason": "y"}]}', "named the issue 'x', which the critique does not have"),
        ('{"score": 1}', "not a str, Draft, Revision, or its fields"),
    ],
)
async def test_what_a_program_prints_wrong_is_said(printed: str, fault: str) -> None:
    outcome = await program(f"print({printed!r})", Refine(request(), LONG, SAID))
    assert fault in getattr(outcome, "message", ""), outcome


async def test_a_program_that_prints_no_revision_is_told_what_one_is() -> None:
    outcome = await program("print('twice')", Refine(request(), LONG, SAID))
    assert "it printed no revision as JSON, such as" in failure(outcome, retryable=False)
