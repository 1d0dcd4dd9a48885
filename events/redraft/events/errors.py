"""Every error that Redraft raises on purpose; which exit code each of them means is the command line's business.

`InputError` and what is below it are a person's to mend: the message says what is wrong, where, and how to fix it.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class RedraftError(Exception):
    """The base of all errors that Redraft raises on purpose."""


class InputError(RedraftError):
    """Invalid input from a person. The message says what is wrong, where, and how to fix it."""


class PlanError(InputError):
    """A workflow is wrong at `path`, such as `Refinement/judge` or `steps[2].repeat.until`."""

    def __init__(self, path: str, fault: str) -> None:
        super().__init__(f"{path}: {fault}" if path else fault)
        self.path = path
        self.fault = fault


class ConditionError(InputError):
    """The text of a condition cannot be understood."""


class ContentError(InputError):
    """A brief or draft is empty, too large, or no text."""


class EmptyText(ContentError):
    """A text with not one word."""


class ActorError(InputError):
    """A function cannot serve as an actor, or an actor is not known."""


class RunBarred(InputError):
    """The run may never begin: it is that of an item, and the run around it was erased first."""

    def __init__(self, run: str) -> None:
        super().__init__(f"run {run} cannot begin: it is that of an item of a run that was erased")


class NoSuchRun(RedraftError):
    """No run has this id."""

    def __init__(self, run: str) -> None:
        super().__init__(f"no run {run!r}; `redraft list` shows the runs that there are")
        self.run = run


class RunEndedFirst(RedraftError):
    """A run ended before the expected event happened in it."""


class SetAside(RedraftError):
    """A run that a person quarantined, or that has an event that cannot be read here."""


class CodecError(RedraftError):
    """Bytes cannot be read as a message or an event, or one cannot be written."""


class UnknownName(CodecError):
    """The name of a message or event is not known."""


class UnknownRules(CodecError):
    """A run follows rules of a later release, under which it began; this release does not guess at them."""

    def __init__(self, rules: int) -> None:
        super().__init__(f"the run follows rules {rules} of a later release of Redraft; upgrade this one")
        self.rules = rules


class StoreError(RedraftError):
    """The store cannot be reached, read or written."""


class KeyNotOverwritten(StoreError):
    """The key of an erased run is deleted, but its bytes may still lie in the files of the database."""


class IncompatibleStore(StoreError):
    """The database was not made by Redraft, or of a later version."""


class EncryptionKeyMissing(IncompatibleStore):
    """Texts are encrypted, and the key that they were recorded with is not given."""


class Conflict(StoreError):
    """Somebody else appended to the run first: it no longer ends at `expected`."""

    def __init__(self, run: str, expected: int) -> None:
        super().__init__(f"run {run} has moved on from version {expected}")
        self.run = run
        self.expected = expected


class Unstorable(StoreError):
    """The database never takes an event, as it is: its id is too long for an index, or it is larger than a row."""

    def __init__(self, run: str, why: str) -> None:
        super().__init__(f"run {run}: the database does not take its next event: {why}")
        self.why = why


class LeaseLost(StoreError):
    """Another process holds the lease now."""


class ReadModelCorrupt(StoreError):
    """Read models were changed or damaged. They can be rebuilt from the log."""


class Tampered(StoreError):
    """A recorded event is not what was recorded."""


class BusError(RedraftError):
    """The bus cannot be reached, or is closed."""


class BusUnusable(BusError):
    """A queue or exchange on the server has other settings than ours; a retry would not help."""


class NoRoom(BusError):
    """As many dead letters are kept as may be: another has no room until some are retried or discarded."""


class NotAllowed(BusError):
    """The user of this process has no right to do it on the broker."""


class MessageTooLarge(BusError):
    """A message is larger than the bus accepts; a retry would not help."""


class DeliveryError(RedraftError):
    """Raised by a subscriber's handler that could not take an event.

    `retry_after` is the shortest backoff in seconds; None leaves it to the subscription, as does what is no finite
    number of 0 or more. A `permanent` failure is not retried: the event is parked.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, permanent: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.permanent = permanent


class StepError(RedraftError):
    """Raised by a worker: this attempt failed, and another may succeed."""


class PermanentError(StepError):
    """Raised by a worker: the step failed, and a retry would not help."""


def suggest(word: str, known: Iterable[str], otherwise: str = "", *, quoted: bool = False, cutoff: float = 0.6) -> str:
    """Returns the remedy for an unknown word: the closest known one; without any, `otherwise`, or the list of all.

    `cutoff` (0..1) is how similar the closest must at least be; the only one that begins with the word is close too.
    """
    names = list(known)
    begin = [name for name in names if len(word) > 1 and name.startswith(word)]
    if close := get_close_matches(word, names, n=1, cutoff=cutoff) or (begin if len(begin) == 1 else []):
        return f"did you mean {close[0]!r}?" if quoted else f"did you mean {close[0]}?"
    return otherwise or f"there are {', '.join(names)}"
