"""Validates what a plan says of lessons."""

from __future__ import annotations

from collections.abc import Mapping

from redraft.actors.plans.paths import check_name
from redraft.actors.values import is_whole, shown
from redraft.events.errors import PlanError, suggest
from redraft.events.messages.lessons import MAX_LESSONS
from redraft.events.messages.plan import LessonsSpec


def lessons_spec(given: LessonsSpec | Mapping[str, str | int] | bool | None) -> LessonsSpec | None:
    """Returns what is given as a plan has it: True is ten lessons of the plan's own workflow. Raises PlanError."""
    if given is True or isinstance(given, Mapping):
        settings = dict(given) if isinstance(given, Mapping) else {}
        for name in settings:
            if name not in LessonsSpec.__struct_fields__:
                raise PlanError(
                    "", f"lessons: {shown(name)} is no setting; {suggest(str(name), ('workflow', 'limit'))}"
                )
        spec: LessonsSpec | None = LessonsSpec(**settings)  # type: ignore[arg-type]  # checked below
    else:
        spec = None if given is False else given
    check_lessons(spec)
    return spec


def check_lessons(spec: object) -> None:
    """Raises PlanError unless this is None, or the name of a workflow and how many of its lessons runs are given."""
    if spec is None:
        return
    if not isinstance(spec, LessonsSpec):
        raise PlanError("", f"lessons is {shown(spec)}; write {{workflow: NAME, limit: 10}}")
    if spec.workflow != "":
        try:
            check_name("", spec.workflow, "workflow")
        except PlanError as error:
            raise PlanError("", f"lessons.workflow: {error.fault}") from None
    if not is_whole(spec.limit, 1, MAX_LESSONS):
        raise PlanError("", f"lessons.limit is {shown(spec.limit)}; write a whole number, 1 to {MAX_LESSONS}")
