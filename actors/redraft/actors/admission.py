"""What may come in: messages and requests that can be read, within their bounds, and that can make sense."""

from __future__ import annotations

from typing import Final, cast

import msgspec

from redraft.actors.plan_check import check_plan
from redraft.actors.values import shown
from redraft.events.bus import Letter, require_head
from redraft.events.codec import decode_message, decode_work
from redraft.events.commands import (
    MESSAGE_NAMES,
    WORK_NAMES,
    ApproveDraft,
    Critiqued,
    EditDraft,
    Failed,
    Generate,
    Generated,
    Message,
    OutcomeMessage,
    Published,
    Refined,
    RejectDraft,
    StartRun,
    Work,
)
from redraft.events.content import MOST_EVENTS, checked
from redraft.events.errors import CodecError, InputError
from redraft.events.plan import Plan

LONGEST_ID: Final = 200
"""Characters of a run's id at most. One that is longer, empty or not printable is no id: a database may choke on it."""

_PLANS: Final = 256
_OF_DRAFTS: Final = (Critiqued, Published, ApproveDraft, RejectDraft)
_ENCODER: Final = msgspec.json.Encoder()


class Admission:
    """Bounds, in bytes: `limit` for a brief, for a draft, and for what is said beside it; `largest` for a whole body.

    A text is never longer than the body that it came in: so most that comes is measured by that alone.
    """

    def __init__(self, limit: int, largest: int) -> None:
        self._limit = limit
        self._largest = largest
        self._fit: set[bytes] = set()

    def message(self, letter: Letter) -> Message:
        """The message in a letter for the coordinator. Raises CodecError or InputError, which say why it is refused."""
        self._require_size(letter)
        require_head(letter.origin)
        message = _known_message(letter.content) or decode_message(letter.name, letter.body)
        _require_id(message.run)
        if isinstance(message, _OF_DRAFTS):
            _require_version(message.draft.version)
        elif isinstance(message, EditDraft):
            _require_version(message.before.version)
        elif isinstance(message, StartRun):
            if message.parent is not None:
                _require_id(message.parent.run)
                _require_version(message.parent.version)
            checked(message.brief.text, "brief", self._limit)
            self._require_plan(message.plan)
        if len(letter.body) > self._limit and not isinstance(message, StartRun):
            self._require_bounds(message)
        return _counted(message) if isinstance(message, OutcomeMessage) else message

    def work(self, letter: Letter) -> Work:
        """The request in a letter for a worker. Raises CodecError or InputError, which say why it is refused."""
        self._require_size(letter)
        require_head(letter.origin)
        work = _known_work(letter.content) or decode_work(letter.name, letter.body)
        if len(letter.body) > self._limit:
            request = work.request
            checked(request.brief.text, "brief", self._limit)
            for draft in (*request.outputs, *request.beside, *(() if isinstance(work, Generate) else (work.draft,))):
                checked(draft.text, f"draft {draft.version}", self._limit)
        return work

    def _require_size(self, letter: Letter) -> None:
        size = len(letter.body)
        if size > self._largest:
            raise CodecError(f"{letter.name}: {size:,} bytes, more than the {self._largest:,} that a message may have")

    def _require_plan(self, plan: Plan) -> None:
        try:
            raw = _ENCODER.encode(plan)
        except RecursionError:
            raise CodecError("the plan nests deeper than can be followed") from None
        if raw in self._fit:
            return
        check_plan(plan)
        if len(self._fit) >= _PLANS:
            self._fit.clear()
        self._fit.add(raw)

    def _require_bounds(self, message: Message) -> None:
        """Raises InputError when a message without its draft is too large; the decider refuses a draft that is."""
        said = msgspec.structs.replace(message, text="") if isinstance(message, Generated | Refined) else message
        size = len(_ENCODER.encode(said))
        if size > self._limit:
            raise InputError(f"{size:,} bytes beside a draft, more than the limit of {self._limit:,}")


def _known_message(content: Message | Work | None) -> Message | None:
    return cast("Message", content) if type(content) in MESSAGE_NAMES else None


def _known_work(content: Message | Work | None) -> Work | None:
    return cast("Work", content) if type(content) in WORK_NAMES else None


def _counted(message: OutcomeMessage) -> OutcomeMessage:
    """The outcome itself; where it says that more was used than can be, the failure that this is."""
    if not (fault := message.usage.fault):
        return message
    said = f"the outcome says what cannot be: {fault}"
    return Failed(message.run, message.path, message.attempt, "invalid", said, retryable=False)


def _require_version(version: int) -> None:
    if not 1 <= version <= MOST_EVENTS:
        raise CodecError(f"{shown(version)} cannot be the version of an event or a draft")


def _require_id(run: str) -> None:
    if not (run.isprintable() and 0 < len(run) <= LONGEST_ID):
        raise CodecError(f"{run[:40]!r} cannot be the id of a run")
