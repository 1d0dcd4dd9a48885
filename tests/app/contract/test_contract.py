"""The contract is AsyncAPI by AsyncAPI's own word, says what is really sent, and is the same each time."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import aio_pika
import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.app.cli_calls import begin, call, document, one_line
from tests.app.node import CHECKERS, ROOT, installed
from tests.events.messages.test_codec import EVENTS
from tests.events.rabbit_server import URL, new_prefix, rabbit

from redraft.app.contract.asyncapi import contract
from redraft.events.bus.port import INBOX, BusMessage, work_queue
from redraft.events.messages.codec import decode_event, encode_message
from redraft.events.messages.commands import MESSAGE_NAMES, WORK_NAMES, CancelRun, Message, Work
from redraft.events.messages.content import MOST_EVENTS
from redraft.events.messages.domain_events import DomainEvent
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.filters import RunFacts
from redraft.events.rabbit.cloudevents import event_headers, message_headers
from redraft.events.rabbit.event_batches import announce, to_stream
from redraft.events.rabbit.structured_events import BATCH, write_batch
from redraft.events.rabbit.topology import Kind, Names

DOCUMENT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(contract("0.1.0")))
SENT = st.one_of([st.from_type(kind) for kind in (*WORK_NAMES, *MESSAGE_NAMES)])


def faults(name: str, part: str, value: object) -> list[str]:
    """What the contract has against the headers or the payload of a message."""
    return [error.message for error in validator(name, part).iter_errors(value)]


@cache
def validator(name: str, part: str) -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator({"$ref": f"#/components/messages/{name}/{part}", **DOCUMENT})


def bounded(value: Any, field: str = "") -> Any:
    """What was drawn, with the fields for which there are bounds within them, as in what is sent and recorded."""
    match value:
        case dict():
            return {name: bounded(each, name) for name, each in value.items()}
        case list():
            return [bounded(each, field) for each in value]
        case int() | float() if field in ("score", "samples"):
            return min(max(value, 0.0), 1.0)
        case int() if field == "version":
            return min(max(value, 1), MOST_EVENTS)
        case int() | float() if field == "timeout":
            return max(value, 0.1)
        case "" if field in ("run", "text", "quote"):
            return "x"
        case _:
            return value


def golden() -> Iterator[Recorded]:
    streams = ("v1/every-event.jsonl", "v7/late.jsonl", "v8/state.jsonl", "v9/lessons.jsonl")
    lines = [line for name in streams for line in (ROOT / "tests/golden" / name).read_text().splitlines()]
    for position, line in enumerate(lines, 1):
        kept = json.loads(line)
        yield decode_event(kept["run"], kept["version"], kept["name"], kept["state"].encode(), position)


@given(event=EVENTS)
def test_any_event_fits(event: DomainEvent) -> None:
    assert not faults(EVENT_NAMES[type(event)], "payload", bounded(json.loads(msgspec.json.encode(event))))


@given(message=SENT)
def test_any_letter_fits(message: Message | Work) -> None:
    name, body = encode_message(message)
    assert not faults(name, "payload", bounded(json.loads(body)))
    bus_message = BusMessage(name, body, Origin("id", "critic judge", "cause", "start", "00-aa-bb-01"), "run")
    assert not faults(name, "headers", message_headers(bus_message))


def test_headers_of_recorded_events_fit() -> None:
    recorded = list(golden())
    assert {each.name for each in recorded} == set(EVENT_NAMES.values())
    for each in recorded:
        assert not faults(
            each.name, "headers", event_headers(each, RunFacts("article", ("spring",)), each.position - 1)
        )


def test_a_batch_of_recorded_events_fits() -> None:
    events, facts = list(golden()), RunFacts("article", ("spring",))
    batches = list(to_stream("stream", announce(events, {each.run: facts for each in events})))
    assert {(each.exchange, each.key, each.kind) for each in batches} == {("", "stream", BATCH)}
    assert all(not faults("cloudevents.batch.events", "payload", json.loads(each.body)) for each in batches)


def test_everything_that_is_sent_is_described_in_the_contract() -> None:
    event = next(golden())
    described = DOCUMENT["components"]["schemas"]["EventHeaders"]["properties"]
    assert set(event_headers(event, RunFacts("article", ("spring",)), 1)) <= set(described)


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
    sent = event_headers(event, RunFacts("a"), 0) | change
    headers = {name: value for name, value in sent.items() if value is not None}
    assert faults(event.name, "headers", headers)


@pytest.mark.parametrize("change", [{"iteration": "one"}, {"iteration": 1.5}, {"path": None}, {"path": 3}])
def test_a_payload_that_does_not_fit_is_refused(change: dict[str, object]) -> None:
    whole: dict[str, object] = {"path": "Refinement", "iteration": 1}
    assert not faults("iteration.started.v1", "payload", whole)
    changed = {name: value for name, value in (whole | change).items() if value is not None}
    assert faults("iteration.started.v1", "payload", changed)


OUTCOME: dict[str, object] = {"run": "r", "path": "judge", "attempt": 1, "draft": {"version": 1, "sha256": "0" * 64}}


@pytest.mark.parametrize(
    "change",
    [
        {"critique": {"score": 1.1}},
        {"critique": {"score": -0.1}},
        {"critique": {"score": 1, "samples": [2]}},
        {"draft": {"version": 0, "sha256": "0" * 64}},
        {"run": "r" * 201},
        {"attempt": 0},
    ],
)
def test_what_is_out_of_bounds_is_refused(change: dict[str, object]) -> None:
    whole = {**OUTCOME, "critique": {"score": 0.5}}
    assert not faults("outcome.critiqued.v1", "payload", whole)
    assert faults("outcome.critiqued.v1", "payload", whole | change)


def with_new_fields(value: Any, place: str = "") -> Any:
    """The same with a field that a later release may add, in every object; options are not fields."""
    match value:
        case dict() if place not in ("options", "weights"):
            return {"new_field": {"deep": 1}, **{name: with_new_fields(each, name) for name, each in value.items()}}
        case list():
            return [with_new_fields(each, place) for each in value]
        case _:
            return value


def test_new_fields_of_events_pass() -> None:
    for each in golden():
        data = with_new_fields(json.loads(msgspec.json.encode(each.data)))
        assert not faults(each.name, "payload", data), each.name


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a schema, those that are values of `default` left out."""
    if isinstance(value, dict):
        yield value
        for name, each in value.items():
            yield from nodes(each) if name != "default" else ()
    elif isinstance(value, list):
        for each in value:
            yield from nodes(each)


