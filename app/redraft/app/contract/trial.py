"""Tries a worker of any language against the contract: sends it requests on the real broker, and checks its answers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

import jsonschema
import msgspec

from redraft.actors.editing.edits import with_text
from redraft.actors.editing.issues import locate_issues
from redraft.actors.runtime.admission import Admission
from redraft.app.contract.asyncapi import contract
from redraft.app.contract.channels import replies_to
from redraft.app.process.ids import new_message_id, new_run_id
from redraft.app.settings.settings import Settings
from redraft.app.wiring.deployment import open_bus, open_survey
from redraft.events.bus.port import INBOX, BusMessage, work_queue
from redraft.events.errors import CodecError, ContentError, InputError
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import (
    MESSAGE_NAMES,
    ConfirmStep,
    Critiqued,
    CritiqueDraft,
    Failed,
    Generate,
    Message,
    OutcomeMessage,
    Publish,
    Refine,
    Refined,
    Request,
    RunStep,
    Work,
    request_id,
)
from redraft.events.messages.content import Brief, Critique, History, Issue, Revision, checked, new_draft
from redraft.events.messages.envelope import Origin
from redraft.events.messages.plan import ACTOR_ROLES, Role
from redraft.events.messages.run_state import size_fault, values_fault

if TYPE_CHECKING:
    from redraft.events.rabbit.bus import RabbitBus
    from redraft.events.rabbit.raw_messages import RawMessage
    from redraft.events.rabbit.survey import Survey

PATH: Final = "check"
_TEXT: Final = "This is a check of the contract."
_ISSUE: Final = Issue("Say what is checked.", quote="a check")
_CRITIQUE: Final = locate_issues(Critique(0.5, critic="check", issues=(_ISSUE,)), _TEXT, ())
_CONFIRM: Final = MESSAGE_NAMES[ConfirmStep]
_FAILED: Final = MESSAGE_NAMES[Failed]
_LOOK_AGAIN: Final = 0.1
_REFUSED: Final = (CodecError, InputError, ContentError)


class Tried(msgspec.Struct, frozen=True):
    """A request that was sent, the name of its answer, after how many seconds it came, and what is wrong with it."""

    request: str
    answer: str = ""
    seconds: float = 0.0
    faults: Sequence[str] = ()


def read_actor(text: str) -> tuple[Role, str]:
    """Reads `critic.judge`. Raises InputError."""
    role, _, actor = text.partition(".")
    if role not in ACTOR_ROLES or not actor:
        roles = ", ".join(ACTOR_ROLES)
        raise InputError(f"--check {text}: give the role and the name of an actor, as critic.judge; roles are {roles}")
    return role, actor


async def try_worker(settings: Settings, role: Role, actor: str, timeout: float) -> Sequence[Tried]:
    """Sends requests to whoever serves an actor, and returns what came of each; an answer may take `timeout` seconds.

    Raises InputError where coordinators take the answers, or other messages wait; BusError when the broker cannot be
    used.
    """
    from redraft.events.rabbit.raw_messages import read_raw

    queue = work_queue(role, actor)
    async with open_survey(settings) as survey, open_bus(settings) as bus:
        await _require_quiet(survey, queue)
        await bus.prepare()
        place = settings.bus, settings.broker_prefix, settings.queue_type
        async with read_raw(*place, INBOX, (queue,)) as came:
            if not await _is_served(survey, queue, timeout):
                same = "the same REDRAFT_BUS and REDRAFT_BROKER_PREFIX"
                return [
                    Tried("a worker", faults=[f"nobody reads {survey.there(queue)}: start the worker, with {same}"])
                ]
            trial = _Trial(settings, bus, came, role, actor, timeout)
            tried = [each async for each in trial.all()]
        await _take_back(bus, survey, queue, trial.run)
    return tried


_LEAVING: Final = 3.0
"""Seconds for which the broker may still count a reader that has ended, such as the check before this one."""


async def _require_quiet(survey: Survey, queue: str) -> None:
    """Raises InputError where the check would take others' messages, or others those of the check."""
    remedy = "give the worker and the check names of their own: REDRAFT_BROKER_PREFIX=check for both"
    inbox, end = await survey.queue(INBOX), asyncio.get_running_loop().time() + _LEAVING
    while inbox is not None and inbox.consumers and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(_LOOK_AGAIN)  # the broker tells nobody when a reader has gone
        inbox = await survey.queue(INBOX)
    work = await survey.queue(queue)
    if inbox is not None and inbox.consumers:
        raise InputError(f"a coordinator reads {survey.there(INBOX)}, and would take the answers; {remedy}")
    for name, depth in ((INBOX, inbox), (queue, work)):
        if depth is not None and depth.waiting:
            raise InputError(f"{depth.waiting} messages wait in {survey.there(name)}; {remedy}")


