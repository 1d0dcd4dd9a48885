"""One piece of work: a request goes in, the actor's function is called under its deadline, an outcome comes out.

Whatever the function does wrong becomes an outcome too: what it raises, what it returns, how long it takes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial
from typing import Any, Final, Protocol, TypeVar, assert_never

import msgspec

from redraft.actors.roles import Actor, Context
from redraft.actors.threads import in_thread
from redraft.events.commands import (
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
    Work,
)
from redraft.events.content import MAX_DRAFT_BYTES, Critique, Draft, Receipt, Revision, checked
from redraft.events.domain_events import FailureKind
from redraft.events.errors import ContentError, PermanentError, StepError
from redraft.events.usage import Usage

PATIENCE: Final = 5.0
"""Seconds that a function has to clean up when its worker is stopped."""

LONGEST: Final = 2000
"""How many characters of an error's message are kept."""

T = TypeVar("T")


class _Wrong(Exception):
    """The function returned what its role does not allow."""


class Calling(Protocol):
    """An actor's function at work on a request, wherever it runs."""

    def outcome(self, limit: int = MAX_DRAFT_BYTES) -> OutcomeMessage:
        """Returns the outcome of a call that is over; `limit` is the largest draft, in bytes, that is accepted."""
        ...

    def abandon(self) -> asyncio.Task[Any]:
        """Stops the function; nobody is told. Returns what can be waited for while it cleans up."""
        ...


class Call:
    """An actor's function at work on a request. `over` is told, once, when it has ended or its deadline has come.

    `heard` is called after each report of what was used.
    """

    __slots__ = ("_actor", "_context", "_late", "_over", "_task", "_timer", "_work")

    def __init__(
        self, actor: Actor, work: Work, over: Callable[[], None], heard: Callable[[], None] | None = None
    ) -> None:
        asked = work.request
        loop = asyncio.get_running_loop()
        self._actor = actor
        self._work = work
        self._over = over
        self._late = False
        options = deepcopy(asked.options) if asked.options else {}  # the function may change them, and others have them
        key = f"{asked.run}/{asked.path}"  # without the attempt: what it names is done once
        self._context = Context(asked.run, asked.path, asked.attempt, asked.timeout, key, options, asked.outputs)
        self._context.beside = asked.beside
        if heard is not None:
            self._context.heard = heard
        self._task = loop.create_task(_called(actor, work, self._context))
        self._task.add_done_callback(self._ended)
        self._timer = loop.call_later(asked.timeout, self._expire)

    @property
    def used(self) -> Usage:
        """Returns what was used until now, as far as it is known."""
        return self._context.total

    def outcome(self, limit: int = MAX_DRAFT_BYTES) -> OutcomeMessage:
        """Returns the outcome of a call that is over; `limit` is the largest draft, in bytes, that is accepted."""
        outcome = self._outcome(limit)
        used = self._context.total if self._late else self._context.usage
        return with_usage(outcome, used, self._actor, self._work.request)

    def _outcome(self, limit: int) -> OutcomeMessage:
        try:
            return self._result(limit)
        except UnicodeEncodeError as error:
            return unwritable(self._actor, self._work, error)
        except _Deadline:
            return self._failed("timeout", f"took longer than {self._work.request.timeout:g} s")
        except (_Wrong, ContentError) as error:
            return self._failed("invalid", str(error))
        except PermanentError as error:
            return failed(self._work.request, "error", str(error) or type(error).__name__, retryable=False)
        except StepError as error:
            return failed(self._work.request, "error", str(error) or type(error).__name__)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a worker's function raises is its outcome
            return self._failed("error", f"raised {type(error).__name__}: {error}")

    def _result(self, limit: int) -> OutcomeMessage:
        if self._late:
            raise _Deadline
        if self._task.cancelled():
            raise RuntimeError("its own work was cancelled")
        return _outcome(self._actor, self._work, self._task.result(), self._context, limit)

    def _failed(self, kind: FailureKind, what: str) -> Failed:
        return failed(self._work.request, kind, f"{self._actor.name} {what}")

    def _ended(self, task: asyncio.Task[object]) -> None:
        if self._late:
            _look_away(task)
        else:
            self._timer.cancel()
            self._over()

    def _expire(self) -> None:
        """The function is cancelled at its deadline, but not waited for: it may not heed that."""
        if not self._task.done():
            self._late = True
            self._task.cancel()
            self._over()

    def abandon(self) -> asyncio.Task[object]:
        """Cancels the function; nobody is told. Gives what can be waited for while it cleans up."""
        self._late = True
        self._timer.cancel()
        self._task.cancel()
        return self._task


def with_usage(outcome: OutcomeMessage, used: Usage, actor: Actor, request: Request) -> OutcomeMessage:
    """Returns the outcome; with what was used where it failed, and as failed where that cannot be."""
    if used.fault:
        return failed(request, "invalid", f"{actor.name} reported what cannot be: {used.fault}", retryable=False)
    if isinstance(outcome, Failed) and not used.is_nothing:
        return msgspec.structs.replace(outcome, usage=used)
    return outcome