def test_every_enum_and_union_has_a_title_of_its_own() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    named: dict[str, str] = {}
    for each in nodes([schemas[name] for name in schemas if not name.endswith("Headers")]):
        several = [choice for choice in each.get("anyOf", ()) if choice != {"type": "null"}]
        if "enum" in each or len(several) > 1:
            said = json.dumps(sorted(map(json.dumps, each.get("enum") or several)))
            assert schemas.get(each["title"], each) == each
            assert named.setdefault(each["title"], said) == said, each["title"]
    assert {"Role", "Outcome", "Condition", "Node", "Option"} <= set(named)


def followed(value: Any, within: tuple[str, ...] = ()) -> int:
    """How many values a parser reads that resolves each reference anew, until one is within itself."""
    match value:
        case {"$ref": str(place)}:
            if place in within:
                return 1
            found: Any = DOCUMENT
            for name in place.removeprefix("#/").split("/"):
                found = found[name]
            return followed(found, (*within, place))
        case dict():
            return 1 + sum(followed(each, within) for each in value.values())
        case list():
            return 1 + sum(followed(each, within) for each in value)
        case _:
            return 1


def test_a_parser_that_resolves_each_reference_anew_has_little_to_read() -> None:
    """A plan was 105,000 values, and AsyncAPI's own parser took minutes: loops and conditions contain each other."""
    assert 1_000 < followed({"$ref": "#/components/schemas/Plan"}) < 4_000


def test_no_channel_has_the_name_of_a_schema() -> None:
    """Generators make types of both."""
    schemas = {name.casefold() for name in DOCUMENT["components"]["schemas"]}
    assert not schemas & {name.casefold() for name in DOCUMENT["channels"]}


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_queues_have_the_arguments_and_bindings_that_the_contract_states(kind: Kind) -> None:
    """A server refuses a declaration with other arguments."""
    prefix = new_prefix()
    stated = contract("0.1.0", prefix, kind)["channels"]
    async with rabbit(prefix=prefix, kind=kind) as bus, await aio_pika.connect(URL) as connection:
        await bus.prepare()
        await bus.publish(work_queue("critic", "judge"), [BusMessage("x", b"{}", Origin("id", "test"), "run")])
        channel = await connection.channel()
        for name in ("work", "inbox", "stream", "dead-letters"):
            queue = stated[name]["bindings"]["amqp"]["queue"]
            place = queue["name"].replace("{role}.{actor}", "critic.judge")
            made = await channel.declare_queue(place, durable=True, arguments=queue["x-arguments"])
            for bound in queue["x-bindings"]:
                exchange, key = (
                    bound[each].replace("{role}.{actor}", "critic.judge") for each in ("exchange", "routingKey")
                )
                await made.bind(await channel.get_exchange(exchange), key)
    assert {"x-dead-letter-exchange", "x-overflow"} <= set(stated["work"]["bindings"]["amqp"]["queue"]["x-arguments"])


def test_the_contract_says_what_a_free_step_is_given_and_answers() -> None:
    assert DOCUMENT["x-limits"]["stateBytes"] == 256 * 1024
    schemas = DOCUMENT["components"]["schemas"]
    assert "state" in schemas["Request"]["properties"]
    assert {"draft", "critique", "history"}.isdisjoint(schemas["RunStep"]["required"])
    values = {"list": [1, {"deep": None}], "text": "x", "share": 0.5, "yes": True}
    whole = {"run": "r", "path": "research", "attempt": 1, "state": values}
    assert not faults("outcome.completed.v1", "payload", whole)
    assert faults("outcome.completed.v1", "payload", whole | {"state": [values]})
    assert not faults("outcome.critiqued.v1", "payload", {**OUTCOME, "critique": {"score": 1}, "state": values})
    assert "step" in DOCUMENT["channels"]["work"]["parameters"]["role"]["enum"]


