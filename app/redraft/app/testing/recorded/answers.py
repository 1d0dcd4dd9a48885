"""The recorded answers of actors: a file of them, and the stand-ins that write it and give them again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from math import inf, nextafter
from pathlib import Path
from typing import Any, Final, TypeAlias, assert_never

import msgspec

from redraft.actors.runtime.working.results import critique_of, receipt_of, revision_of, text_of
from redraft.actors.runtime.working.returned_state import values_of, verdict_of
from redraft.actors.runtime.working.returned_values import InvalidResult
from redraft.actors.workflow.actor import TAKES, Actor
from redraft.actors.workflow.context import ConditionFacts, Context, WithState
from redraft.events.errors import ContentError, InputError, PermanentError, StepError
from redraft.events.messages.codec import UNREADABLE
from redraft.events.messages.content import Critique, Draft, History, Mark, Receipt, Revision, new_draft
from redraft.events.messages.plan import Role
from redraft.events.messages.run_state import Values
from redraft.events.messages.scales import UNIT, Scale, on_scale, to_share
from redraft.events.messages.usage import Usage

PRECISE: Final = 9
"""Decimals to which the numbers of a request are compared: a score that was scaled and back is the same."""

UNPUBLISHED: Final = "nowhere, as no answer is recorded for this draft"
"""The place that a publisher returns for a draft that it was not asked to publish when answers were recorded."""

Work: TypeAlias = Callable[..., Awaitable[Any]]


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of an actor to one attempt. `asked` is the SHA-256 (hex) of its input.

    One of `text`, `critique`, `revision`, `receipt` and `error` is there, but for a free step; scores are shares, 0..1.
    `state` are the values of the run's state that it changed. A `permanent` error is not tried again.
    """

    path: str
    role: Role
    actor: str
    asked: str
    attempt: int = 1
    text: str | None = None
    media_type: str = "text/plain"
    critique: Critique | None = None
    revision: Revision | None = None
    receipt: Receipt | None = None
    state: Values = {}
    error: str = ""
    permanent: bool = False
    usage: Usage = Usage()


