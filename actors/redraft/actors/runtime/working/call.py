"""Runs one request: calls the actor's function under its deadline and makes an outcome of the result.

Errors of the function become outcomes too: an exception, a wrong result, a missed deadline.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar, assert_never

import msgspec

from redraft.actors.checkout import TemporaryCopy
from redraft.actors.runtime.failures import FAULTS_OF_CODE, awaited, describe_error, said_by
from redraft.actors.runtime.working.results import (
    critique_of,
    folder_in_form,
    in_form,
    measures_of,
    receipt_of,
    revision_of,
    text_of,
)
from redraft.actors.runtime.working.returned_state import values_of, verdict_of
from redraft.actors.runtime.working.returned_values import InvalidResult
from redraft.actors.runtime.working.threads import run_in_thread
from redraft.actors.values import ignore
from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.context import NOTHING, ConditionFacts, Context, RunValues, WithState
from redraft.events.errors import ContentError, PermanentError, StepError
from redraft.events.messages.commands import (
    Completed,
    Critiqued,
    CritiqueDraft,
    Failed,
    Generate,
    Generated,
    OutcomeMessage,
    Publish,
    Published,
    Refine,
    Refined,
    Request,
    RunStep,
    Work,
)
from redraft.events.messages.content import (
    MAX_DRAFT_BYTES,
    Critique,
    Draft,
    History,
    checked,
    history_with_points,
    with_points,
)
from redraft.events.messages.domain_events import FailureKind
from redraft.events.messages.folders import FOLDER
from redraft.events.messages.usage import Usage

T = TypeVar("T")

OnError: TypeAlias = Callable[[Actor, Request, BaseException], None]
"""Called with an exception that an actor's function raised, and the request that it was raised for."""


CLEANUP_SECONDS: Final = 5.0
"""Seconds that a function has to clean up when its worker is stopped."""

LONGEST: Final = 2000
"""The number of characters of an error's message that are kept."""


_NO_DRAFT: Final = "returned a text that cannot be a draft"


class RunningCall(Protocol):
    """A call of an actor's function for a request, in this process or in another."""

    def outcome(self, limit: int = MAX_DRAFT_BYTES) -> OutcomeMessage:
        """Returns the outcome of a call that is over; `limit` is the largest draft, in bytes, that is accepted."""
        ...

    def abandon(self) -> asyncio.Task[Any]:
        """Stops the function without calling `on_end`. Returns a task to wait for while it cleans up."""
        ...


class Call:
    """A call of an actor's function in this process.

    `on_end` is called once, when the function has ended or its deadline has passed, `on_usage` after each report of
    usage, `on_error` with an exception of the function, for a log.
    """

    __slots__ = ("_actor", "_context", "_late", "_on_end", "_on_error", "_task", "_timer", "_work")

    def __init__(
        self,
        actor: Actor,
        work: Work,
        on_end: Callable[[], None],
        on_usage: Callable[[], None] | None = None,
        on_error: OnError = ignore,
    ) -> None:
        request = work.request
        loop = asyncio.get_running_loop()
        self._actor = actor
        self._work = work
        self._on_end = on_end
        self._on_error = on_error
        self._late = False
        options = deepcopy(request.options) if request.options else {}  # the function may change its own copy
        key = f"{request.run}/{request.path}"  # without the attempt: what it names is done once
        self._context = Context(
            request.run, request.path, request.attempt, request.timeout, key, options, request.outputs
        )
        self._context.beside = request.beside
        self._context.scale, self._context.criteria = request.scale, request.criteria
        self._context.measures = request.measures
        self._context.only_issues = request.only_issues
        self._context.lessons = request.lessons
        if request.state:
            self._context.state = RunValues(deepcopy(request.state))
        if on_usage is not None:
            self._context.on_usage = on_usage
        self._task = loop.create_task(_call_function(actor, work, self._context))
        self._task.add_done_callback(self._handle_end)
        self._timer = loop.call_later(request.timeout, self._expire)

    @property
    def used(self) -> Usage:
        """Returns the usage that is known so far."""
        return self._context.total

    def outcome(self, limit: int = MAX_DRAFT_BYTES) -> OutcomeMessage:
        """Returns the outcome of a call that is over; `limit` is the largest draft, in bytes, that is accepted."""
        try:
            outcome = self._make_outcome(limit)
        except BaseException as error:  # noqa: BLE001 - what a function gave may raise anything where it is looked at
            outcome = self._failed_outcome("error", f"gave what raises {type(error).__name__} when it is looked at")
        used = self._context.total if self._late else self._context.usage
        return outcome if used is NOTHING else with_usage(outcome, used, self._actor, self._work.request)

    def _make_outcome(self, limit: int) -> OutcomeMessage:
        if self._late:
            return self._failed_outcome("timeout", f"took longer than {self._work.request.timeout:g} s")
        if self._task.cancelled():
            return self._failed_outcome("error", "raised RuntimeError: its own work was cancelled")
        try:
            return _make_outcome(self._actor, self._work, self._task.result(), self._context, limit)
        except UnicodeEncodeError as error:
            return unwritable_outcome(self._actor, self._work, error)
        except InvalidResult as error:
            return self._failed_outcome("invalid", str(error), retryable=False)
        except ContentError as error:
            return self._failed_outcome("invalid", str(error))
        except PermanentError as error:
            return failed_outcome(self._work.request, "error", said_by(error) or type(error).__name__, retryable=False)
        except StepError as error:
            return failed_outcome(self._work.request, "error", said_by(error) or type(error).__name__)
        except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - what a function raises is its outcome
            self._on_error(self._actor, self._work.request, error)
            what = describe_error(error, self._actor.function)
            return self._failed_outcome("error", what, retryable=not isinstance(error, FAULTS_OF_CODE))

    def _failed_outcome(self, kind: FailureKind, what: str, *, retryable: bool = True) -> Failed:
        return failed_outcome(self._work.request, kind, f"{self._actor.name} {what}", retryable=retryable)

    def _handle_end(self, task: asyncio.Task[object]) -> None:
        _ignore_result(task)  # the outcome tells of it, if anybody asks
        if not self._late:
            self._timer.cancel()
            self._on_end()

    def _expire(self) -> None:
        """Cancels the function at its deadline, without waiting for it: it may ignore the cancellation."""
        if not self._task.done():
            self._late = True
            self._task.cancel()
            self._on_end()

    def abandon(self) -> asyncio.Task[object]:
        """Cancels the function without calling `on_end`. Returns a task to wait for while it cleans up."""
        self._late = True
        self._timer.cancel()
        self._task.cancel()
        return self._task


