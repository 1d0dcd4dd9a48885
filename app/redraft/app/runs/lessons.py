"""Strikes lessons out, and takes that back: an event in an ended run that the lesson came from."""

from __future__ import annotations

from typing import Final

from redraft.app.client.client import Client
from redraft.app.runs.steering import record_message
from redraft.app.settings.settings import Settings
from redraft.app.wiring.local import LocalRuntime, open_readonly
from redraft.events.errors import InputError
from redraft.events.messages.commands import StrikeLesson
from redraft.events.messages.domain_events import LessonStruck
from redraft.events.messages.envelope import Recorded
from redraft.projections.read_models.issues import ISSUES
from redraft.projections.read_models.lessons import KnownLesson, known_lessons
from redraft.projections.read_models.runs_query import find_run

_EVERY: Final = 2**31


async def strike(
    settings: Settings, lesson: str, reason: str, by: str, *, withdrawn: bool = False
) -> tuple[KnownLesson, Recorded | None]:
    """Strikes a lesson out, or gives it again; returns it, and the event unless that is so already or takes long.

    Raises StoreError, BusError, and InputError for an id that no lesson has.
    """
    async with open_readonly(settings) as runtime:
        found = await find_lesson(runtime, lesson)
        return await strike_on(settings, runtime, found, reason, by, withdrawn=withdrawn)


async def find_lesson(runtime: LocalRuntime, lesson: str) -> KnownLesson:
    """Returns the lesson with this id. Raises InputError when there is none."""
    known = await known_lessons(await runtime.models.of(ISSUES), limit=_EVERY)
    found = next((each for each in known if each.id == lesson), None)
    if found is None:
        raise InputError(f"no lesson has the id {lesson!r}; `redraft stats lessons` lists them")
    return found


async def strike_on(
    settings: Settings,
    runtime: LocalRuntime,
    lesson: KnownLesson,
    reason: str,
    by: str,
    *,
    withdrawn: bool = False,
    sender: Client | None = None,
    actor: str = "",
) -> tuple[KnownLesson, Recorded | None]:
    """The same on a runtime that is open; `sender` has coordinators take the message, `actor` is as in `steer_on`."""
    if (lesson.struck_by is not None) != withdrawn:
        return lesson, None
    if (await find_run(runtime.views, lesson.run)).status == "quarantined":
        raise InputError(f"run {lesson.run}, in which this lesson was struck out, was set aside: it takes no word back")
    message = StrikeLesson(lesson.run, lesson.id, by, reason, withdrawn)

    def is_void(event: Recorded) -> bool:
        data = event.data
        return isinstance(data, LessonStruck) and (data.lesson, data.withdrawn) == (lesson.id, withdrawn)

    event = await record_message(settings, runtime, message, sender, actor, is_void=is_void)
    return (lesson if event else await find_lesson(runtime, lesson.id)), event
