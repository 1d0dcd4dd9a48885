"""Every error that Redraft raises on purpose.

    RedraftError
    ├── InputError              what a person gave is wrong: it says what, where, and how to mend it
    │   ├── PlanError           a workflow cannot be built or read; carries the path of the fault
    │   ├── ConditionError      a condition's text cannot be understood
    │   ├── ContentError        a brief or draft is empty, too large, or not text
    │   └── ActorError          a function cannot serve as an actor, or an actor is not known
    ├── NoSuchRun               no run has this id
    ├── SetAside                a person set the run aside, or it cannot be read here: nothing more is done for it
    ├── NeverHappened           a run ended before what was waited for
    ├── CodecError              bytes cannot be read as a message or an event
    │   ├── UnknownName         the name of the message or event is not known
    │   └── UnknownRules        a run follows rules of a later release
    ├── StoreError              the store cannot be reached, read or written
    │   ├── StoreUnusable       the database is not ours, or of a later version
    │   │   └── Sealed          its texts are encrypted, and the key is not given
    │   ├── LeaseLost           this process is no longer the one that may do it
    │   ├── Damaged             read models are not as they were made; they can be made anew from the log
    │   ├── Conflict            somebody else appended to the stream first
    │   └── Tampered            a recorded event is not what was recorded
    ├── BusError                the bus cannot be reached, or is closed
    │   ├── BusUnusable         what is on the server has other settings than ours
    │   ├── NotAllowed          the user has no right to it
    │   └── TooLarge            a letter is larger than the bus takes
    ├── DeliveryError           raised by a subscriber's handler: whether and when it is to be tried again
    └── StepError               raised by a worker: the step failed, and may be tried again
        └── PermanentError      raised by a worker: trying again would not help

Each carries the exit code that the command line ends with (`exit_code`).
"""

from __future__ import annotations


class RedraftError(Exception):
    """Whatever Redraft raises on purpose. `exit_code` is what the command line ends with."""

    exit_code = 1


class InputError(RedraftError):
    """What a person gave is wrong. The message says what, where, and how to mend it."""

    exit_code = 2


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


class ActorError(InputError):
    """A function cannot serve as an actor, or an actor is not known."""


class NoSuchRun(RedraftError):
    """No run has this id."""

    exit_code = 4

    def __init__(self, run: str) -> None:
        super().__init__(f"no run {run!r}; `redraft list` shows the runs that there are")
        self.run = run


class NeverHappened(RedraftError):
    """A run ended before what was waited for had happened in it."""

    exit_code = 3


class SetAside(RedraftError):
    """A run that a person set aside, or with an event that cannot be read here."""


class CodecError(RedraftError):
    """Bytes cannot be read as a message or an event, or one cannot be written."""


class UnknownName(CodecError):
    """The name of a message or event is not known."""


class UnknownRules(CodecError):
    """A run follows rules that this release does not know: it began under a later one, and is not guessed at."""

    def __init__(self, rules: int) -> None:
        super().__init__(f"the run follows rules {rules} of a later release of Redraft; upgrade this one")
        self.rules = rules


class StoreError(RedraftError):
    """The store cannot be reached, read or written."""

    exit_code = 5


class StoreUnusable(StoreError):
    """The database is not ours, or of a later version."""

    exit_code = 2


class Sealed(StoreUnusable):
    """Texts are encrypted, and the key that they were recorded with is not given."""


class Conflict(StoreError):
    """Somebody else appended to the run first: it no longer ends at `expected`."""

    def __init__(self, run: str, expected: int) -> None:
        super().__init__(f"run {run} has moved on from version {expected}")
        self.run = run
        self.expected = expected


class LeaseLost(StoreError):
    pass


class Damaged(StoreError):
    """Read models are not as they were made. They can be made anew from the log."""


class Tampered(StoreError):
    """A recorded event is not what was recorded."""

    exit_code = 1


class BusError(RedraftError):
    """The bus cannot be reached, or is closed."""

    exit_code = 5


class BusUnusable(BusError):
    """What is on the server has other settings than ours; to try again would not help."""

    exit_code = 2


class NotAllowed(BusError):
    """The user of this process has no right to do it on the broker."""

    exit_code = 2


class TooLarge(BusError):
    """A letter is larger than the bus takes; to send it again would not help."""

    exit_code = 2


class DeliveryError(RedraftError):
    """Raised by a subscriber's handler that could not take an event.

    `retry_after` is how many seconds to wait at least before it is tried again; None leaves that to the subscription.
    A `permanent` failure is not tried again: the event is parked.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, permanent: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.permanent = permanent


class StepError(RedraftError):
    """Raised by a worker: this attempt failed, and another may succeed."""


class PermanentError(StepError):
    """Raised by a worker: the step failed, and trying again would not help."""