def test_the_contract_says_which_outcome_answers_which_command() -> None:
    answers = {
        operation["messages"][0]["$ref"].rpartition("/")[2]: [
            each["$ref"].rpartition("/")[2] for each in operation["reply"]["messages"]
        ]
        for operation in DOCUMENT["operations"].values()
        if operation["channel"] == {"$ref": "#/channels/work"}
    }
    rest = ["outcome.failed.v1", "step.confirm.v1"]
    assert answers == {
        "draft.generate.v1": ["outcome.generated.v1", *rest],
        "draft.critique.v1": ["outcome.critiqued.v1", *rest],
        "draft.refine.v1": ["outcome.refined.v1", *rest],
        "draft.publish.v1": ["outcome.published.v1", *rest],
        "step.run.v1": ["outcome.completed.v1", *rest],
    }


def test_a_batch_fits() -> None:
    name, body = encode_message(CancelRun("r", "enough"))
    bus_message = BusMessage(name, body, Origin("id", "ann"), "r")
    assert not faults("cloudevents.batch", "payload", json.loads(write_batch([bus_message] * 2)))
    assert faults("cloudevents.batch", "payload", [{"id": "x"}])


@pytest.mark.check
def test_types_made_of_it_compile_strictly_in_typescript(checker: Path) -> None:
    (checker / "contract.json").write_text(json.dumps(DOCUMENT))
    for command in (
        ["quicktype", "-s", "schema", "contract.json#/components/schemas/", "-l", "ts", "-o", "contract.ts"],
        ["tsc", "--strict", "--noEmit", "--typeRoots", "none", "--target", "es2022", "contract.ts"],
    ):
        done = subprocess.run(
            ["npx", "--no", "--", *command], cwd=checker, capture_output=True, text=True, timeout=170, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    types = re.findall(r"^export (?:interface|type|enum) (\w+)", (checker / "contract.ts").read_text(), re.MULTILINE)
    assert {"Critiqued", "History", "Condition", "Role", "Outcome"} <= set(types)
    assert not [each for each in types if re.match("Purple|Fluffy|Tentacled|Sticky|Indigo", each)]


def test_times_are_marked_as_such() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["StepRequested"]["properties"]["due"]["format"] == "date-time"
    assert schemas["StepFailed"]["properties"]["retry_at"]["anyOf"][0]["format"] == "date-time"


@pytest.mark.check
def test_it_is_the_same_each_time(tmp_path: Path) -> None:
    (said,) = {begin("contract", "--json", folder=tmp_path, PYTHONHASHSEED=seed) for seed in ("1", "2", "3")}
    assert said.code == 0


@pytest.mark.check
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
        ["node", "asyncapi.mjs"],
        cwd=checker,
        input=document,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


@pytest.mark.check
def test_asyncapis_own_parser_takes_it(checker: Path) -> None:
    said = checked(checker, call("contract", "--json").out)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith(f"AsyncAPI 3.0.0, {len(DOCUMENT['channels'])} channels")


@pytest.mark.check
def test_asyncapis_own_parser_refuses_what_is_wrong(checker: Path) -> None:
    wrong = copy.deepcopy(DOCUMENT)
    wrong["channels"]["events"]["messages"]["run.ended.v1"] = {"$ref": "#/components/messages/run.over.v1"}
    said = checked(checker, json.dumps(wrong))
    assert said.returncode == 1
    assert "run.over.v1" in said.stderr
    wrong = copy.deepcopy(DOCUMENT)
    wrong["components"]["schemas"]["RunEnded"]["type"] = "thing"
    assert checked(checker, json.dumps(wrong)).returncode == 1


def test_the_contract_follows_the_settings_of_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert document("contract") == DOCUMENT | {"info": document("contract")["info"]}
    monkeypatch.setenv("REDRAFT_BROKER_PREFIX", "acme")
    kinds = {
        name: DOCUMENT["channels"][name]["bindings"]["amqp"]["queue"]["x-queue-type"] for name in ("work", "inbox")
    }
    assert kinds == {"work": "classic", "inbox": "quorum"}
    monkeypatch.setenv("REDRAFT_QUEUE_TYPE", "classic")
    channels = document("contract")["channels"]
    named = Names("acme")
    places = {name: channel["bindings"]["amqp"] for name, channel in channels.items()}
    assert {places[each]["exchange"]["name"] for each in ("commands", "incoming", "events")} == {
        named.commands,
        named.incoming,
        named.events,
    }
    assert channels["inbox"]["address"] == places["inbox"]["queue"]["name"] == named.there(INBOX)
    assert channels["work"]["address"] == "acme.{role}.{actor}"
    assert channels["dead-letters"]["address"] == named.dead_letters
    kinds = {name: place["queue"]["x-queue-type"] for name, place in places.items() if "queue" in place}
    assert kinds == {
        "work": "classic",
        "inbox": "classic",
        "inbox-partition": "classic",
        "stream": "stream",
        "dead-letters": "quorum",
    }
