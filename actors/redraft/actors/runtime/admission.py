"""Admission checks for incoming messages and requests: readable, within their size limits, and consistent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from redraft.actors.deciding.run_values import first_values
from redraft.actors.plans.check import check_ready
from redraft.actors.plans.check_state import values_misfit
from redraft.actors.values import shown
from redraft.events.bus.port import LONGEST_ATTRIBUTE, BusMessage, is_inbox, require_head, size_of
from redraft.events.errors import CodecError, InputError
from redraft.events.messages.codec import decode_message, decode_work
from redraft.events.messages.commands import (
    ANSWERS,
    MESSAGE_NAMES,
    WORK_NAMES,
    ApproveDraft,
    Critiqued,
    EditDraft,
    ExpireStep,
    Failed,
    Generate,
    Generated,
    Message,
    OutcomeMessage,
    Published,
    Refined,
    RejectDraft,
    Request,
    RetryStep,
    StartRun,
    StrikeLesson,
    Work,
)
from redraft.events.messages.content import MOST_EVENTS, Files, check_brief, checked
from redraft.events.messages.domain_events import StepRequested
from redraft.events.messages.envelope import Origin
from redraft.events.messages.item_ids import run_around, run_of_item
from redraft.events.messages.lessons import LESSON_ID
from redraft.events.messages.plan import ACTOR_ROLES, Plan
from redraft.events.messages.run_state import size_fault

OPERATOR: Final = "operator"


def require_parts(user: str, parts: Sequence[str]) -> None:
    """Raises InputError when a user is configured for a role or an actor that cannot exist."""
    for part in parts:
        role, dot, actor = part.partition(".")
        if part != OPERATOR and (role not in ACTOR_ROLES or bool(dot) != bool(actor)):
            forms = f"{OPERATOR}, a role ({', '.join(ACTOR_ROLES)}) or an actor such as critic.judge"
            raise InputError(
                f"the setting users gives user {user[:100]!r} the right {part[:100]!r}, which is none: give {forms}"
            )


class Authority:
    """Decides which user may send which message.

    `me` is the coordinators' user; `users` maps each other user to the roles and actors that it may answer for.
    """

    def __init__(self, me: str, users: Mapping[str, Sequence[str]]) -> None:
        self._me = me
        self._parts = {user: frozenset(parts) for user, parts in users.items()}

    def require(self, user: str, message: Message) -> None:
        """Raises InputError when a user may not send this message, whatever its run.

        Answers pass: whether a user may give one depends on the request, see `refusal`.
        """
        if user == self._me or isinstance(message, ANSWERS):
            return
        if isinstance(message, RetryStep | ExpireStep):
            raise InputError(f"{_describe_user(user)} may not send timer messages: only coordinators may")
        if isinstance(message, StartRun) and message.of is not None:
            raise InputError(f"{_describe_user(user)} may not begin the run of an item: only coordinators may")
        if OPERATOR not in self._parts.get(user, ()):
            raise InputError(
                f"{_describe_user(user)} is not an operator: the coordinators' setting `users` says who is"
            )

    def first_refusal(self, users: Sequence[str], request: StepRequested) -> str:
        """Returns why one of the users may not answer a request; empty when all may."""
        return next(filter(None, (self.refusal(user, request) for user in users)), "")

    def refusal(self, user: str, request: StepRequested) -> str:
        """Returns why a user may not answer a request; empty when it may."""
        parts = self._parts.get(user, ())
        if user == self._me or request.role in parts or f"{request.role}.{request.actor}" in parts:
            return ""
        whom = f"the {request.role} {shown(request.actor)}"
        return f"{_describe_user(user)} may not answer for {whom}: the coordinators' setting `users` says who may"


def _describe_user(user: str) -> str:
    return f"the user {shown(user)}" if user else "a message that names no user"


LONGEST_ID: Final = 200
"""The longest id of a new run, in bytes of UTF-8; earlier releases began runs whose ids have so many characters.

