"""The coordinator fills in places and texts that a worker left out, and records only what the draft bears out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace
from tests.actors.runtime.test_command_handler import handler_on

from redraft.actors.runtime.coordinating import proving
from redraft.actors.runtime.coordinating.command_handler import CommandHandler
from redraft.events.backends import open_store
from redraft.events.messages.codec import decode_message
from redraft.events.messages.commands import GuideRun, Message, StartRun
from redraft.events.messages.conditions import errors
from redraft.events.messages.content import Brief, Edit, digest
from redraft.events.messages.domain_events import DomainEvent, DraftCritiqued, DraftRefined, StepFailed
from redraft.events.messages.envelope import Origin
from redraft.events.messages.plan import RULES, Criterion, Plan, Repeat, Retry, Step
from redraft.events.store.event_store import EventStore
from redraft.projections.record_check import check_events

TEXT = "Teh tide 🌊 comes in. Teh sea is calm."
JUDGE = Step("critic", "judge", "judge", criteria=(Criterion("spelling"),))
IMPROVE = Step("refiner", "improve", "improve", retry=Retry(5, 0.0))

numbers = count()


@pytest.fixture
async def store() -> AsyncIterator[EventStore]:
    async with open_store("memory:") as opened:
        yield opened


class Talk:
    """A run with a coordinator that is sent messages as JSON, as a worker in any language sends them."""

    def __init__(self, store: EventStore, improve: Step = IMPROVE, judge: Step = JUDGE) -> None:
        self._handler: CommandHandler = handler_on(store)
        self._store = store
        self._plan = Plan("p", (Step("generator", "write", "write"), Repeat("L", errors == 0, 3, (judge, improve))))

    async def send(self, message: Message) -> DomainEvent:
        settled = await self._handler.carry_out(message, Origin(f"message{next(numbers)}", "test"))
        return settled.recorded[0].data

    async def says(self, name: str, path: str, body: str, attempt: int = 1) -> DomainEvent:
        where = f'"run":"r","path":"{path}","attempt":{attempt}'
        return await self.send(decode_message(f"outcome.{name}.v1", f"{{{where},{body}}}".encode()))

    async def written(self) -> Talk:
        await self.send(StartRun("r", self._plan, Brief("b")))
        await self.says("generated", "write", f'"text":"{TEXT}"')
        return self

    async def judged(self, issues: str, version: int = 1, text: str = TEXT) -> DomainEvent:
        draft = f'"draft":{{"version":{version},"sha256":"{digest(text)}"}}'
        critique = f'"score":0.5,"critic":"judge","criteria":[{{"name":"spelling","score":0.5}}],"issues":[{issues}]'
        return await self.says("critiqued", f"L[{version}]/judge", f'{draft},"critique":{{{critique}}}')

    async def refined(self, body: str, attempt: int = 1) -> DomainEvent:
        return await self.says("refined", "L[1]/improve", body, attempt)

    async def findings(self) -> Any:
        return check_events(await self._store.read("r"))


SLIPPED = '{"text":"misspelled","quote":"Teh","criterion":"spelling","severity":"error"}'
DULL = '{"text":"dull","quote":"is calm","id":"dull"}'


@pytest.mark.parametrize("kept", [proving.MAX_BYTES, 0])
async def test_places_ids_lines_and_texts_are_filled_in(
    store: EventStore, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the texts and issues that were read before are more than may be kept."""
    monkeypatch.setattr(proving, "MAX_BYTES", kept)
    talk = await Talk(store).written()
    judged = await talk.judged(f"{SLIPPED},{DULL}")
    assert isinstance(judged, DraftCritiqued)
    slip, dull = judged.critique.issues
    assert (slip.span, dull.span, TEXT[slice(*(dull.span or ()))]) == ((0, 3), (29, 36), "is calm")
    assert (len(slip.id), dull.id) == (12, "dull")
    assert (judged.critique.errors, judged.critique.suggestions) == (("“Teh”: misspelled",), ("“is calm”: dull",))
    body = '"edits":[{"quote":"Teh tide","replacement":"The tide"}]'
    refined = await talk.refined(f'{body},"refusals":[{{"issue":"dull","reason":"it is"}}]')
    assert isinstance(refined, DraftRefined)
    assert refined.draft.text == TEXT.replace("Teh tide", "The tide")
    assert refined.edits == (Edit("Teh tide", "The tide", (slip.id,)),)
    assert refined.declined == ("“is calm”: dull — it is",)
    assert await talk.findings() == ()


