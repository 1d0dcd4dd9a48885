"""Every error that Redraft raises on purpose.

    RedraftError
    ├── InputError              what a person gave is wrong: it says what, where, and how to mend it
    │   ├── PlanError           a workflow cannot be built or read; carries the path of the fault
    │   ├── ConditionError      a condition's text cannot be understood
    │   ├── ContentError        a brief or draft is empty, too large, or not text
    │   └── ActorError          a function cannot serve as an actor, or an actor is not known
    ├── NoSuchRun               no run has this id
    ├── CodecError              bytes cannot be read as a message or an event
    │   └── UnknownName         the name of the message or event is not known
    ├── StoreError              the store cannot be reached, read or written
    │   ├── StoreUnusable       the database is not ours, or of a later version
    │   ├── Conflict            somebody else appended to the stream first
    │   └── Tampered            a recorded event is not what was recorded
    ├── BusError                the bus cannot be reached, or is closed
    └── StepError               raised by a worker: the step failed, and may be tried again
        └── PermanentError      raised by a worker: trying again would not help

Each carries the exit code that the command line ends with (`exit_code`).
"""

from __future__ import annotations

__all__ = [
    "ActorError",
    "BusError",
    "CodecError",
    "ConditionError",
    "Conflict",
    "ContentError",
    "InputError",
    "NoSuchRun",
    "PermanentError",
    "PlanError",
    "RedraftError",
    "StepError",
    "StoreError",
    "StoreUnusable",
    "Tampered",
    "UnknownName",
]


class RedraftError(Exception):
    exit_code = 1


class InputError(RedraftError):
    exit_code = 2


class PlanError(InputError):
    """A workflow is wrong at `path`, such as `Refinement/judge` or `steps[2].repeat.until`."""

    def __init__(self, path: str, fault: str) -> None:
        super().__init__(f"{path}: {fault}" if path else fault)
        self.path = path
        self.fault = fault


class ConditionError(InputError):
    pass


class ContentError(InputError):
    pass


class ActorError(InputError):
    pass


class NoSuchRun(RedraftError):
    exit_code = 4

    def __init__(self, run: str) -> None:
        super().__init__(f"no run {run!r}; `redraft list` shows the runs that there are")
        self.run = run


class CodecError(RedraftError):
    pass


class UnknownName(CodecError):
    pass


class StoreError(RedraftError):
    exit_code = 5


class StoreUnusable(StoreError):
    exit_code = 2


class Conflict(StoreError):
    def __init__(self, run: str, expected: int) -> None:
        super().__init__(f"run {run} has moved on from version {expected}")
        self.run = run
        self.expected = expected


class Tampered(StoreError):
    exit_code = 1


class BusError(RedraftError):
    exit_code = 5


class StepError(RedraftError):
    pass


class PermanentError(StepError):
    pass
