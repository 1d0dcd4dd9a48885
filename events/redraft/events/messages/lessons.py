"""Lessons: issues of earlier runs of a workflow, with what mended them, as a run was given them when it began.

They are texts of other runs' critics and refiners: data for models, never instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final, Literal, TypeAlias

import msgspec

LessonKind: TypeAlias = Literal["suggestion", "error"]

MAX_LESSONS: Final = 50
"""The highest number of lessons that a plan may ask for."""

MAX_LESSON_BYTES: Final = 500
"""The size in UTF-8 that a lesson's text may have, and that of what mended it; longer ones are cut."""

MAX_LESSONS_BYTES: Final = 16 * 1024
"""The size in UTF-8 that the texts of a run's lessons may have together; the last ones are left out."""

LESSON_ID: Final = 16
"""The number of characters of a lesson's id."""

_CUT: Final = " …"


class Lesson(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An issue of earlier runs: how often critics listed it, in how many runs, and how often it came back when fixed.

    `mended` is what was changed where it was fixed last; empty where that is not known. `id` names the lesson, as
    people do who strike it out.
    """

    id: str
    text: str
    critic: str
    kind: LessonKind
    times: int
    runs: int
    returns: int = 0
    mended: str = ""


class Lessons(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The lessons of a `workflow` as of a position of the log, those that came back most first.

    `why` says why there may be others, such as a read model that lagged; empty where these are all.
    """

    workflow: str
    position: int = 0
    given: tuple[Lesson, ...] = ()
    why: str = ""


def lesson_id(workflow: str, critic: str, kind: str, digest: str) -> str:
    """Returns the id of an issue of a workflow's runs: a hash of who listed it and of its words."""
    return sha256("\n".join((workflow, critic, kind, digest)).encode()).hexdigest()[:LESSON_ID]


def cut_text(text: str, limit: int = MAX_LESSON_BYTES) -> str:
    """Returns a text of at most `limit` bytes of UTF-8; one that was cut ends with an ellipsis."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    return raw[: limit - len(_CUT.encode())].decode(errors="ignore").rstrip() + _CUT


def fitting(lessons: Iterable[Lesson], limit: int) -> tuple[Lesson, ...]:
    """Returns the first lessons, at most `limit`, whose texts together are within `MAX_LESSONS_BYTES`."""
    kept: list[Lesson] = []
    room = MAX_LESSONS_BYTES
    for each in lessons:
        room -= len(each.text.encode()) + len(each.mended.encode())
        if room < 0 or len(kept) == limit:
            break
        kept.append(each)
    return tuple(kept)
