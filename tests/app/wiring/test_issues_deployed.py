"""Issues and edits over RabbitMQ: found by workers of their own, proven by the coordinator, recorded and shown."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.app.deployments import deployment

from redraft.events.backends import open_store
from redraft.events.encryption.cipher import read_master_key
from redraft.events.encryption.keyring import Encryption
from redraft.events.messages.domain_events import DomainEvent, DraftCritiqued, DraftRefined, RunEnded, StepFailed

pytestmark = pytest.mark.check

MEND = """
from redraft.actors import Edit, Issue, Refusal, Revision, critic, generator, publisher, refiner

@generator
def write(brief):
    return "Teh tide comes in.\\n\\nIt goes out again.\\n\\nThe sea is calm.\\n"

@critic(criteria={"spelling": "no slips"})
def judge(draft):
    slip = Issue("misspelled", "Teh", criterion="spelling", severity="error", replacement="The")
    slips = [slip] if "Teh" in draft.text else []
    dull = {"text": "dull", "quote": "calm"}
    return {"criteria": {"spelling": 0.5 if slips else 1}, "issues": [*slips, dull]}

tried = []

@refiner
def improve(draft, critique, context):
    slip, dull = critique.issues
    tried.append(context.attempt)
    quote, words = ("It goes", "He goes") if context.attempt == 1 else (slip.quote, slip.replacement)
    return Revision(edits=[Edit(quote, words, (slip.id,))], refusals=[Refusal(dull.id, "it was calm")], saved_tokens=7)

@publisher
def save(draft):
    return "here"
"""
PLAN = """
name: mend
steps:
  - generate: {actor: write}
  - repeat:
      name: Mending
      until: errors == 0
      max_iterations: 3
      body:
        - critique: {actor: judge, criteria: {spelling: no slips}}
        - refine: {actor: improve, only_issues: true, retry: {attempts: 2, initial: 0s}}
  - publish: {actor: save}
"""


async def events_of(url: str, run: str, key: Path) -> list[DomainEvent]:
    """The events of a run, each hash of which was verified."""
    encryption = Encryption(read_master_key(key.read_text(), "key")) if key.exists() else None
    async with open_store(url, encryption=encryption) as store:
        assert await store.verify(run)
        return [event.data for event in await store.read(run)]


CALM = "“calm”: dull"


@pytest.mark.parametrize("is_sealed", [False, True], ids=["plain", "sealed"])
def test_workers_say_what_is_wrong_where_and_mend_that_alone(tmp_path: Path, *, is_sealed: bool):
    with deployment(tmp_path) as deployed:
        (tmp_path / "mend.py").write_text(MEND)
        (tmp_path / "mend.yaml").write_text(PLAN)
        if is_sealed:
            assert deployed.call("key", "encryption", "key").code == 0
            (tmp_path / "redraft.toml").write_text('encrypt_new_runs = true\nencrypt_key_file = "key"\n')
            assert deployed.call("trust").code == 0
        deployed.start("coordinator", "coordinator")
        deployed.start("worker", "worker", "mend.py")
        submitted = deployed.call("submit", "mend.yaml", "tides", "--wait", "--json")
        assert submitted.code == 0, submitted.err
        run = json.loads(submitted.out)["run"]
        events = asyncio.run(events_of(deployed.store, run, tmp_path / "key"))
        shown, told = deployed.call("show", run), deployed.call("audit", run)
        changed, as_json = deployed.call("diff", run, "1", "2"), deployed.call("diff", run, "1", "2", "--json")
        ledger = deployed.call("stats", "issues", run, "--json")
        checked = deployed.call("audit", run, "--verify")
        assert deployed.call("erase", run, "--by", "grace").code == (0 if is_sealed else 2)
        left = b"".join(path.read_bytes() for path in tmp_path.glob("*.db*"))
        verified = deployed.call("audit", run, "--verify")
    first, second = (event.critique for event in events if isinstance(event, DraftCritiqued))
    slip, dull = first.issues
    assert (slip.span, slip.criterion, slip.replacement) == ((0, 3), "spelling", "The")
    assert (first.errors, first.suggestions, second.errors) == (("“Teh”: misspelled",), (CALM,), ())
    assert second.issues[0].id == dull.id
    refused = next(event for event in events if isinstance(event, StepFailed))
    assert (refused.kind, refused.message[:37]) == ("invalid", "improve changed what no issue names; ")
    refined = next(event for event in events if isinstance(event, DraftRefined))
    assert refined.edits[0].issues == (slip.id,)
    assert refined.declined == (f"{CALM} — it was calm",)
    assert isinstance(events[-1], RunEnded)
    assert "2 issues" in shown.out
    assert "1 edit, about 7 tokens saved" in shown.out
    assert "by 1 edit, which saved about 7 tokens" in told.out
    assert changed.out.splitlines()[1:4] == [
        "- [-Teh-] tide comes in.",
        "+ {+The+} tide comes in.",
        "^  answers error “Teh”: misspelled",
    ]
    assert [each["issues"][0]["id"] for each in json.loads(as_json.out)["lines"] if each["type"] == "answers"] == [
        slip.id
    ]
    issues = {each["text"]: each for each in json.loads(ledger.out)}
    assert (issues["“Teh”: misspelled"]["status"], issues["“Teh”: misspelled"]["fixed"]) == ("fixed", 2)
    assert (issues[CALM]["named"], issues[CALM]["declined"], issues[CALM]["why"]) == (2, 2, "it was calm")
    assert checked.code == 0, checked.err
    assert verified.code == 0, verified.err
    assert [word in left for word in (b"misspelled", b"it was calm")] == [not is_sealed] * 2