async def _is_served(survey: Survey, queue: str, timeout: float) -> bool:
    """Waits until somebody reads a queue; returns False when nobody does in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            while (depth := await survey.queue(queue)) is None or not depth.consumers:  # noqa: ASYNC110 - nothing notifies
                await asyncio.sleep(_LOOK_AGAIN)
            return True
    return False


async def _take_back(bus: RabbitBus, survey: Survey, queue: str, run: str) -> None:
    """Takes requests that a worker left in its queue out of it, so that no later one works on them."""
    left = await survey.queue(queue)
    if left is None or not left.waiting or left.consumers:
        return
    async with bus.consume(queue, left.waiting) as consumer:
        for delivery in await consumer.take(left.waiting):
            if delivery.bus_message.run == run:
                await consumer.ack([delivery])


class _Trial:
    def __init__(
        self,
        settings: Settings,
        bus: RabbitBus,
        came: asyncio.Queue[RawMessage],
        role: Role,
        actor: str,
        timeout: float,
    ) -> None:
        self.run = new_run_id()
        self._bus = bus
        self._came = came
        self._role = role
        self._actor = actor
        self._timeout = timeout
        self._together = settings.request_batch_size > 1
        self._answered: set[int] = set()
        self._admission = Admission(settings.max_draft_bytes, bus.largest)
        self._document = msgspec.to_builtins(
            contract(version("redraft"), largest_draft=settings.max_draft_bytes), str_keys=True
        )

    async def all(self) -> AsyncIterator[Tried]:
        """Sends one request after the other, until one is not answered."""
        later = {"field_of_a_later_release": {"of": "any kind"}}
        sendings = [
            ("a request", [self._work(1)], {}),
            ("a request with fields of a later release", [self._work(2)], later),
            ("a request that was sent before", [self._work(3, sent=2)], {}),
        ]
        if self._together:
            sendings.append(("two requests in one message", [self._work(5), self._work(6)], {}))
        for what, works, added in sendings:
            answered = [each async for each in self._try(what, works, added)]
            for each in answered:
                yield each
            if any(not each.answer for each in answered):
                return
            if answered[0].answer == _CONFIRM:
                async for each in self._try("the same request, confirmed", [self._work(3, sent=3, confirmed=True)], {}):
                    yield each

    def _work(self, attempt: int, *, sent: int = 1, confirmed: bool = False) -> Work:
        name = request_id(self.run, PATH, attempt)
        brief = Brief("A check of the contract.")
        request = Request(
            name, self.run, PATH, self._actor, attempt, self._timeout, brief, sent=sent, confirmed=confirmed
        )
        draft = new_draft(1, _TEXT)
        match self._role:
            case "generator":
                return Generate(request, history=History())
            case "critic":
                return CritiqueDraft(request, draft, History(), _CRITIQUE)
            case "refiner":
                return Refine(request, draft, _CRITIQUE)
            case "publisher":
                return Publish(request, draft)
            case "step":
                return RunStep(request, draft, _CRITIQUE, History())
            case "run":
                raise AssertionError("a run of an item is no actor")
            case _:
                assert_never(self._role)

    async def _try(self, what: str, works: Sequence[Work], added: Mapping[str, object]) -> AsyncIterator[Tried]:
        """Sends requests together, with these fields added; yields what came of each, in the order of the answers."""
        sent = {work.request.attempt: (work, _to_message(work, added)) for work in works}
        await self._bus.publish(work_queue(self._role, self._actor), [message for _, message in sent.values()])
        begun = time.monotonic()
        while sent:
            try:
                async with asyncio.timeout(begun + self._timeout - time.monotonic()):
                    raw = await self._came.get()
            except TimeoutError:
                why = f"no answer came within {self._timeout:g} s"
                hint = "; was the request before it acknowledged?" if self._answered else ""
                yield Tried(what, faults=[why + hint])
                return
            body = _decode(raw.bus_message.body)
            attempt = body.get("attempt") if isinstance(body, dict) else None
            known = isinstance(attempt, int) and attempt in sent
            work, message = sent.pop(cast("int", attempt) if known else next(iter(sent)))
            faults = [*self._faults(raw, body, work, message)]
            self._answered.add(work.request.attempt)
            yield Tried(what, raw.bus_message.name or "(no name)", time.monotonic() - begun, faults)

    def _faults(self, raw: RawMessage, body: object, work: Work, message: BusMessage) -> Iterator[str]:
        """Yields what is wrong with an answer, in the order in which it is best mended."""
        name = raw.bus_message.name
        allowed = replies_to(type(work))
        if name not in allowed:
            yield f"its header cloudEvents:type is {name!r}; {message.name} is answered by {' or '.join(allowed)}"
            return
        yield from (f"its headers: {each}" for each in self._against(name, "headers", dict(raw.headers)))
        if not raw.persistent:
            yield "it is not persistent (delivery mode 2): the broker would lose it when it restarts"
        if body is None:
            yield "its body is not JSON"
            return
        wrong = [*self._against(name, "payload", body)]
        yield from (f"its body: {each}" for each in wrong)
        if wrong:
            return
        try:
            _check_content(self._admission.message(raw.bus_message), work)
        except _REFUSED as error:
            yield f"a coordinator refuses it: {error}"
        yield from _mismatches(raw, cast("dict[str, Any]", body), work, message, self._answered)

    def _against(self, name: str, part: str, value: object) -> Iterator[str]:
        schema = {**self._document, "$ref": f"#/components/messages/{name}/{part}"}
        for error in jsonschema.Draft7Validator(schema).iter_errors(value):
            place = ".".join(map(str, error.absolute_path))
            yield f"{place}: {error.message}" if place else error.message


def _to_message(work: Work, added: Mapping[str, object]) -> BusMessage:
    name, body = encode_message(work)
    if added:
        content = msgspec.json.decode(body)
        content["request"] |= added
        body = msgspec.json.encode(content | added)
    run = work.request.run
    return BusMessage(name, body, Origin(new_message_id(), "relay", new_message_id(), run), run)


def _check_content(answer: Message, work: Work) -> None:
    """Raises ContentError where an answer quotes what its draft does not hold, or its edits or values do not apply."""
    changes = answer.state if isinstance(answer, OutcomeMessage) and not isinstance(answer, Failed) else {}
    if fault := values_fault(changes) or size_fault(changes):
        raise ContentError(f"changes the state: {fault}")
    match answer, work:
        case Critiqued(critique=critique), CritiqueDraft(draft=draft):
            names = [each.criterion for each in critique.issues]  # a plan declares them, and there is none here
            locate_issues(critique, draft.text, names)
        case Refined(), Refine(draft=draft):
            said = Revision(answer.text, answer.changes, answer.exit, answer.declined, answer.edits, answer.refusals)
            checked(with_text(said, draft.text, _CRITIQUE.issues).text, "the new draft")
        case _:
            pass


def _decode(body: bytes) -> object:
    """Returns the value of a JSON body; None when it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _mismatches(
    raw: RawMessage, body: Mapping[str, Any], work: Work, message: BusMessage, answered: set[int]
) -> Iterator[str]:
    """Yields where an answer does not belong to its request."""
    request = work.request
    if body["attempt"] in answered and body["attempt"] != request.attempt:
        yield f"it answers attempt {body['attempt']} once more; a request has one answer"
        return
    expected: dict[str, object] = {"run": request.run, "path": request.path, "attempt": request.attempt}
    if isinstance(work, CritiqueDraft | Publish) and "draft" in body:
        expected["draft"] = msgspec.to_builtins(work.draft.ref)
    for field, value in expected.items():
        if body[field] != value:
            yield f"its body: {field} is {body[field]!r}; the request has {value!r}"
    if raw.bus_message.run != request.run:
        yield f"its header cloudEvents:subject is {raw.bus_message.run!r}; give the run, {request.run!r}"
    if raw.bus_message.origin.causation != message.origin.id:
        cause, right = raw.bus_message.origin.causation, message.origin.id
        yield f"its header cloudEvents:causationid is {cause!r}; give the cloudEvents:id of the command, {right!r}"
    if "critique" in body and body["critique"].get("critic") != request.actor:
        yield f"its body: critique.critic is {body['critique'].get('critic', '')!r}; give the actor, {request.actor!r}"
    if raw.bus_message.name == _FAILED:
        yield f"the work failed, so its outcome could not be checked: {body['kind']}: {body['message']}"