One that is longer, empty or not printable may break a database.
"""

LONGEST_GIVEN: Final = LONGEST_ATTRIBUTE - 100
"""The longest id of a message, in bytes of UTF-8, but of those that the relay derives from the id of an event."""

LONGEST_PATH: Final = 2_000
"""The longest path of a step, in characters: twice what a plan of the deepest nesting and the longest names has."""

_PLANS: Final = 256
_ENCODER: Final = msgspec.json.Encoder()


class Admission:
    """Decodes and checks messages.

    `limit` is the largest brief, the largest draft, and the largest rest of a message, in bytes; `largest` is the
    largest body. No text is longer than the body that holds it, so that most messages are checked by the size of the
    body alone.
    """

    def __init__(self, limit: int, largest: int) -> None:
        self._limit = limit
        self._largest = largest
        self._checked_plans: set[tuple[bytes, bool]] = set()

    def message(self, bus_message: BusMessage) -> Message:
        """Returns the decoded message for the coordinator.

        Raises CodecError or InputError with the reason why it is refused.
        """
        self._require_size(bus_message)
        require_head(bus_message.origin)
        _require_short(bus_message.origin)
        content = bus_message.content
        is_decoded = type(content) in MESSAGE_NAMES
        message: Message = content if is_decoded else decode_message(bus_message.name, bus_message.body)  # type: ignore[assignment]
        require_run_id(message.run, new=isinstance(message, StartRun))
        match message:
            case Refined() | Generated():
                pass
            case Critiqued() | Published() | ApproveDraft() | RejectDraft():
                _require_version(message.draft.version)
            case EditDraft():
                _require_version(message.before.version)
            case StrikeLesson():
                _require_lesson(message.lesson)
            case StartRun():
                message = self._admit_start(message, is_decoded=is_decoded)
            case _:
                pass
        if len(bus_message.body) > self._limit and not isinstance(message, StartRun):
            self._require_bounds(message)
        return _refuse_impossible_usage(message) if isinstance(message, OutcomeMessage) else message

    def _admit_start(self, start: StartRun, *, is_decoded: bool) -> StartRun:
        """Returns the start of a run that is in order; one from another process names no files of functions."""
        _require_item(start)
        if start.parent is not None:
            require_run_id(start.parent.run)
            _require_version(start.parent.version)
        check_brief(start.brief, "brief", self._limit)
        self._require_plan(start.plan, begun=start.of is not None)
        if start.brief.state or start.state:
            _require_values(start)
        return start if is_decoded or start.files == Files() else replace(start, files=Files())

    def work(self, bus_message: BusMessage) -> Work:
        """Returns the decoded request for a worker.

        Raises CodecError or InputError with the reason why it is refused.
        """
        self._require_size(bus_message)
        content = bus_message.content
        if type(content) in WORK_NAMES:
            work: Work = content  # type: ignore[assignment]  # the relay's, in this process: its origin is recorded
        else:
            require_head(bus_message.origin)
            work = decode_work(bus_message.name, bus_message.body)
            _require_answerable(work.request)
        if len(bus_message.body) > self._limit:
            request = work.request
            checked(request.brief.text, "brief", self._limit)
            current = None if isinstance(work, Generate) else work.draft
            for draft in (*request.outputs, *request.beside, *(() if current is None else (current,))):
                checked(draft.text, f"draft {draft.version}", self._limit)
        return work

    def _require_size(self, bus_message: BusMessage) -> None:
        size = len(bus_message.body)
        if size > self._largest:
            raise CodecError(
                f"{bus_message.name}: {size:,} bytes, more than the {self._largest:,} that a message may have"
            )

    def _require_plan(self, plan: Plan, *, begun: bool) -> None:
        try:
            raw = _ENCODER.encode(plan)
        except RecursionError:
            raise CodecError("the plan nests deeper than can be followed") from None
        if (raw, begun) in self._checked_plans:
            return
        check_ready(plan, begun=begun)
        if len(self._checked_plans) >= _PLANS:
            self._checked_plans.clear()
        self._checked_plans.add((raw, begun))

    def _require_bounds(self, message: Message) -> None:
        """Raises InputError when a message is too large without its draft; the decider checks the draft's size."""
        said = msgspec.structs.replace(message, text="") if isinstance(message, Generated | Refined) else message
        size = len(_ENCODER.encode(said))
        if size > self._limit:
            raise InputError(f"{size:,} bytes beside a draft, more than the limit of {self._limit:,}")


