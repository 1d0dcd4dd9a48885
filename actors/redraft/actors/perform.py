"""One piece of work: a request goes in, the actor's function is called under its deadline, an outcome comes out.

Whatever the function does wrong becomes an outcome too: what it raises, what it returns, how long it takes.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import Final, TypeVar, assert_never

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

PATIENCE: Final = 5.0
"""Seconds that a function has to clean up when its worker is stopped."""

LONGEST: Final = 2000
"""How many characters of an error's message are kept."""

T = TypeVar("T")


class _Wrong(Exception):
    """The function returned what its role does not allow."""


async def perform(actor: Actor, work: Work, limit: int = MAX_DRAFT_BYTES) -> OutcomeMessage:
    """The outcome of the work; `limit` is the largest draft, in bytes, that is accepted. Raises only CancelledError."""
    request = work.request
    context = Context(
        request.run, request.path, request.attempt, request.timeout, request.id, dict(request.options), request.outputs
    )
    try:
        returned = await _called(actor, work, context)
        return _outcome(actor, work, returned, context, limit)
    except UnicodeEncodeError as error:
        return unwritable(actor, work, error)
    except _Deadline:
        return _failed(request, "timeout", f"{actor.name} took longer than {request.timeout:g} s")
    except (_Wrong, ContentError) as error:
        return _failed(request, "invalid", f"{actor.name} {error}")
    except PermanentError as error:
        return _failed(request, "error", str(error) or type(error).__name__, retryable=False)
    except StepError as error:
        return _failed(request, "error", str(error) or type(error).__name__)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a worker's function raises is its outcome
        return _failed(request, "error", f"{actor.name} raised {type(error).__name__}: {error}")


class _Deadline(Exception):
    pass


async def _called(actor: Actor, work: Work, context: Context) -> object:
    """What the function returns. At its deadline it is cancelled, but not waited for: it may not heed that."""
    values = {name: _value(name, work, context) for name in actor.takes}
    call = _guarded(actor, values) if actor.is_async else in_thread(partial(actor.function, **values), actor.name)
    task: asyncio.Future[object] = asyncio.ensure_future(call)
    try:
        await asyncio.wait((task,), timeout=work.request.timeout)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait((task,), timeout=PATIENCE)
        raise
    if not task.done():
        task.cancel()
        task.add_done_callback(_look_away)
        raise _Deadline
    if task.cancelled():
        raise RuntimeError("its own work was cancelled")
    return task.result()


async def _guarded(actor: Actor, values: dict[str, object]) -> object:
    """The function's result; what would end the whole process is an error like any other."""
    try:
        return await actor.function(**values)
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(repr(error)) from error


def _look_away(late: asyncio.Future[object]) -> None:
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
            _bounded(revision.changes, limit)
            return Refined(asked.run, asked.path, asked.attempt, revision.text, revision.changes, revision.exit, usage)
        case Publish(draft=draft):
            receipt = Receipt(returned) if isinstance(returned, str) else _typed(returned, Receipt)
            _bounded(receipt, limit)
            return Published(asked.run, asked.path, asked.attempt, draft.ref, receipt, usage)
        case _:
            assert_never(work)


def unwritable(actor: Actor, work: Work, error: Exception) -> Failed:
    """The outcome of work whose outcome cannot be written, as when a critic's words hold half a character."""
    return _failed(work.request, "invalid", f"{actor.name} returned what cannot be written: {error}")


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
    if not (math.isfinite(critique.score) and low <= critique.score <= high):
        raise _Wrong(f"gave a score of {critique.score:g}, outside its scale of {low:g} to {high:g}")
    score = (critique.score - low) / (high - low)
    return msgspec.structs.replace(critique, score=score, critic=actor.name)


def _shown(value: object) -> str:
    kind = type(value).__name__
    return "nothing" if value is None else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _failed(request: Request, kind: FailureKind, message: str, *, retryable: bool = True) -> Failed:
    plain = message.encode(errors="replace").decode()
    cut = plain if len(plain) <= LONGEST else plain[:LONGEST] + "…"
    return Failed(request.run, request.path, request.attempt, kind, cut, retryable)
