"""Striking lessons out, and giving them again: what the verbs of `redraft lessons` say."""

from __future__ import annotations

from typing import Annotated, Final

from litestar import Response, post
from litestar.params import JSONBody, PathParameter

from redraft.app.runs.lessons import find_lesson, strike_on
from redraft.app.server.access.identity import Asks, Identity
from redraft.app.server.api.answers import LATER, answer
from redraft.app.server.api.bodies import Reason
from redraft.app.server.service import Serves, Service
from redraft.app.server.words import Said

LessonId = Annotated[str, PathParameter(description="Its id, as `/stats/lessons` has it.")]


@post("/lessons/{lesson:str}/strike", answer=Said, also=LATER, status_code=200, summary="Strike a lesson out")
async def strike_lesson(service: Serves, identity: Asks, lesson: LessonId, data: JSONBody[Reason]) -> Response[bytes]:
    """Strikes a lesson out: runs that begin from now on are not given it. Nothing happens where that is so already."""
    return await _strike(service, identity, lesson, data, withdrawn=False)


@post("/lessons/{lesson:str}/restore", answer=Said, also=LATER, status_code=200, summary="Give a lesson again")
async def restore_lesson(service: Serves, identity: Asks, lesson: LessonId, data: JSONBody[Reason]) -> Response[bytes]:
    """Gives a lesson again that was struck out, to runs that begin from now on."""
    return await _strike(service, identity, lesson, data, withdrawn=True)


async def _strike(
    service: Service, identity: Identity, lesson: str, given: Reason, *, withdrawn: bool
) -> Response[bytes]:
    """Says it; answers with what was recorded, that nothing changed, or that it is on its way."""
    runtime = service.runtime
    found = await find_lesson(runtime, lesson)
    found, event = await strike_on(
        *(service.settings, runtime, found, given.reason, identity.name),
        withdrawn=withdrawn,
        sender=runtime.client,
        actor=identity.signature,
    )
    if event is None:
        is_so = (found.struck_by is not None) != withdrawn
        return answer(Said(found.run, by=identity.signature), 200 if is_so else 202)
    await service.shown(event.position)
    return answer(Said(found.run, event.name, event.version, event.actor))


HANDLERS: Final = (strike_lesson, restore_lesson)