def _refuse_impossible_usage(message: OutcomeMessage) -> OutcomeMessage:
    """Returns the outcome itself, or a failure if it reports an invalid usage."""
    if not (fault := message.usage.fault):
        return message
    said = f"the outcome holds an impossible value: {fault}"
    return Failed(message.run, message.path, message.attempt, "invalid", said, retryable=False)


def _require_item(start: StartRun) -> None:
    """Raises InputError when a run has the id of an item's run and is none, or is one and has another id."""
    if start.of is not None:
        require_run_id(start.of.run)
    wanted = "" if start.of is None else run_of_item(start.of)
    if wanted != (start.run if start.of is not None or run_around(start.run) else ""):
        raise InputError(f"run {shown(start.run)} is none of an item, and its id says so; give it another id")


def _require_values(start: StartRun) -> None:
    """Raises InputError when the state of a run's brief, or of a fork's start, is none that its plan can have."""
    for values in (first_values(start.plan, start.brief), start.state):
        if fault := values_misfit(start.plan.state, values) or size_fault(values):
            raise InputError(f"state: {fault}")


def _require_answerable(request: Request) -> None:
    """Raises CodecError for a request whose outcome could not be sent, or would go where no coordinator reads."""
    require_run_id(request.run)
    if not (request.path.isprintable() and 0 < len(request.path) <= LONGEST_PATH):
        raise CodecError(f"{request.path[:40]!r} cannot be the path of a step")
    if not (request.id.isprintable() and 0 < len(request.id) <= LONGEST_ID + 2 * LONGEST_PATH):
        raise CodecError(f"{request.id[:40]!r} cannot be the id of a request")
    if request.reply_key and not is_inbox(f"redraft.{request.reply_key}"):
        raise CodecError(f"{request.reply_key[:40]!r} cannot be the key of an answer: give inbox, or inbox.0 and so on")


def _require_short(origin: Origin) -> None:
    """Raises CodecError for the id of a message that is too long: the ids of its events begin with it."""
    if origin.actor != "relay" and (size := size_of(origin.id)) > LONGEST_GIVEN:
        raise CodecError(f"its attribute id has {size:,} bytes; the limit is {LONGEST_GIVEN}")


def _require_version(version: int) -> None:
    if not 1 <= version <= MOST_EVENTS:
        raise CodecError(f"{shown(version)} cannot be the version of an event or a draft")


def require_run_id(run: str, *, new: bool = False) -> None:
    """Raises CodecError for what cannot be the id of a run: it is printable, and has at most `LONGEST_ID` characters.

    That of a `new` run has at most so many bytes of UTF-8.
    """
    if not (run.isprintable() and 0 < (size_of(run) if new else len(run)) <= LONGEST_ID):
        raise CodecError(f"{run[:40]!r} cannot be the id of a run")


def require_sendable(message: Message, origin: Origin) -> None:
    """Raises InputError for a message that coordinators would refuse: for the id of its run, or its sender's name."""
    try:
        require_head(origin)
        require_run_id(message.run, new=isinstance(message, StartRun))
    except CodecError as error:
        raise InputError(f"the message cannot be sent: {error}") from None


def _require_lesson(lesson: str) -> None:
    if not (lesson.isprintable() and 0 < size_of(lesson) <= LESSON_ID):
        raise CodecError(f"{lesson[:40]!r} cannot be the id of a lesson")
