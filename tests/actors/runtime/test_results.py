"""People's functions return what they have: it becomes what is recorded, or one line that says why it cannot."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel
from tests.actors.runtime.test_call import DRAFT, failed, judged, perform, request

from redraft.actors.runtime.working import threads
from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.roles import critic, generator, publisher, refiner
from redraft.events.errors import ActorError
from redraft.events.messages.codec import decode_message, encode_message
from redraft.events.messages.commands import (
    Critiqued,
    CritiqueDraft,
    Failed,
    Generate,
    Generated,
    Publish,
    Published,
    Refine,
    Refined,
)
from redraft.events.messages.content import Critique, History, Receipt, Revision, new_draft


class Model(BaseModel):
    score: float
    improvements: list[str]
    tone: str
    words: dict[str, int]


class Struct(msgspec.Struct):
    score: float
    improvements: list[str]
    tone: str
    words: dict[str, int]


@dataclass
class Data:
    score: float
    improvements: list[str]
    tone: str
    words: dict[str, int]


async def critique(returned: object, **settings: Any) -> Critique:
    outcome = await perform(critic(name="judge", **settings)(lambda draft: returned), CritiqueDraft(request(), DRAFT))
    assert isinstance(outcome, Critiqued), outcome
    return outcome.critique


@pytest.mark.parametrize("number", [1, 0.75, Decimal("0.75")])
async def test_a_number_is_the_score(number: float) -> None:
    assert await critique(number) == Critique(float(number), critic="judge")


async def test_a_number_is_on_the_critics_scale() -> None:
    assert await critique(7.75, scale=(1, 10)) == Critique(0.75, critic="judge")
    assert (await critique(1, scale=(1, 10))).score == 0


@pytest.mark.parametrize("verdict", [True, False])
async def test_a_bool_is_the_verdict_and_never_a_score(verdict: bool) -> None:
    said = await critique(verdict, scale=(1, 10))
    assert said == Critique(0.0, approved=verdict, critic="judge", scored=False)
    assert said.known_score is None


@pytest.mark.parametrize("text", ["APPROVED", " APPROVED\n"])
async def test_the_word_by_which_agents_approve_is_a_verdict(text: str) -> None:
    assert await critique(text) == Critique(0.0, approved=True, critic="judge", scored=False)


async def test_another_text_is_a_suggestion() -> None:
    assert (await critique("APPROVED, but shorten it")).suggestions == ("APPROVED, but shorten it",)


@pytest.mark.parametrize("kind", [Model, Struct, Data, dict])
async def test_an_object_has_the_fields_of_a_critique_others_are_details(kind: Any) -> None:
    said = await critique(kind(score=0.5, improvements=["more"], tone="dry", words={"cat": 2}))
    details = {"improvements": '["more"]', "tone": "dry", "words": '{"cat":2}'}
    assert said == Critique(0.5, critic="judge", details=details)
    said = await critique(
        kind(score=0.5, improvements=["more"], tone="dry", words={}), fields={"improvements": "suggestions"}
    )
    assert said == Critique(0.5, suggestions=("more",), critic="judge", details={"tone": "dry", "words": "{}"})


class Grave(StrEnum):
    ERROR = "error"
    NOTE = "note"


class Finding(BaseModel):
    text: str
    quote: str = ""
    severity: Grave = Grave.NOTE


class Report(BaseModel):
    marks: dict[str, int]
    sure: float
    counted: dict[str, int]
    findings: list[Finding]


async def test_a_model_of_ones_own_may_name_criteria_measures_confidence_and_issues_as_it_likes() -> None:
    given = Report(
        marks={"tone": 8},
        sure=0.7,
        counted={"words": 2},
        findings=[Finding(text="dull", quote="draft", severity=Grave.ERROR), Finding(text="no title")],
    )
    fields = {"marks": "criteria", "sure": "confidence", "counted": "measures", "findings": "issues"}
    said = await critique(given, fields=fields, scale=(0, 10), criteria={"tone": "for children"}, measures=("words",))
    assert (said.score, said.confidence, said.errors, said.suggestions) == (0.8, 0.7, ("“draft”: dull",), ("no title",))
    assert [(each.text, each.span, each.severity) for each in said.issues] == [
        ("dull", (4, 9), "error"),
        ("no title", None, "note"),
    ]


async def test_fields_that_stand_for_one_are_joined_and_one_text_is_one_line() -> None:
    fields = {"todo": "suggestions", "grade": "score", "ok": "approved"}
    given = {"grade": 5, "suggestions": "one", "todo": ("two", "three"), "errors": None, "ok": True}
    said = await critique(given, fields=fields, scale=(0, 10))
    assert said == Critique(0.5, suggestions=("one", "two", "three"), approved=True, critic="judge")
    assert await critique(Critique(0.5, suggestions="one")) == Critique(0.5, suggestions=("one",), critic="judge")  # type: ignore[arg-type]


async def test_an_object_with_a_verdict_alone_has_no_score() -> None:
    said = await critique({"approved": True, "suggestions": "none"})
    assert (said.scored, said.approved, said.suggestions) == (False, True, ("none",))


@pytest.mark.parametrize("odd", [2**70, -(2**70), float("nan"), 1 + 2j, {1: object}, {"a": {1, 2}}])
async def test_any_detail_can_be_kept(odd: object) -> None:
    said = await critique({"score": 1, "odd": odd})
    assert msgspec.json.decode(msgspec.json.encode(said), type=Critique) == said
    assert list(said.details) == ["odd"]


async def test_a_field_that_no_critique_has_cannot_be_mapped_to() -> None:
    with pytest.raises(ActorError, match=r"fields: 'todo' stands for 'sugestions'; did you mean suggestions\?"):
        critic(name="judge", fields={"todo": "sugestions"})(lambda draft: 1)


@pytest.mark.parametrize("saved", [-1, 10**15 + 1, 10**30])
async def test_what_edits_saved_is_a_number_that_can_be_counted(saved: int) -> None:
    made = refiner(name="r")(
        lambda draft: {"edits": [{"quote": draft.text, "replacement": "new"}], "saved_tokens": saved}
    )
    outcome = await perform(made, Refine(request(), DRAFT))
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.retryable) == ("invalid", False)
    assert "whose saved_tokens are no number from 0 to 10**15" in outcome.message


async def test_the_most_that_edits_can_save_is_read_by_who_records_it() -> None:
    made = refiner(name="r")(
        lambda draft: {"edits": [{"quote": draft.text, "replacement": "new"}], "saved_tokens": 10**15}
    )
    outcome = await perform(made, Refine(request(), DRAFT))
    assert isinstance(outcome, Refined), outcome
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=Refined) == outcome


async def test_a_refiner_returns_text_draft_or_revision() -> None:
    for returned in ("new", new_draft(7, "new"), Revision("new")):
        outcome = await perform(refiner(name="r")(lambda draft, it=returned: it), Refine(request(), DRAFT))
        assert outcome == Refined("r", "p", 1, "new")
    outcome = await perform(refiner(name="r")(lambda draft: Revision("new", "one change")), Refine(request(), DRAFT))  # type: ignore[arg-type]
    assert outcome == Refined("r", "p", 1, "new", ("one change",))


async def test_a_publisher_that_returns_nothing_has_published() -> None:
    for returned, receipt in ((None, Receipt("shelf")), (Path("a/b"), Receipt("a/b")), ("there", Receipt("there"))):
        outcome = await perform(publisher(name="shelf")(lambda draft, it=returned: it), Publish(request(), DRAFT))
        assert outcome == Published("r", "p", 1, DRAFT.ref, receipt)


class Markup(str):
    """A kind of text, as libraries have them."""

    __slots__ = ("safe",)


class Share(float):
    """A kind of number."""


@pytest.mark.parametrize(
    ("role", "returned"),
    [
        (0, Markup("text")),
        (1, {"score": Share(0.5), "suggestions": [Markup("more")], "tone": Markup("dry")}),
        (1, Critique(Share(0.5), suggestions=(Markup("more"),))),
        (2, Markup("text")),
        (2, Revision(Markup("text"), (Markup("change"),))),
        (3, Markup("there")),
        (3, Receipt(Markup("there"))),
    ],
)
async def test_kinds_of_text_and_number_become_plain_ones_that_a_message_can_hold(role: int, returned: object) -> None:
    decorate, work = actors()[role]
    function = (lambda: returned) if role == 0 else lambda draft: returned
    outcome = await perform(decorate(function), work)
    assert not isinstance(outcome, Failed)
    _, encoded = encode_message(outcome)
    assert decode_message(encode_message(outcome)[0], encoded) == outcome


def actors() -> list[tuple[Any, Any]]:
    return [
        (generator(name="a"), Generate(request())),
        (critic(name="a"), CritiqueDraft(request(), DRAFT)),
        (refiner(name="a"), Refine(request(), DRAFT, None, History())),
        (publisher(name="a"), Publish(request(), DRAFT)),
    ]


@pytest.mark.parametrize("number", range(4))
async def test_what_cannot_succeed_is_not_tried_again(number: int) -> None:
    """A wrong type and an error of the code itself would be the same once more."""
    role, work = actors()[number]

    def wrong(draft=None):
        return [0.5]

    def broken(draft=None):
        return draft.no_such_thing

    for function, kind in ((wrong, "invalid"), (broken, "error")):
        outcome = await perform(role(function), work)
        failed(outcome, kind)
        assert isinstance(outcome, Failed)
        assert not outcome.retryable


async def test_a_score_out_of_range_is_not_tried_again() -> None:
    outcome = await judged(lambda draft: 3.14)
    assert failed(outcome, "invalid") == "judge gave a score of 3.14, outside its scale of 0 to 1"
    assert isinstance(outcome, Failed)
    assert not outcome.retryable


@pytest.mark.parametrize("text", ["", "  \n", "x" * 101, "a\ud800b"], ids=["empty", "blank", "large", "surrogate"])
async def test_a_text_that_is_no_draft_and_what_cannot_be_written_are_not_tried_again(text: str) -> None:
    made = [perform(generator(name="a")(lambda: text), Generate(request()), limit=100)]
    made.append(perform(refiner(name="a")(lambda draft: text), Refine(request(), DRAFT, None, History()), limit=100))
    if text.strip():
        judge = critic(name="judge")(lambda draft: Critique(1.0, suggestions=(text,)))
        made.append(perform(judge, CritiqueDraft(request(), DRAFT), limit=100))
    for each in made:
        outcome = await each
        failed(outcome, "invalid")
        assert isinstance(outcome, Failed)
        assert not outcome.retryable


async def test_an_edit_of_words_that_are_not_there_is_tried_again() -> None:
    revise = refiner(name="a")(lambda draft: {"edits": [{"quote": "not there", "replacement": "x"}]})
    outcome = await perform(revise, Refine(request(), DRAFT, None, History()))
    failed(outcome, "invalid")
    assert isinstance(outcome, Failed)
    assert outcome.retryable


@pytest.mark.parametrize("returned", [Revision(edits=[]), {"edits": []}], ids=repr)  # type: ignore[arg-type]
async def test_an_empty_list_of_edits_leaves_the_draft_as_it_is(returned: object) -> None:
    outcome = await perform(refiner(name="r")(lambda draft: returned), Refine(request(), DRAFT))
    assert outcome == Refined("r", "p", 1, DRAFT.text)


async def reply() -> str:
    return "a reply"


@pytest.mark.parametrize("number", range(4))
async def test_a_missing_await_is_named(number: int) -> None:
    role, work = actors()[number]

    async def forgets(draft=None):
        return reply()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in (lambda draft=None: reply(), forgets):
            said = failed(await perform(role(function), work), "invalid")
            assert said.startswith("a returned a coroutine; an `await` is missing: write `await` before the call")
        gc.collect()


async def test_a_missing_await_is_named_where_it_is_noticed_later() -> None:
    said = failed(await judged(lambda draft: {"score": 1, "suggestions": reply()}), "invalid")
    assert said.startswith("judge returned a coroutine as suggestions; an `await` is missing")

    def reads(draft):
        coroutine = reply()
        try:
            return coroutine.text
        finally:
            coroutine.close()

    said = failed(await judged(reads), "error")
    assert "'coroutine' object has no attribute 'text'; an `await` is missing before what made it" in said


async def test_the_line_of_the_users_own_function_is_named_not_that_of_a_library() -> None:
    def reads(draft):
        return msgspec.json.decode(draft.text)

    class Judge:
        def __call__(self, draft):
            raise KeyError("it")

    line = reads.__code__.co_firstlineno + 1
    assert failed(await judged(reads), "error").endswith(f"(tests/actors/runtime/test_results.py:{line})")
    line = Judge.__call__.__code__.co_firstlineno + 1
    assert failed(await judged(Judge()), "error").endswith(f"(tests/actors/runtime/test_results.py:{line})")


async def test_threads_that_hung_actors_leave_behind_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MOST_HUNG", 2)
    release, ended = threading.Event(), threading.Semaphore(0)

    @critic(name="hangs-for-long")
    def hangs(draft):
        release.wait(60)
        ended.release()
        return 1.0

    def call(timeout: float) -> Any:
        return perform(hangs, CritiqueDraft(request(timeout), DRAFT))

    before = threading.active_count()
    for _ in range(2):
        failed(await call(0.01), "timeout")
    said = failed(await call(30), "error")
    assert said.startswith("hangs-for-long was not called: 2 earlier calls of it still hang; restart this process")
    assert threading.active_count() <= before + 2
    release.set()
    for _ in range(2):
        assert await asyncio.to_thread(ended.acquire, timeout=60)
    async with asyncio.timeout(60):
        while not isinstance(await call(30), Critiqued):  # the threads are about to end
            pass


def test_actors_with_fields_can_be_told_apart() -> None:
    one: Actor = critic(name="judge", fields={"a": "score"})(len_of)
    assert one != critic(name="judge")(len_of)
    assert hash(one)


def len_of(draft):
    return len(draft.text)


async def test_a_generator_returns_text_or_a_draft() -> None:
    outcome = await perform(generator(name="a")(lambda: new_draft(1, "t", "text/markdown")), Generate(request()))
    assert outcome == Generated("r", "p", 1, "t", "text/markdown")


async def test_dates_and_the_like_are_details_in_their_own_text() -> None:
    said = await critique(
        {"score": 1, "on": date(2026, 5, 4), "at": datetime(2026, 5, 4, 18, tzinfo=UTC), "where": Path("a/b")}
    )
    assert said.details == {"on": "2026-05-04", "at": "2026-05-04T18:00:00Z", "where": "a/b"}
