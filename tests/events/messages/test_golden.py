"""What was recorded once can be read for ever, and no event's shape changes without a new version."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from redraft.events.encryption.cipher import Cipher
from redraft.events.messages import codec
from redraft.events.messages.codec import GENESIS, UPCASTS, decode_event, verify_hash
from redraft.events.messages.domain_events import DraftCritiqued, RunStarted
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.store.event_store import EventStore
from redraft.events.store.recorder import MemoryRecorder, Opened, StoredEvent

GOLDEN = Path(__file__).parents[2] / "golden"
STREAMS = sorted(GOLDEN.glob("v*/*.jsonl"))
WRITE = runpy.run_path(str(GOLDEN / "write.py"))

REMEDY = (
    "the shape of {} is not the one that was recorded in tests/golden/shapes.json. People's databases hold events of "
    "this name: give the changed event a new name in EVENT_NAMES, and an upcaster from the old name in codec.UPCASTS; "
    "then run `python tests/golden/write.py` and `python tests/golden/write.py --stream v2` (the next free number)."
)
NEW = "{} is new: run `python tests/golden/write.py` to record its shape"
GONE = "{} was recorded, and nothing reads it any more: put an upcaster from this name into codec.UPCASTS"


def recorded_shapes() -> dict[str, Any]:
    shapes: dict[str, Any] = json.loads((GOLDEN / "shapes.json").read_text())
    return shapes


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", EVENT_NAMES.values())
def test_the_shape_of_an_event_is_the_one_that_was_recorded(name: str) -> None:
    recorded = recorded_shapes()
    assert name in recorded, NEW.format(name)
    assert WRITE["shapes"]()[name] == recorded[name], REMEDY.format(name)


@pytest.mark.parametrize("name", recorded_shapes())
def test_every_name_that_was_ever_recorded_leads_to_a_current_event(name: str) -> None:
    seen = [name]
    while seen[-1] not in EVENT_NAMES.values():
        assert seen[-1] in UPCASTS, GONE.format(seen[-1])
        seen.append(UPCASTS[seen[-1]][0])
        assert len(set(seen)) == len(seen), f"the upcasters of {name} go in a circle: {seen}"


def test_an_added_field_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = WRITE["changed"]
    assert changed(recorded_shapes()) == []

    fields: list[Any] = [(field.name, field.type) for field in msgspec.structs.fields(DraftCritiqued)]
    fields.append(("mood", str, "fair"))
    other = msgspec.defstruct("DraftCritiqued", fields, frozen=True, forbid_unknown_fields=True, omit_defaults=True)
    names: dict[Any, str] = {other if kind is DraftCritiqued else kind: name for kind, name in EVENT_NAMES.items()}
    monkeypatch.setitem(WRITE["shapes"].__globals__, "EVENT_NAMES", names)
    assert changed(recorded_shapes()) == ["draft.critiqued.v1"]


def test_a_changed_plan_is_noticed_and_a_changed_docstring_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = msgspec.json.schema(RunStarted)
    schema["$defs"]["RunStarted"]["description"] = "said otherwise"
    monkeypatch.setattr(msgspec.json, "schema", lambda _: schema)
    monkeypatch.setitem(WRITE["shapes"].__globals__, "EVENT_NAMES", {RunStarted: "run.started.v1"})
    assert WRITE["changed"](recorded_shapes()) == []
    schema["$defs"]["Retry"]["properties"]["attempts"]["default"] = 4
    assert WRITE["changed"](recorded_shapes()) == ["run.started.v1"]


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recorded_stream_can_be_read_and_verified(path: Path) -> None:
    previous = GENESIS
    for line in lines(path):
        place = (line["run"], line["version"], line["name"], line["state"].encode())
        assert verify_hash(*place, previous) == line["hash"]
        event = decode_event(*place)
        assert (event.hash, event.previous) == (line["hash"], previous)
        assert type(event.data) in EVENT_NAMES
        previous = line["hash"]


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
async def test_a_store_reads_and_verifies_a_recorded_stream(path: Path) -> None:
    recorder = MemoryRecorder()
    rows = [StoredEvent(line["run"], line["version"], line["name"], line["state"].encode()) for line in lines(path)]
    recorder.insert_events(rows)
    async with EventStore(Opened(recorder, "memory:", False, lambda: None)) as store:
        run = str(rows[0].originator_id)
        assert await store.verify(run) == len(rows)
        assert len(await store.read(run)) == len(rows)


def test_the_streams_hold_every_event_there_ever_was() -> None:
    assert {line["name"] for path in STREAMS for line in lines(path)} == set(recorded_shapes())


def test_todays_events_are_written_as_the_newest_stream_says() -> None:
    """Not only what can be read, but what is written, stays as it is: other programs read it too."""
    newest = max(GOLDEN.glob("v*"), key=lambda folder: int(folder.name[1:]))
    for name, key in WRITE["STREAMS"].items():
        assert list(WRITE["stream"](key)) == lines(newest / name)


@pytest.mark.parametrize("name", WRITE["ADDED"])
def test_what_was_added_to_events_is_written_as_its_stream_says(name: str) -> None:
    newest = max(GOLDEN.glob("v*"), key=lambda folder: int(folder.name[1:]))
    assert list(WRITE["stream"](told=WRITE["ADDED"][name])) == lines(newest / name)


def test_measures_are_no_texts_and_stay_when_texts_are_sealed_or_erased() -> None:
    seal = Cipher(WRITE["RUN"], bytes(range(64)))
    for line in WRITE["stream"](bytes(range(64)), WRITE["ADDED"]["measures.jsonl"]):
        place = (line["run"], line["version"], line["name"])
        clear = decode_event(*place, line["state"].encode(), 0, lambda _: seal).data
        erased = decode_event(*place, line["state"].encode(), 0, lambda _: None).data
        for event in (clear, erased):
            if isinstance(event, DraftCritiqued):
                assert event.critique.measures == {"failing": 0, "coverage": 0.81}
            if isinstance(event, RunStarted):
                assert event.plan.steps[1].body[0].measures == ("failing", "coverage?")  # type: ignore[union-attr]


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("v*/sealed.jsonl")), ids=lambda path: path.parent.name)
def test_the_texts_of_a_sealed_stream_can_be_opened_for_ever(path: Path) -> None:
    seal = Cipher(WRITE["RUN"], WRITE["STREAMS"]["sealed.jsonl"])
    plain = lines(path.with_name("every-event.jsonl"))
    for line, clear in zip(lines(path), plain, strict=True):
        place = (line["run"], line["version"], line["name"])
        opened = decode_event(*place, line["state"].encode(), 0, lambda _: seal)
        assert opened.data == decode_event(*place, clear["state"].encode()).data


def test_a_stream_that_was_recorded_is_never_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert "is there already" in WRITE["main"](["--stream", "v1"])
    assert capsys.readouterr().out == ""


def test_no_current_event_is_upcast() -> None:
    assert set(codec.UPCASTS).isdisjoint(EVENT_NAMES.values())