def read_answers(path: Path) -> tuple[Answer, ...]:
    """Returns the answers of a file; none where there is no file. Raises InputError for one that cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[Answer, ...])
    except FileNotFoundError:
        return ()
    except (OSError, *UNREADABLE) as error:
        raise InputError(f"{path}: these are no recorded answers: {error}; record them again") from None


def write_answers(path: Path, answers: Iterable[Answer]) -> None:
    """Writes the answers by the paths of their steps, so that the file of the same answers is the same."""
    ordered = sorted(answers, key=lambda each: (each.path, each.attempt))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(ordered)) + b"\n")


class Recorder:
    """Notes what the actors answer. `actors` call the real ones."""

    def __init__(self, actors: Iterable[Actor]) -> None:
        self.answers: list[Answer] = []
        self.actors = tuple(_standing_in(actor, self._work_of(actor)) for actor in actors)

    def _work_of(self, actor: Actor) -> Work:
        async def work(**given: Any) -> Any:  # noqa: ANN401 - what the actor returns
            context: Context = given["context"]
            about = Answer(context.path, actor.role, actor.name, asked_of(actor, given), context.attempt)
            try:
                returned = await _called(actor, given)
            except Exception as error:
                permanent = isinstance(error, PermanentError)
                self._note(about, context, error=_said(error), permanent=permanent)
                raise
            with suppress(InvalidResult, ContentError):  # the worker refuses it, and the run fails
                self._note(about, context, **_answer_of(actor, returned, given))
            return returned

        return work

    def _note(self, about: Answer, context: Context, **said: Any) -> None:  # noqa: ANN401 - fields of an Answer
        self.answers.append(msgspec.structs.replace(about, usage=context.total, **said))


class Player:
    """Gives recorded answers again. `missing` are the steps for which there is none, each in a sentence."""

    def __init__(self, actors: Iterable[Actor], answers: Sequence[Answer], live: frozenset[str]) -> None:
        self.missing: list[str] = []
        self._known = {(each.asked, each.attempt): each for each in answers}
        self._steps = {(each.path, each.role, each.actor) for each in answers}
        self.actors = tuple(
            actor if actor.name in live else _standing_in(actor, self._work_of(actor)) for actor in actors
        )

    def _work_of(self, actor: Actor) -> Work:
        async def work(**given: Any) -> Any:  # noqa: ANN401 - what the actor returns
            context: Context = given["context"]
            answer = self._known.get((asked_of(actor, given), context.attempt))
            if answer is None and actor.role == "publisher":
                return Receipt(UNPUBLISHED)
            if answer is None:
                raise PermanentError(self._miss(actor, context))
            context.used(answer.usage)
            return _given_again(actor, answer, context)

        return work

    def _miss(self, actor: Actor, context: Context) -> str:
        there = (context.path, actor.role, actor.name) in self._steps
        why = "what it is asked has changed since then" if there else "it was not asked then"
        self.missing.append(f"no answer of the {actor.role} {actor.name} is recorded for {context.path}: {why}")
        return self.missing[-1]


def _standing_in(actor: Actor, work: Work) -> Actor:
    """Returns an actor of the same role and name that is given all that its role has, and what else it asks for."""

    async def function(**given: Any) -> Any:  # noqa: ANN401 - what the actor returns
        return await work(**given)

    own = ("folder",) if actor.role == "refiner" else ("critique", "history", "folder")
    facts = ("facts",) if actor.condition else ()
    takes = tuple(each for each in TAKES[actor.role] if each not in own or each in actor.takes)
    return replace(actor, function=function, takes=(*takes, *facts), is_async=True, isolation="none")


async def _called(actor: Actor, given: dict[str, Any]) -> Any:  # noqa: ANN401 - what the actor returns
    wanted = {name: given[name] for name in actor.takes if name in given}
    if actor.is_async:
        return await actor.function(**wanted)
    return await asyncio.to_thread(actor.function, **wanted)


def asked_of(actor: Actor, given: dict[str, Any]) -> str:
    """Returns the SHA-256 (hex) of what an actor was given: texts, critique, history, options and state."""
    context: Context = given["context"]
    draft: Draft | None = given.get("draft")
    facts: ConditionFacts | None = given.get("facts")
    history: History | None = facts.history if facts else given.get("history")
    texts = [each.text for each in (*history.drafts, history.own) if each is not None] if history else []
    told = history and (msgspec.structs.replace(history, drafts=(), own=None), texts)
    asked = (
        *(actor.role, actor.name, given["brief"].text, draft and draft.text),
        *(facts.critique if facts else given.get("critique"), told, dict(sorted(context.options.items()))),
        *([each.text for each in context.outputs], [each.text for each in context.beside]),
        *(context.scale, context.criteria),
        *([dict(sorted(context.state.items()))] if context.state else []),
    )
    return sha256(msgspec.json.encode(_rounded(msgspec.to_builtins(asked)))).hexdigest()


def _rounded(value: object) -> object:
    match value:
        case float():
            return round(value, PRECISE)
        case dict():
            return {key: _rounded(each) for key, each in value.items()}
        case list() | tuple():
            return [_rounded(each) for each in value]
        case _:
            return value


def _answer_of(actor: Actor, returned: object, given: Mapping[str, Any]) -> dict[str, Any]:
    context: Context = given["context"]
    if isinstance(returned, WithState):
        return {**_answer_of(actor, returned.result, given), "state": values_of(returned.state)}
    match actor.role:
        case "generator":
            text, media_type = text_of(returned, "text/plain")
            return {"text": text, "media_type": media_type}
        case "critic" if actor.condition:
            return {"critique": verdict_of(actor.name, returned)}
        case "critic":
            return {"critique": critique_of(actor, returned, context.scale, context.criteria, given["draft"].text)}
        case "refiner":
            return {"revision": revision_of(returned, given["draft"], given.get("critique"))}
        case "publisher":
            return {"receipt": receipt_of(returned, actor.name)}
        case "step":
            return {"state": values_of(returned)}
        case "run":
            raise AssertionError("a run of an item is no actor")
        case _:
            assert_never(actor.role)


def _given_again(actor: Actor, answer: Answer, context: Context) -> object:
    """Returns what the actor returned, or raises what it raised."""
    if answer.error:
        raise (PermanentError if answer.permanent else StepError)(answer.error)
    if actor.role == "step":
        return answer.state
    result = _result_again(actor, answer, context)
    return WithState(result, answer.state) if answer.state else result


def _result_again(actor: Actor, answer: Answer, context: Context) -> object:
    """Returns the result of one of the four roles, or the verdict of a condition: True, False, or why not."""
    if answer.critique is not None and actor.condition:
        return next(iter(answer.critique.weaknesses), answer.critique.measures[actor.name] == 1)
    if answer.critique is not None:
        return _as_returned(answer.critique, context)
    if answer.text is not None:
        return new_draft(1, answer.text, answer.media_type)
    return answer.revision or answer.receipt


def _as_returned(critique: Critique, context: Context) -> Critique | bool:
    """Returns a critique with its scores on the scales on which critics give them, as the worker reads them."""
    scale = context.scale or UNIT
    own = {each.name: each.scale or scale for each in context.criteria}
    marks = tuple(_mark_on(mark, own.get(mark.name, scale)) for mark in critique.criteria)
    samples = tuple(_as_given(each, scale) for each in critique.samples)
    score = _as_given(critique.score, scale) if critique.scored else 0.0
    return msgspec.structs.replace(critique, score=score, samples=samples, criteria=marks, scale=None)


def _mark_on(mark: Mark, scale: Scale) -> Mark:
    return msgspec.structs.replace(mark, score=_as_given(mark.score, scale))


def _as_given(share: float, scale: Scale) -> float:
    """Returns a score on the scale that is read as exactly this share: a threshold may lie on it."""
    near = on_scale(share, scale)
    there = (near, nextafter(near, inf), nextafter(near, -inf))
    return next((each for each in there if to_share(each, scale) == share), near)


def _said(error: Exception) -> str:
    text = str(error) if isinstance(error, StepError | ContentError) else f"{type(error).__name__}: {error}"
    return text or type(error).__name__
