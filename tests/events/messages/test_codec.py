"""Events and messages come back from their bytes as they went in; anything else is refused with a clear line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, cast, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.events.errors import CodecError, Tampered, UnknownName
from redraft.events.messages import commands, conditions, content, domain_events, plan, usage
from redraft.events.messages.codec import (
    GENESIS,
    UPCASTS,
    Stored,
    decode_event,
    decode_message,
    decode_work,
    encode_event,
    encode_message,
    verify_hash,
)
from redraft.events.messages.commands import MESSAGE_NAMES, WORK_NAMES, CancelRun, Message, Work
from redraft.events.messages.domain_events import DomainEvent, IterationStarted, StepFailed
from redraft.events.messages.envelope import Origin
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.plan import RULES
from redraft.events.messages.tags import MAX_TAG, MAX_TAGS, PATTERN

TIME = datetime(2026, 3, 1, 12, 0, 0, 125000, tzinfo=UTC)

TEXTS = st.text(max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(-(2**63), 2**63 - 1)
TIMES = st.datetimes(timezones=st.just(UTC))


TAGS = st.lists(st.from_regex(PATTERN, fullmatch=True).map(lambda tag: tag[:MAX_TAG]), max_size=MAX_TAGS).map(tuple)

VALUES = st.dictionaries(
    TEXTS,
    st.recursive(
        st.none() | st.booleans() | COUNTS | NUMBERS | TEXTS,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
        max_leaves=3,
    ),
    max_size=2,
)

BOUNDED = {
    content.Ordinal: st.integers(1, content.MOST_EVENTS),
    commands.Times: st.integers(0, content.MOST_EVENTS - 1),
    commands.Tokens: st.integers(0, 10**15),
}


def built(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    known: dict[str, st.SearchStrategy[Any]] = {"rules": st.integers(1, RULES), "tags": TAGS}
    known |= {"state": VALUES, "defaults": VALUES}
    given = {name: known[name] if name in known else drawn(each) for name, each in fields.items()}
    return st.builds(kind, **given)


def drawn(kind: Any) -> st.SearchStrategy[Any]:
    return BOUNDED[kind] if kind in BOUNDED else st.from_type(kind)


def conditions_of(depth: int) -> st.SearchStrategy[Any]:
    leaves = st.one_of(
        *map(
            built,
            (
                conditions.Compare,
                conditions.Approved,
                conditions.Plateau,
                conditions.Oscillating,
                conditions.Exit,
                conditions.State,
            ),
        )
    )
    if depth == 0:
        return leaves
    inner = conditions_of(depth - 1)
    some = st.lists(inner, max_size=2).map(tuple)
    groups = [st.builds(kind, some) for kind in (conditions.AnyOf, conditions.AllOf)]
    return st.one_of(leaves, *groups, st.builds(conditions.Not, inner))


def nodes_of(depth: int) -> st.SearchStrategy[Any]:
    leaves = st.one_of(built(plan.Step), built(plan.Parallel))
    if depth == 0:
        return leaves
    body = st.lists(nodes_of(depth - 1), max_size=2).map(tuple)
    fields = {field.name: st.from_type(field.type) for field in msgspec.structs.fields(plan.Repeat)}
    return st.one_of(leaves, st.builds(plan.Repeat, **{**fields, "until": conditions_of(2), "body": body}))


def register() -> None:
    """Teaches hypothesis our structs: only what JSON can carry, since whatever else is refused where it comes in."""
    st.register_type_strategy(str, TEXTS)
    st.register_type_strategy(float, NUMBERS)
    st.register_type_strategy(int, COUNTS)
    st.register_type_strategy(datetime, TIMES)
    for module in (content, plan, commands, domain_events):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in (plan.Plan, plan.Repeat):
                st.register_type_strategy(kind, built)
    counts, amounts = st.integers(0, usage.MOST), st.floats(0, usage.MOST)
    used = [counts, amounts, counts, counts, counts, counts, amounts, TEXTS, TEXTS, TEXTS]
    st.register_type_strategy(usage.Usage, st.builds(usage.Usage, *used))
    steps = st.lists(nodes_of(1), max_size=2).map(tuple)
    failing, spec = st.sampled_from(get_args(plan.OnFailure)), st.none() | st.from_type(plan.StateSpec)
    st.register_type_strategy(plan.Plan, st.builds(plan.Plan, TEXTS, steps, failing, state=spec))


register()
EVENTS = st.one_of([st.from_type(kind) for kind in EVENT_NAMES])
ORIGINS = st.builds(Origin, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS)
EVENT = StepFailed("Refinement[1]/judge", 1, "error", "no")
ORIGIN = Origin("event-1", "judge", "cause-1", "start-1", "trace-1")


def stored(event: DomainEvent = EVENT, run: str = "a", version: int = 1, previous: str = GENESIS) -> Stored:
    return encode_event(run, version, previous, TIME, ORIGIN, event)


@given(event=EVENTS, origin=ORIGINS, run=TEXTS, version=st.integers(1, 2**40), time=TIMES)
def test_an_event_comes_back_as_it_went_in(
    event: DomainEvent, origin: Origin, run: str, version: int, time: datetime
) -> None:
    kept = encode_event(run, version, GENESIS, time, origin, event)
    assert kept.name == EVENT_NAMES[type(event)]
    read = decode_event(run, version, kept.name, kept.state, 7)
    assert (read.data, read.time, read.run, read.version, read.position) == (event, time, run, version, 7)
    assert type(read.data) is type(event)
    assert Origin(read.id, read.actor, read.causation, read.correlation, read.trace, read.repeats) == origin
    assert (read.previous, read.hash) == (GENESIS, kept.hash)
    assert verify_hash(run, version, kept.name, kept.state, GENESIS) == kept.hash


@given(message=st.one_of([st.from_type(kind) for kind in MESSAGE_NAMES]))
def test_a_message_comes_back_as_it_went_in(message: Message) -> None:
    name, body = encode_message(message)
    assert (name, decode_message(name, body)) == (MESSAGE_NAMES[type(message)], message)


@pytest.mark.check
@given(work=st.one_of([st.from_type(kind) for kind in WORK_NAMES]))
def test_work_comes_back_as_it_went_in(work: Work) -> None:
    name, body = encode_message(work)
    assert (name, decode_work(name, body)) == (WORK_NAMES[type(work)], work)


def test_names_are_used_once() -> None:
    names = [*EVENT_NAMES.values(), *MESSAGE_NAMES.values(), *WORK_NAMES.values()]
    assert len(set(names)) == len(names)


def test_the_hash_depends_on_all_that_is_stored() -> None:
    one = stored()
    others = [
        stored(run="b"),
        stored(version=2),
        stored(previous="1" * 64),
        stored(StepFailed("Refinement[1]/judge", 1, "error", "yes")),
        stored(StepFailed("Refinement[1]/judge", 1, "invalid", "no")),
        encode_event("a", 1, GENESIS, TIME.replace(second=1), ORIGIN, EVENT),
        encode_event("a", 1, GENESIS, TIME, Origin("event-1", "other", "cause-1", "start-1", "trace-1"), EVENT),
    ]
    assert len({one.hash, *(other.hash for other in others)}) == 1 + len(others)
    assert stored() == one


Change = Callable[[bytes], bytes]
TAMPERED: dict[str, Change] = {
    "content": lambda state: state.replace(b'"no"', b'"on"'),
    "hash": lambda state: state.replace(state[9:73], b"0" * 64),
    "without a hash": lambda state: b"{" + state[76:],
    "cut short": lambda state: state[:-1],
    "longer": lambda state: state + b" ",
    "empty": lambda state: b"",
    "no json": lambda state: b"\xff\xfe",
}


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
def test_a_changed_event_does_not_verify(change: Change) -> None:
    kept = stored()
    assert change(kept.state) != kept.state
    with pytest.raises(Tampered, match=r"event 1 of run a \(step.failed.v1\)"):
        verify_hash("a", 1, kept.name, change(kept.state), GENESIS)


def test_an_event_in_another_place_does_not_verify() -> None:
    kept = stored()
    for run, version, name in (("b", 1, kept.name), ("a", 2, kept.name), ("a", 1, "loop.ended.v1")):
        with pytest.raises(Tampered, match=f"event {version} of run {run}"):
            verify_hash(run, version, name, kept.state, GENESIS)
    with pytest.raises(Tampered, match="does not follow"):
        verify_hash("a", 1, kept.name, kept.state, "1" * 64)


REFUSED: dict[str, Change] = {
    "empty": lambda state: b"",
    "no json": lambda state: b"{",
    "no utf-8": lambda state: state.replace(b'"no"', b'"\xff"'),
    "a list": lambda state: b"[" + state + b"]",
    "missing field": lambda state: state.replace(b'"attempt":1,', b""),
    "missing id": lambda state: state.replace(b'"id":"event-1",', b""),
    "wrong type": lambda state: state.replace(b'"attempt":1', b'"attempt":"1"'),
    "fraction": lambda state: state.replace(b'"attempt":1', b'"attempt":1.5'),
    "unknown kind": lambda state: state.replace(b'"error"', b'"bad luck"'),
    "no time": lambda state: state.replace(b"2026-03-01T", b"yesterday "),
    "null": lambda state: state.replace(b'"no"', b"null"),
    "too deep": lambda state: b"[" * 100_000,
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_what_is_no_event_is_refused(change: Change) -> None:
    kept = stored()
    assert change(kept.state) != kept.state
    with pytest.raises(CodecError, match=r"event 1 of run a \(step.failed.v1\) cannot be read") as caught:
        decode_event("a", 1, kept.name, change(kept.state))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "change"), [(b'"attempt":1', b'"attempt":1,"mood":1'), (b'"actor"', b'"mood":1,"actor"')]
)
def test_a_field_that_a_later_release_added_is_passed_over(field: bytes, change: bytes) -> None:
    kept = stored()
    newer = kept.state.replace(field, change)
    assert newer != kept.state
    assert decode_event("a", 1, kept.name, newer) == decode_event("a", 1, kept.name, kept.state)
    assert decode_message("run.cancel.v1", b'{"run":"a","reason":"x","mood":1}') == CancelRun("a", "x")


@pytest.mark.parametrize("field", ["id", "previous", "hash"])
@pytest.mark.parametrize("place", [b',"data":', b',"causation":'])
def test_a_field_that_is_there_twice_is_refused(field: str, place: bytes) -> None:
    """The database compares the first one, and JSON has the last one count."""
    kept = stored()
    doubled = kept.state.replace(place, b',"%b":"%b"%b' % (field.encode(), b"f" * 64, place))
    assert doubled != kept.state
    with pytest.raises(CodecError, match=r"event 1 of run a .* is not in its place, or is there twice"):
        decode_event("a", 1, kept.name, doubled)


@pytest.mark.parametrize(
    "plan", [b'{"name":"p","steps":[],"mood":1}', b'{"name":"p","steps":[{"node":"step","role":"critic","mood":1}]}']
)
def test_a_plan_with_what_is_not_known_is_refused(plan: bytes) -> None:
    body = b'{"plan":%b,"brief":{"text":"x"},"at":"2026-03-01T12:00:00Z"}' % plan
    state = b'{"id":"a","time":"2026-03-01T12:00:00Z","previous":"","actor":"x","data":%b}' % body
    with pytest.raises(CodecError, match="cannot be read"):
        decode_event("a", 1, "run.started.v1", state)


@pytest.mark.parametrize(
    "name", ["", "step.failed.v2", "redraft.events.messages.domain_events:StepFailed", "os.system"]
)
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(UnknownName, match="later version"):
        decode_event("a", 1, name, stored().state)
    for decode in (decode_message, decode_work):
        with pytest.raises(UnknownName):
            decode(name, b"{}")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"run":"a"}', b'{"run":1,"reason":"x"}'])
def test_what_is_no_message_is_refused(body: bytes) -> None:
    with pytest.raises(CodecError, match=r"run.cancel.v1 cannot be read") as caught:
        decode_message("run.cancel.v1", body)
    assert "\n" not in str(caught.value)


class Failed0(msgspec.Struct, frozen=True):
    """An event as an earlier version wrote it."""

    where: str
    text: str


def renamed(data: dict[str, object]) -> dict[str, object]:
    return {"path": data["where"], "message": data["text"], "attempt": 1, "why": "error"}


def kinded(data: dict[str, object]) -> dict[str, object]:
    rest = {key: value for key, value in data.items() if key != "why"}
    return {**rest, "kind": data["why"], "retry_at": "2026-03-01T12:00:00Z"}


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> Stored:
    """An event of a version two before the current one, as it lies in the store."""
    monkeypatch.setitem(cast("dict[type, str]", EVENT_NAMES), Failed0, "step.failed.v-1")
    monkeypatch.setitem(UPCASTS, "step.failed.v-1", ("step.failed.v0", renamed))
    monkeypatch.setitem(UPCASTS, "step.failed.v0", ("step.failed.v1", kinded))
    return stored(Failed0("Loop[1]/judge", "no"))  # type: ignore[arg-type]


def test_an_event_of_an_older_version_is_read_as_the_current_one(old: Stored) -> None:
    event = decode_event("a", 1, old.name, old.state)
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert event.data == StepFailed("Loop[1]/judge", 1, "error", "no", at)
    assert (event.id, event.actor, event.causation, event.hash) == ("event-1", "judge", "cause-1", old.hash)
    assert event.name == "step.failed.v-1", "what lies in the store is told as it is"


def test_an_event_of_an_older_version_verifies_as_it_was_written(old: Stored) -> None:
    assert verify_hash("a", 1, old.name, old.state, GENESIS) == old.hash
    with pytest.raises(Tampered):
        verify_hash("a", 1, old.name, old.state.replace(b'"no"', b'"on"'), GENESIS)


def test_an_old_event_that_its_upcaster_cannot_read_is_refused(old: Stored) -> None:
    with pytest.raises(CodecError, match="cannot be read"):
        decode_event("a", 1, old.name, old.state.replace(b'"no"', b"7"))


def test_the_data_of_an_event_may_be_as_small_as_can_be() -> None:
    kept = stored(IterationStarted("Loop", 1))
    assert kept.state.endswith(b'"trace":"trace-1"}')
    assert b'"data":{"path":"Loop","iteration":1}' in kept.state


LOOP = b'{"node":"repeat","name":"a","until":{"kind":"approved"},"max_iterations":1,"body":['
DEEP = b'{"run":"r","plan":{"name":"p","steps":[%b%b]},"brief":{"text":"b"}}' % (LOOP * 5000, b"]}" * 5000)


@pytest.fixture
def usual_depth() -> Iterator[None]:
    """Python's own limit of nested calls: a library that another test imports may have raised it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("usual_depth")
def test_what_nests_deeper_than_can_be_followed_cannot_be_read() -> None:
    with pytest.raises(CodecError, match=r"run.start.v1 cannot be read: maximum recursion depth"):
        decode_message("run.start.v1", DEEP)


@pytest.mark.parametrize(
    "usage", [b'{"tokens":1000000000000001}', b'{"tokens":-1}', b'{"cost":1e16}', b'{"calls":1e99}']
)
def test_a_usage_that_no_sum_could_hold_cannot_be_read(usage: bytes) -> None:
    with pytest.raises(CodecError, match=r"outcome.generated.v1 cannot be read"):
        decode_message("outcome.generated.v1", b'{"run":"r","path":"p","attempt":1,"text":"x","usage":%b}' % usage)