def with_usage(outcome: OutcomeMessage, used: Usage, actor: Actor, request: Request) -> OutcomeMessage:
    """Returns the outcome, with the usage added to a failure. An invalid usage makes it a failure."""
    if used.fault:
        fault = f"{actor.name} reported an impossible usage: {used.fault}"
        return failed_outcome(request, "invalid", fault, retryable=False)
    if isinstance(outcome, Failed) and not used.is_nothing:
        return msgspec.structs.replace(outcome, usage=used)
    return outcome


async def abandon_calls(calls: Iterable[RunningCall]) -> None:
    """Stops calls whose results nobody needs; gives them `CLEANUP_SECONDS` to clean up."""
    if tasks := [call.abandon() for call in calls]:
        await asyncio.wait(tasks, timeout=CLEANUP_SECONDS)


async def _call_function(actor: Actor, work: Work, context: Context) -> object:
    """Returns the function's result. Raises EndedItself for an exception that would end the process."""
    values = {name: _argument(name, work, context) for name in actor.takes if not _is_left_out(name, actor, work)}
    if "folder" in values:
        return await _call_with_copy(actor, values, work)
    if not actor.is_async:
        return await run_in_thread(partial(actor.function, **values), actor.name)
    return await awaited(actor.function(**values))


async def _call_with_copy(actor: Actor, values: dict[str, object], work: Work) -> object:
    """Calls a function with a copy of the draft's files in a temporary folder; what it returns may be that folder."""
    draft = None if isinstance(work, Generate) else work.draft
    if draft is None or draft.media_type != FOLDER:
        raise PermanentError(f"{actor.name} takes a folder, and the draft is not one of several files")
    if not actor.is_async:
        return await run_in_thread(partial(_call_in_copy, actor.function, values, draft), actor.name)
    copy, loop = TemporaryCopy(), asyncio.get_running_loop()
    making = asyncio.ensure_future(asyncio.to_thread(copy.check_out, draft.files))
    try:
        await asyncio.shield(making)
        returned = await awaited(actor.function(**values | {"folder": copy.folder}))
        return await asyncio.to_thread(copy.read_returned, returned)
    finally:
        making.add_done_callback(lambda _: loop.run_in_executor(None, copy.remove))


def _call_in_copy(function: Callable[..., object], values: dict[str, object], draft: Draft) -> object:
    with TemporaryCopy() as copy:
        copy.check_out(draft.files)
        return copy.read_returned(function(**values | {"folder": copy.folder}))


def _is_left_out(name: str, actor: Actor, work: Work) -> bool:
    """Returns whether the request has no history, and the function has a default for it. Raises PermanentError."""
    if name != "history" or not isinstance(work, Generate | CritiqueDraft | RunStep) or work.history is not None:
        return False
    parameter = inspect.signature(actor.function).parameters.get("history")
    if parameter is not None and parameter.default is parameter.empty:
        raise PermanentError(
            f"{actor.name} takes the history, and its step in the plan has none; write history: 0 beside the actor "
            "in the plan, or how many texts of earlier drafts it wants"
        )
    return True


def _ignore_result(ended: asyncio.Task[object]) -> None:
    """Retrieves the exception of a function, so that asyncio does not log one that nobody needs."""
    if not ended.cancelled():
        ended.exception()