@pytest.mark.parametrize(("rules", "lines"), [(RULES, 2), (4, 1)])
async def test_issues_of_the_same_words_at_two_places_are_two_errors_since_rules_5(
    store: EventStore, rules: int, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redraft.actors.deciding.decider.RULES", rules)
    talk = await Talk(store).written()
    judged = await talk.judged(",".join(f'{SLIPPED[:-1]},"span":[{at},{at + 3}]}}' for at in (0, TEXT.rindex("Teh"))))
    assert isinstance(judged, DraftCritiqued)
    assert (len(judged.critique.issues), judged.critique.errors) == (2, ("“Teh”: misspelled",) * lines)
    assert await talk.findings() == ()


@pytest.mark.parametrize("kept", [proving.MAX_BYTES, 0])
@pytest.mark.parametrize(("rules", "which"), [(RULES, 1), (4, 0)])
async def test_an_issue_is_that_which_stood_at_its_place_since_rules_5(
    store: EventStore, rules: int, which: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the first of two of the same words is mended, the other is the second still."""
    monkeypatch.setattr("redraft.actors.deciding.decider.RULES", rules)
    monkeypatch.setattr(proving, "MAX_BYTES", kept)
    talk = await Talk(store).written()
    before = await talk.judged(",".join(f'{SLIPPED[:-1]},"span":[{at},{at + 3}]}}' for at in (0, TEXT.rindex("Teh"))))
    refined = await talk.refined('"edits":[{"quote":"Teh tide","replacement":"The tide"}]')
    assert isinstance(before, DraftCritiqued)
    assert isinstance(refined, DraftRefined)
    after = await talk.judged(SLIPPED, 2, refined.draft.text)
    assert isinstance(after, DraftCritiqued)
    assert [each.id for each in after.critique.issues] == [before.critique.issues[which].id]
    assert await talk.findings() == ()


@pytest.mark.parametrize(
    ("issues", "fault"),
    [
        ('{"text":"dull","quote":"ebb"}', "judge quoted 'ebb', which is not in the draft"),
        ('{"text":"dull","criterion":"tone"}', "judge gave an issue of 'tone', a criterion that it does not declare"),
        ('{"text":"dull","quote":"calm","span":[0,4]}', "judge quoted 'calm', and at 0 to 4 stands 'Teh '"),
        (f'{DULL},{SLIPPED[:-1]},"id":"dull"}}', "judge gave the id 'dull' to two issues"),
    ],
)
async def test_a_critique_whose_issues_are_not_in_its_draft_is_a_failed_attempt(
    store: EventStore, issues: str, fault: str
) -> None:
    judged = await (await Talk(store).written()).judged(issues)
    assert isinstance(judged, StepFailed)
    assert (judged.kind, judged.message[: len(fault)]) == ("invalid", fault)
    assert judged.retry_at is not None


async def test_where_the_plan_declares_no_criteria_an_issue_may_name_one_that_its_critic_scores(
    store: EventStore,
) -> None:
    """As when the code of a critic was replaced by one that declares them while the run went on."""
    talk = await Talk(store, judge=Step("critic", "judge", "judge")).written()
    judged = await talk.judged(SLIPPED)
    assert isinstance(judged, DraftCritiqued), judged
    assert judged.critique.issues[0].criterion == "spelling"
    assert await talk.findings() == ()


async def test_a_critique_has_the_name_of_the_actor_that_was_asked(store: EventStore) -> None:
    talk = await Talk(store).written()
    draft = f'"draft":{{"version":1,"sha256":"{digest(TEXT)}"}}'
    said = '"score":0.5,"critic":"facts","criteria":[{"name":"spelling","score":0.5}]'
    judged = await talk.says("critiqued", "L[1]/judge", f'{draft},"critique":{{{said}}}')
    assert isinstance(judged, DraftCritiqued), judged
    assert judged.critique.critic == "judge"


REFUSED = {
    '"edits":[{"quote":"Teh","replacement":"The"}]': "improve gave an edit of 'Teh', which is in the draft",
    '"edits":[{"quote":"ebb","replacement":""}]': "improve gave an edit of 'ebb', which is not in the draft",
    '"text":"Other.","edits":[{"quote":"calm","replacement":"wild"}]': "improve gave a text and edits that do not make",
    '"edits":[{"quote":"calm","replacement":"wild","issues":["x"]}]': "improve named the issue 'x', which the critique",
    '"refusals":[{"issue":"x","reason":"no"}]': "improve named the issue 'x', which the critique does not have",
    '"changes":["all"]': "draft: the text is empty",
}


@pytest.mark.parametrize("body", REFUSED)
async def test_a_revision_that_its_draft_does_not_bear_out_is_a_failed_attempt(store: EventStore, body: str) -> None:
    talk = await Talk(store).written()
    await talk.judged(SLIPPED)
    refused = await talk.refined(body)
    assert isinstance(refused, StepFailed)
    assert (refused.kind, refused.message[: len(REFUSED[body])]) == ("invalid", REFUSED[body])


@pytest.mark.parametrize(("quote", "is_there"), [("Teh  tide", True), ("ebb", False)])
async def test_a_criterion_whose_quote_is_not_in_its_draft_is_a_failed_attempt(
    store: EventStore, quote: str, is_there: bool
) -> None:
    talk = await Talk(store).written()
    mark = f'{{"name":"spelling","score":0.5,"quote":"{quote}"}}'
    body = f'"draft":{{"version":1,"sha256":"{digest(TEXT)}"}},"critique":{{"score":0.5,"criteria":[{mark}]}}'
    judged = await talk.says("critiqued", "L[1]/judge", body)
    if is_there:
        assert isinstance(judged, DraftCritiqued)
        return
    assert isinstance(judged, StepFailed)
    assert (judged.kind, judged.message) == (
        "invalid",
        "judge quoted 'ebb', which is not in the draft; quote it word by word",
    )


async def test_a_text_as_it_was_needs_not_be_sent(store: EventStore) -> None:
    talk = await Talk(store).written()
    await talk.judged(SLIPPED)
    refined = await talk.refined('"exit":true')
    assert isinstance(refined, DraftRefined)
    assert (refined.draft.text, refined.exit) == (TEXT, True)


async def test_with_only_issues_nothing_else_changes_unless_people_ask(store: EventStore) -> None:
    talk = await Talk(store, replace(IMPROVE, only_issues=True)).written()
    await talk.judged(SLIPPED)
    for attempt, body in enumerate(('"text":"Other."', '"edits":[{"quote":"calm","replacement":"wild"}]'), 1):
        refused = await talk.refined(body, attempt)
        assert isinstance(refused, StepFailed)
        assert refused.message.startswith("improve changed what no issue names; with only_issues, change nothing but")
        again = decode_message("step.retry.v1", f'{{"run":"r","path":"L[1]/improve","attempt":{attempt}}}'.encode())
        await talk.send(again)
    refined = await talk.refined('"text":"The tide 🌊 comes in. Teh sea is calm."', 3)
    assert isinstance(refined, DraftRefined)
    assert await talk.findings() == ()


async def test_advice_lifts_only_issues(store: EventStore) -> None:
    talk = await Talk(store, replace(IMPROVE, only_issues=True)).written()
    await talk.send(GuideRun("r", "say something else", by="ann", key="1"))
    await talk.judged(SLIPPED)
    refined = await talk.refined('"text":"Other."')
    assert isinstance(refined, DraftRefined)
    assert await talk.findings() == ()
