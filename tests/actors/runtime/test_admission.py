"""What may come in: bounds of messages and requests, whatever the state of their run."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.scenarios.test_known_faults import IMPROVE, JUDGE, plan_of

from redraft.actors.runtime.admission import Admission
from redraft.events.bus.port import BusMessage
from redraft.events.errors import CodecError, ContentError, InputError, PlanError
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import (
    CancelRun,
    Completed,
    ConfirmStep,
    Critiqued,
    CritiqueDraft,
    EditDraft,
    ExpireStep,
    Failed,
    Generate,
    Generated,
    Message,
    Published,
    Refined,
    Request,
    RunStep,
    StartRun,
    StrikeLesson,
    Work,
)
from redraft.events.messages.content import Brief, Critique, DraftRef, Files, Receipt, new_draft
from redraft.events.messages.domain_events import ItemOf, Parent
from redraft.events.messages.envelope import Origin
from redraft.events.messages.item_ids import run_of_item
from redraft.events.messages.plan import Plan, StateField, StateSpec
from redraft.events.messages.usage import Usage

LIMIT, LARGEST = 1000, 5000
DOOR = Admission(LIMIT, LARGEST)
PLAN = plan_of(JUDGE, IMPROVE)
TYPED = replace(PLAN, state=StateSpec((StateField("n", "int"),)))
LONG = "x" * (LIMIT + 1)
REF = DraftRef(1, "0" * 64)


def bus_message(message: Message | Work) -> BusMessage:
    return BusMessage(*encode_message(message), Origin("id", "somebody"), "r")


def request(text: str = "b") -> Request:
    return Request("r/p#1", "r", "p", "write", 1, 5.0, Brief(text))


@pytest.mark.parametrize(
    ("message", "fault", "said"),
    [
        (StartRun("r", PLAN, Brief(LONG)), ContentError, "brief: 1,001 bytes, more than the limit of 1,000"),
        (StartRun("r", PLAN, Brief(" ")), ContentError, "brief: the text is empty"),
        (StartRun("r", Plan("p", ()), Brief("b")), PlanError, "has no steps"),
        (StartRun("r", PLAN, Brief("b"), of=ItemOf("book", "Chapters[1]")), InputError, "is none of an item"),
        (StartRun(run_of_item(ItemOf("book", "C[1]")), PLAN, Brief("b")), InputError, "is none of an item"),
        (StartRun("r", TYPED, Brief("b", state={"m": 1})), InputError, "state: m is no value of the plan's state"),
        (StartRun("r", TYPED, Brief("b"), state={"n": "x"}), InputError, "state: n is 'x'; the plan's state has int"),
        (StartRun("r", PLAN, Brief("b", state={"a b": 1})), InputError, "state: 'a b' cannot name a value"),
        (Critiqued("r", "p", 1, REF, Critique(1.0, (LONG,))), InputError, "bytes beside a draft"),
        (Completed("r", "p", 1, {"a": LONG}), InputError, "bytes beside a draft"),
        (Refined("r", "p", 1, "text", (LONG,)), InputError, "bytes beside a draft"),
        (Published("r", "p", 1, REF, Receipt(LONG)), InputError, "bytes beside a draft"),
        (Failed("r", "p", 1, "error", LONG), InputError, "bytes beside a draft"),
        (CancelRun("r", LONG), InputError, "bytes beside a draft"),
        (Generated("r", "p", 1, LONG * 5), CodecError, "more than the 5,000 that a message may have"),
        (CancelRun("\N{CUNEIFORM SIGN A}" * 201, "x"), CodecError, "cannot be the id of a run"),
        (StartRun("\N{CUNEIFORM SIGN A}" * 51, PLAN, Brief("b")), CodecError, "cannot be the id of a run"),
        (CancelRun("a\nb", "x"), CodecError, "'a\\nb' cannot be the id of a run"),
        (StartRun("r", PLAN, Brief("b"), parent=Parent("p", 2**63)), CodecError, "9223372036854775808 cannot be the"),
        (StartRun("r", PLAN, Brief("b"), parent=Parent("p", 0)), CodecError, "0 cannot be the version"),
        (StartRun("r", PLAN, Brief("b"), parent=Parent("p", -1)), CodecError, "-1 cannot be the version"),
        (Critiqued("r", "p", 1, DraftRef(2**63, "0"), Critique(1.0)), CodecError, "9223372036854775808 cannot be"),
        (StrikeLesson("r", "x" * 17, "ann"), CodecError, "'xxxxxxxxxxxxxxxxx' cannot be the id of a lesson"),
        (StrikeLesson("r", "語" * 1000, "ann"), CodecError, "cannot be the id of a lesson"),
        (StrikeLesson("r", "", "ann"), CodecError, "'' cannot be the id of a lesson"),
        (EditDraft("r", DraftRef(-1, "0"), "text"), CodecError, "-1 cannot be the version of an event or a draft"),
        (Failed("r", "p", 2**63, "error", "x"), CodecError, "outcome.failed.v1 cannot be read"),
        (ExpireStep("r", "p", 0), CodecError, "step.expire.v1 cannot be read"),
        (ConfirmStep("r", "p", 1, 2**31 - 1), CodecError, "step.confirm.v1 cannot be read"),
    ],
)
def test_a_message_beyond_its_bounds_is_refused(message: Message, fault: type[Exception], said: str) -> None:
    with pytest.raises(fault) as refused:
        DOOR.message(bus_message(message))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "message",
    [
        StartRun("r", PLAN, Brief("x" * LIMIT)),
        StartRun("r", PLAN, Brief("b")),
        Generated("r", "p", 1, LONG),
        Refined("r", "p", 1, LONG, ("x" * 800,)),
        Critiqued("r", "p", 1, REF, Critique(1.0, ("x" * 700,))),
    ],
)
def test_what_is_within_its_bounds_comes_in_and_of_a_large_draft_the_decider_says_it(message: Message) -> None:
    assert DOOR.message(bus_message(message)) == message
    assert DOOR.message(bus_message(message)) == message


@pytest.mark.parametrize("what", ["id", "actor", "causation", "correlation", "trace"])
def test_what_is_said_around_a_message_has_bounds_too(what: str) -> None:
    for value, said in (
        ("x" * 1001, f"its attribute {what} has 1,001 bytes"),
        ("\N{CUNEIFORM SIGN A}" * 251, f"its attribute {what} has 1,004 bytes"),
        ("a\0b", "holds the character"),
        ("a\ud800b", "holds half a character"),
    ):
        came = replace(Origin("id", "somebody"), **{what: value})
        for door, message in ((DOOR.message, CancelRun("r", "x")), (DOOR.work, Generate(request()))):
            with pytest.raises(CodecError, match=said):
                door(BusMessage(*encode_message(message), came, "r"))


def test_a_run_that_began_with_an_id_of_as_many_letters_is_still_spoken_to() -> None:
    message = CancelRun("\N{CUNEIFORM SIGN A}" * 200, "x")
    assert DOOR.message(bus_message(message)) == message


def test_the_id_of_a_message_leaves_room_for_what_its_events_and_the_relay_add() -> None:
    name, body = encode_message(CancelRun("r", "x"))
    with pytest.raises(CodecError, match="its attribute id has 901 bytes; the limit is 900"):
        DOOR.message(BusMessage(name, body, Origin("x" * 901, "somebody"), "r"))
    for came in (Origin("x" * 900, "somebody"), Origin("x" * 1000, "relay")):
        assert DOOR.message(BusMessage(name, body, came, "r")) == CancelRun("r", "x")


def test_an_outcome_that_says_what_cannot_have_been_used_is_a_failure() -> None:
    for outcome in (Generated("r", "p", 2, "text", usage=Usage(2 * 10**12)), Failed("r", "p", 2, "error", "x", True)):
        outcome = replace(outcome, usage=Usage(2 * 10**12))
        failed = DOOR.message(bus_message(outcome))
        assert isinstance(failed, Failed)
        assert (failed.run, failed.path, failed.attempt, failed.kind) == ("r", "p", 2, "invalid")
        assert (failed.retryable, failed.usage) == (False, Usage())
        assert "tokens is 2,000,000,000,000, and" in failed.message


def test_a_plan_that_was_found_wrong_stays_wrong() -> None:
    for _ in range(2):
        with pytest.raises(PlanError):
            DOOR.message(bus_message(StartRun("r", Plan("p", ()), Brief("b"))))


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (Generate(request(LONG)), "brief: 1,001 bytes"),
        (CritiqueDraft(request(), new_draft(7, LONG)), "draft 7: 1,001 bytes"),
        (RunStep(request(), new_draft(7, LONG)), "draft 7: 1,001 bytes"),
        (RunStep(request(LONG)), "brief: 1,001 bytes"),
        (Generate(request("x" * 6000)), "more than the 5,000 that a message may have"),
        (Generate(replace(request(), run="r" * 201)), "cannot be the id of a run"),
        (Generate(replace(request(), run="")), "cannot be the id of a run"),
        (Generate(replace(request(), path="p" * 2001)), "cannot be the path of a step"),
        (Generate(replace(request(), path="a\nb")), "'a\\nb' cannot be the path of a step"),
        (Generate(replace(request(), id="i" * 4201)), "cannot be the id of a request"),
        (Generate(replace(request(), reply_key="inbox." + "1" * 300)), "cannot be the key of an answer"),
        (Generate(replace(request(), reply_key="inbox.\u0663")), "cannot be the key of an answer"),
        (Generate(replace(request(), reply_key="critic.judge")), "cannot be the key of an answer"),
    ],
)
def test_a_request_beyond_its_bounds_is_refused(work: Work, said: str) -> None:
    with pytest.raises((CodecError, InputError)) as refused:
        DOOR.work(bus_message(work))
    assert said in str(refused.value)


@pytest.mark.parametrize("key", ["", "inbox", "inbox.0", "inbox.255"])
def test_a_request_says_where_its_answer_goes(key: str) -> None:
    work = Generate(replace(request(), reply_key=key))
    assert DOOR.work(bus_message(work)) == work


def test_a_request_whose_texts_are_within_their_bounds_comes_in() -> None:
    work = CritiqueDraft(request("x" * LIMIT), new_draft(7, "x" * LIMIT))
    assert DOOR.work(bus_message(work)) == work


def test_a_message_of_a_broker_names_no_file_that_would_be_loaded() -> None:
    start = StartRun("r", PLAN, Brief("b"), files=Files("/tmp/loop.py:loop", "/tmp/actors.py"))
    sent = bus_message(start)
    assert DOOR.message(sent) == replace(start, files=Files())
    assert DOOR.message(replace(sent, content=start)) == start  # of this process
