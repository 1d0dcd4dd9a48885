"""Faults of the lessons that runs are given."""

from tests.app.testing.faults import Fault

LEARNING = [
    Fault(
        "asked with fewer lessons than recorded",
        "actors.runtime.relaying.request_builder",
        "RequestBuilder.add",
        "data.lessons.given if data.lessons else ()",
        "data.lessons.given[1:] if data.lessons else ()",
        29,
    ),
    Fault(
        "critics are given lessons too",
        "actors.runtime.relaying.request_builder",
        "RequestBuilder.command",
        'self._lessons if requested.role in ("generator", "refiner") else ()',
        "self._lessons",
        29,
    ),
    Fault(
        "lesson given that was struck out",
        "projections.read_models.lessons",
        "lessons_for",
        "if each.struck_by is None",
        "if True",
        69,
    ),
    Fault(
        "lesson of a run that goes on",
        "projections.read_models.lessons",
        "lesson_changes",
        '"ended": 0',
        '"ended": 1',
        376,
    ),
    Fault(
        "lessons of the plan's own workflow where it asks for another's",
        "actors.runtime.coordinating.command_handler",
        "CommandHandler._lessons_for",
        "asked.workflow or message.plan.name",
        "message.plan.name",
        11,
    ),
    Fault(
        "fork without the lessons of its parent",
        "actors.deciding.forking",
        "begin_fork",
        "lessons = begun.lessons if isinstance(begun, RunStarted) else None",
        "lessons = None",
        20,
    ),
]
