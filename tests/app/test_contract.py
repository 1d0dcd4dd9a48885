"""The contract is AsyncAPI by AsyncAPI's own word, says what is really sent, and is the same each time."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.app.cli_calls import begin, call, one_line
from tests.app.node import CHECKERS, ROOT, installed
from tests.events.test_codec import EVENTS

from redraft.app.contract import contract
from redraft.events.bus import Letter
from redraft.events.codec import decode_event, encode_message
from redraft.events.commands import MESSAGE_NAMES, WORK_NAMES, Message, Work
from redraft.events.domain_events import EVENT_NAMES, DomainEvent
from redraft.events.envelope import Origin, Recorded
from redraft.events.filters import About
from redraft.events.rabbit_letters import event_headers, letter_headers

DOCUMENT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(contract("0.1.0")))
SENT = st.one_of([st.from_type(kind) for kind in (*WORK_NAMES, *MESSAGE_NAMES)])


def faults(name: str, part: str, value: object) -> list[str]:
    """What the contract has against the headers or the payload of a message."""
    return [error.message for error in validator(name, part).iter_errors(value)]


@cache
def validator(name: str, part: str) -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator({"$ref": f"#/components/messages/{name}/{part}", **DOCUMENT})


def golden() -> Iterator[Recorded]:
    for position, line in enumerate((ROOT / "tests/golden/v1/every-event.jsonl").read_text().splitlines(), 1):
        kept = json.loads(line)
        yield decode_event(kept["run"], kept["version"], kept["name"], kept["state"].encode(), position)


@given(event=EVENTS)
def test_any_event_fits(event: DomainEvent) -> None:
    assert not faults(EVENT_NAMES[type(event)], "payload", json.loads(msgspec.json.encode(event)))


@given(message=SENT)
def test_any_letter_fits(message: Message | Work) -> None:
    name, body = encode_message(message)
    assert not faults(name, "payload", json.loads(body))
    letter = Letter(name, body, Origin("id", "critic judge", "cause", "start", "00-aa-bb-01"), "run")
    assert not faults(name, "headers", letter_headers(letter))


def test_headers_of_recorded_events_fit() -> None:
    recorded = list(golden())
    assert {each.name for each in recorded} == set(EVENT_NAMES.values())
    for each in recorded:
        assert not faults(each.name, "headers", event_headers(each, About("article", ("spring",)), each.position - 1))


def test_everything_that_is_sent_is_described_in_the_contract() -> None:
    event = next(golden())
    described = DOCUMENT["components"]["schemas"]["EventHeaders"]["properties"]
    assert set(event_headers(event, About("article", ("spring",)), 1)) <= set(described)


@pytest.mark.parametrize(
    "change",
    [
        {"cloudEvents:type": "draft.refined.v1"},
        {"cloudEvents:specversion": "0.3"},
        {"cloudEvents:position": 0},
        {"cloudEvents:hash": "abc"},
        {"cloudEvents:subject": None},
    ],
)
def test_headers_that_do_not_fit_are_refused(change: dict[str, object]) -> None:
    event = next(golden())
    sent = event_headers(event, About("a"), 0) | change
    headers = {name: value for name, value in sent.items() if value is not None}
    assert faults(event.name, "headers", headers)


@pytest.mark.parametrize("change", [{"iteration": "one"}, {"iteration": 1.5}, {"path": None}, {"path": 3}])
def test_a_payload_that_does_not_fit_is_refused(change: dict[str, object]) -> None:
    whole: dict[str, object] = {"path": "Refinement", "iteration": 1}
    assert not faults("iteration.started.v1", "payload", whole)
    changed = {name: value for name, value in (whole | change).items() if value is not None}
    assert faults("iteration.started.v1", "payload", changed)


def test_times_are_marked_as_such() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["StepRequested"]["properties"]["due"]["format"] == "date-time"
    assert schemas["StepFailed"]["properties"]["retry_at"]["anyOf"][0]["format"] == "date-time"


def test_it_is_the_same_each_time(tmp_path: Path) -> None:
    (said,) = {begin("contract", "--json", folder=tmp_path, PYTHONHASHSEED=seed) for seed in ("1", "2", "3")}
    assert said.code == 0


def test_yaml_says_what_json_says() -> None:
    plain, as_yaml, as_json = call("contract"), call("contract", "--yaml"), call("contract", "--json")
    assert plain == as_yaml
    assert as_json.out.count("\n") == 1
    assert yaml.safe_load(plain.out) == json.loads(as_json.out)
    assert "*id" not in plain.out


def test_both_forms_at_once_are_refused() -> None:
    said = call("contract", "--json", "--yaml")
    assert (said.code, said.out) == (2, "")
    assert "leave one out" in one_line(said)


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(CHECKERS, tmp_path_factory.mktemp("contract"))


def checked(checker: Path, document: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", "asyncapi.mjs"], cwd=checker, input=document, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.check
def test_asyncapis_own_parser_takes_it(checker: Path) -> None:
    for form in ("--json", "--yaml"):
        said = checked(checker, call("contract", form).out)
        assert said.returncode == 0, said.stderr
        assert said.stdout.startswith(f"AsyncAPI 3.0.0, {len(DOCUMENT['channels'])} channels")


@pytest.mark.check
def test_asyncapis_own_parser_refuses_what_is_wrong(checker: Path) -> None:
    wrong = copy.deepcopy(DOCUMENT)
    wrong["channels"]["events"]["messages"]["run.ended.v1"] = {"$ref": "#/components/messages/run.over.v1"}
    wrong["components"]["schemas"]["Plan"]["type"] = "thing"
    said = checked(checker, json.dumps(wrong))
    assert said.returncode == 1
    assert "run.over.v1" in said.stderr
