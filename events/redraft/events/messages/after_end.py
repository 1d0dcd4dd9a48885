"""The events that may follow the end of a run, and the commands that bring them about."""

from __future__ import annotations

import msgspec


class RunErased(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The texts of an ended run were made unreadable: its key was destroyed. `by` names the person who ordered it."""

    by: str
    reason: str = ""


class RunQuarantined(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person quarantined the run: nothing more is folded or done for it. RunErased may follow."""

    by: str
    reason: str
    key: str = ""


class LessonStruck(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person struck out a lesson of this run's issues: runs of the `workflow` that begin later are not given it.

    With `withdrawn` a person took that back. `lesson` is the lesson's id, `by` names the person.
    """

    lesson: str
    workflow: str
    by: str
    reason: str = ""
    withdrawn: bool = False
    key: str = ""


class EraseRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The key of an ended run was destroyed: records by whom (`by`) and why (`reason`)."""

    run: str
    by: str
    reason: str = ""


class QuarantineRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person quarantines a run, whatever its events are: `by` names the person, `reason` says why."""

    run: str
    by: str
    reason: str
    key: str = ""


class StrikeLesson(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person strikes a lesson out, or (`withdrawn`) takes that back; `run` is an ended run that it came from."""

    run: str
    lesson: str
    by: str
    reason: str = ""
    withdrawn: bool = False
    key: str = ""