async def abandoned(calls: Iterable[Calling]) -> None:
    """Stops calls of which nobody wants to know any more. They have `PATIENCE` to clean up."""
    if tasks := [call.abandon() for call in calls]:
        await asyncio.wait(tasks, timeout=PATIENCE)


class _Deadline(Exception):
    pass


async def _called(actor: Actor, work: Work, context: Context) -> object:
    """What the function returns; what would end the whole process is an error like any other."""
    values = {name: _value(name, work, context) for name in actor.takes}
    if not actor.is_async:
        return await in_thread(partial(actor.function, **values), actor.name)
    try:
        return await actor.function(**values)
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(repr(error)) from error


def _look_away(late: asyncio.Task[object]) -> None:
    """What a function did after its deadline is nobody's business."""
    if not late.cancelled():
        late.exception()


def _value(name: str, work: Work, context: Context) -> object:
    match name:
        case "brief":
            return work.request.brief
        case "context":
            return context
        case "draft" if not isinstance(work, Generate):
            return work.draft
        case "critique" if isinstance(work, Refine):
            return work.critique
        case "history" if isinstance(work, Refine):
            return work.history
        case _:
            raise PermanentError(f"a {type(work).__name__} request has no {name!r}: it reached the wrong actor")


def _outcome(actor: Actor, work: Work, returned: object, context: Context, limit: int) -> OutcomeMessage:
    asked, usage = work.request, context.usage
    match work:
        case Generate():
            text, media_type = _text(returned, asked.brief.media_type)
            _fits(text, limit)
            return Generated(asked.run, asked.path, asked.attempt, text, media_type, usage)
        case CritiqueDraft(draft=draft):
            critique = normalised(actor, _bounded(_typed(returned, Critique), limit))
            return Critiqued(asked.run, asked.path, asked.attempt, draft.ref, critique, usage)
        case Refine():
            revision = Revision(returned) if isinstance(returned, str) else _typed(returned, Revision)
            _fits(revision.text, limit)
            changes, declined = _bounded((revision.changes, revision.declined), limit)
            said = (revision.text, changes, revision.exit, usage, declined)
            return Refined(asked.run, asked.path, asked.attempt, *said)
        case Publish(draft=draft):
            receipt = Receipt(returned) if isinstance(returned, str) else _typed(returned, Receipt)
            _bounded(receipt, limit)
            return Published(asked.run, asked.path, asked.attempt, draft.ref, receipt, usage)
        case _:
            assert_never(work)


def unwritable(actor: Actor, work: Work, error: Exception) -> Failed:
    """The outcome of work whose outcome cannot be written, as when a critic's words hold half a character."""
    return failed(work.request, "invalid", f"{actor.name} returned what cannot be written: {error}")


def _text(returned: object, media_type: str) -> tuple[str, str]:
    match returned:
        case str():
            return returned, media_type
        case Draft():
            return returned.text, returned.media_type
        case _:
            raise _Wrong(f"returned {_shown(returned)}, not a str or Draft")


def _fits(text: str, limit: int) -> None:
    checked(text, "returned a text that cannot be a draft", limit)


def _typed(returned: object, kind: type[T]) -> T:
    """The value itself, once every field of it has its declared type; lists become tuples."""
    if not isinstance(returned, kind):
        raise _Wrong(f"returned {_shown(returned)}, not a {kind.__name__}")
    try:
        return msgspec.convert(msgspec.to_builtins(returned), kind, strict=True)
    except (msgspec.MsgspecError, TypeError, UnicodeError) as error:
        raise _Wrong(f"returned a {kind.__name__} that is wrong: {error}") from None


def _bounded(said: T, limit: int) -> T:
    """The value itself, once it is certain that it is no longer than a draft may be."""
    size = len(msgspec.json.encode(said))
    if size > limit:
        raise _Wrong(f"returned {size:,} bytes beside a draft, more than the limit of {limit:,}")
    return said


def normalised(actor: Actor, critique: Critique) -> Critique:
    """The critique with its score turned from the critic's scale to 0..1 and the critic's name in it."""
    low, high = actor.scale
    for each in (critique.score, *critique.samples):
        if not (math.isfinite(each) and low <= each <= high):
            raise _Wrong(f"gave a score of {each:g}, outside its scale of {low:g} to {high:g}")
    score, *samples = ((each - low) / (high - low) for each in (critique.score, *critique.samples))
    return msgspec.structs.replace(critique, score=score, critic=actor.name, samples=tuple(samples))


def _shown(value: object) -> str:
    kind = type(value).__name__
    return "nothing" if value is None else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def failed(request: Request, kind: FailureKind, message: str, *, retryable: bool = True) -> Failed:
    """Returns the outcome of a request that failed; its message is cut where it is long."""
    plain = message.encode(errors="replace").decode()
    cut = plain if len(plain) <= LONGEST else plain[:LONGEST] + "…"
    return Failed(request.run, request.path, request.attempt, kind, cut, retryable)