def _argument(name: str, work: Work, context: Context) -> object:
    match name:
        case "brief":
            return work.request.brief
        case "context":
            return context
        case "draft" if not isinstance(work, Generate):
            return work.draft
        case "folder" if not isinstance(work, Generate):
            return None  # filled in once there is one
        case "critique" if isinstance(work, Refine | Generate | RunStep):
            return work.critique and with_points(work.critique)
        case "facts" if isinstance(work, CritiqueDraft):
            critique = work.critique and with_points(work.critique)
            return ConditionFacts(
                work.draft, critique, context.state, _history(work), work.request.brief, context.outputs
            )
        case "history" if not isinstance(work, Publish):
            return _history(work)
        case _:
            raise PermanentError(f"a {type(work).__name__} request has no {name!r}: it reached the wrong actor")


def _history(work: Generate | CritiqueDraft | Refine | RunStep) -> History:
    """Returns the history of a request, with the text of the draft that it is about."""
    scales = {each.name: each.scale or work.request.scale for each in work.request.criteria}
    if not isinstance(work, CritiqueDraft) and work.critique is not None:
        scales = {each.name: each.scale or work.critique.scale for each in work.critique.criteria}
    history = history_with_points(work.history or History(), scales)
    if isinstance(work, Generate) or work.draft is None:
        return history
    return msgspec.structs.replace(history, own=work.draft)


def _make_outcome(actor: Actor, work: Work, returned: object, context: Context, limit: int) -> OutcomeMessage:
    """Returns the outcome of what a function returned, with the changes of the run's state beside it, if any."""
    if type(returned) is not WithState:
        return _outcome_of(actor, work, returned, context, limit)
    if isinstance(work, RunStep):
        raise InvalidResult("returned a WithState; a step without one of the four roles returns the values alone")
    outcome = _outcome_of(actor, work, returned.result, context, limit)
    return msgspec.structs.replace(outcome, state=values_of(returned.state))


def _outcome_of(actor: Actor, work: Work, returned: object, context: Context, limit: int) -> OutcomeMessage:
    request, usage = work.request, context.usage
    match work:
        case CritiqueDraft(draft=draft):
            critique = _require_size(_critique_of(actor, returned, request, draft.text), limit)
            hermetic = actor.is_hermetic(request.options)
            return Critiqued(request.run, request.path, request.attempt, draft.ref, critique, usage, hermetic=hermetic)
        case Refine():
            revision = in_form(revision_of(returned, work.draft, work.critique), work.draft.media_type)
            _require_draft(revision.text, limit)
            _require_size((revision.changes, revision.declined, revision.edits, revision.refusals), limit)
            said = (revision.text, revision.changes, revision.exit, usage, revision.declined)
            edited = (revision.edits, revision.refusals, revision.saved_tokens)
            return Refined(request.run, request.path, request.attempt, *said, *edited)
        case Generate():
            text, media_type = text_of(returned, request.brief.media_type)
            text = folder_in_form(text) if media_type == FOLDER else text
            _require_draft(text, limit)
            return Generated(request.run, request.path, request.attempt, text, media_type, usage)
        case Publish(draft=draft):
            receipt = _require_size(receipt_of(returned, actor.name), limit)
            return Published(request.run, request.path, request.attempt, draft.ref, receipt, usage)
        case RunStep():
            return Completed(request.run, request.path, request.attempt, values_of(returned), usage)
        case _:
            assert_never(work)


def unwritable_outcome(actor: Actor, work: Work, error: Exception) -> Failed:
    """Returns the failure of work whose outcome cannot be encoded, such as text with half a character."""
    fault = f"{actor.name} returned what cannot be written: {error}"
    return failed_outcome(work.request, "invalid", fault, retryable=False)


def _critique_of(actor: Actor, returned: object, request: Request, text: str) -> Critique:
    if actor.condition:
        return verdict_of(actor.name, returned)
    critique = critique_of(actor, returned, request.scale, request.criteria, text)
    if not (critique.measures or actor.measures or request.measures):
        return critique
    measures = measures_of(critique.measures, actor.measures_by(request.options), request.measures)
    return msgspec.structs.replace(critique, measures=measures)


def _require_draft(text: str, limit: int) -> None:
    """Raises InvalidResult for what is no text, or is larger than a draft may be: it would be the same once more."""
    try:
        checked(text, _NO_DRAFT, limit)
    except ContentError as error:
        raise InvalidResult(str(error)) from None


def _require_size(said: T, limit: int) -> T:
    """Returns the value if it is no larger than a draft may be. Raises InvalidResult."""
    size = len(msgspec.json.encode(said))
    if size > limit:
        raise InvalidResult(f"returned {size:,} bytes beside a draft, more than the limit of {limit:,}")
    return said


def failed_outcome(request: Request, kind: FailureKind, message: str, *, retryable: bool = True) -> Failed:
    """Returns the outcome of a request that failed; a long message is cut."""
    plain = message.encode(errors="replace").decode()
    cut = plain if len(plain) <= LONGEST else plain[:LONGEST] + "…"
    return Failed(request.run, request.path, request.attempt, kind, cut, retryable)
