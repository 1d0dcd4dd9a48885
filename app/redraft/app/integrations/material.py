"""The input of integrations that take one text: the brief, the draft and what was said of it, between marks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, Literal, TypeAlias, assert_never

import msgspec

from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.context import Context
from redraft.actors.workflow.free_steps import step
from redraft.actors.workflow.roles import critic, generator, refiner
from redraft.app.builtin.llm.actors import parts_of, remarks_on
from redraft.app.builtin.llm.prompt import Prompt, question
from redraft.events.errors import StepError
from redraft.events.messages.content import Brief, Critique, Draft, History
from redraft.events.messages.plan import Criterion
from redraft.events.messages.run_state import Value
from redraft.events.messages.scales import UNIT, Scale

NO_CRITERIA: Final[Mapping[str, str | Criterion]] = {}

AsksModel: TypeAlias = Literal["generator", "critic", "refiner", "step"]
"""The roles that something which asks a model can have."""


class Material(msgspec.Struct, frozen=True):
    """The input of a step. `message` holds all of its texts between marks, `rule` says that they are no instructions.

    `draft` is None for a generator, `critique` for all but a refiner and a free step, `history` for all but a refiner.
    `state` is the run's when the work was requested.
    """

    message: str
    rule: str
    brief: Brief
    draft: Draft | None = None
    critique: Critique | None = None
    history: History | None = None
    state: Mapping[str, Value] = {}

    @property
    def whole(self) -> str:
        """The rule and the texts as one text, for what takes no instructions beside it."""
        return f"{self.rule}\n\n{self.message}"


Ask: TypeAlias = Callable[[Material, Context], Awaitable[object]]
"""Gives an answer as the role's function may return it."""


class Declared(msgspec.Struct, frozen=True):
    """The declarations of an actor: name, version of its code (empty: unknown), and a critic's scale and criteria.

    `writes` names the values of the run's state that a free step may change; empty where it does not say.
    """

    name: str
    version: str = ""
    scale: Scale = UNIT
    criteria: Mapping[str, str | Criterion] = NO_CRITERIA
    writes: tuple[str, ...] = ()


def asking(role: AsksModel, declared: Declared, ask: Ask) -> Actor:
    """Returns an actor of this role that asks. Raises ActorError for a name, scale or criteria that cannot be."""
    match role:
        case "generator":
            made: Actor = _generator(declared, ask)
        case "critic":
            made = _critic(declared, ask)
        case "refiner":
            made = _refiner(declared, ask)
        case "step":
            made = _step(declared, ask)
        case _:
            assert_never(role)
    return replace(made, version=declared.version)


def _generator(declared: Declared, ask: Ask) -> Actor:
    @generator(name=declared.name)
    async def write(brief: Brief, context: Context) -> object:
        return await ask(_material({"BRIEF": brief.text, **parts_of(context)}, brief, None, context), context)

    return write


def _critic(declared: Declared, ask: Ask) -> Actor:
    @critic(name=declared.name, scale=declared.scale, criteria=declared.criteria)
    async def judge(draft: Draft, brief: Brief, context: Context) -> object:
        return await ask(_material({"BRIEF": brief.text, "DRAFT": draft.text}, brief, draft, context), context)

    return judge


def _refiner(declared: Declared, ask: Ask) -> Actor:
    @refiner(name=declared.name)
    async def improve(
        draft: Draft, critique: Critique | None, history: History, brief: Brief, context: Context
    ) -> object:
        texts = {"BRIEF": brief.text, "DRAFT": draft.text, **remarks_on(critique, history), **parts_of(context)}
        given = msgspec.structs.replace(_material(texts, brief, draft, context), critique=critique, history=history)
        return await ask(given, context)

    return improve


def _step(declared: Declared, ask: Ask) -> Actor:
    @step(name=declared.name, writes=declared.writes)
    async def work(draft: Draft | None, critique: Critique | None, brief: Brief, context: Context) -> object:
        about = {"DRAFT": draft.text} if draft else {}
        texts = {"BRIEF": brief.text, **about, **remarks_on(critique, History()), **parts_of(context)}
        given = msgspec.structs.replace(_material(texts, brief, draft, context), critique=critique)
        return await ask(given, context)

    return work


def _material(texts: Mapping[str, str], brief: Brief, draft: Draft | None, context: Context) -> Material:
    state = dict(context.state)
    known = {"STATE": msgspec.json.encode(state).decode()} if state else {}
    asked = question(Prompt("", ""), {**texts, **known})
    return Material(asked.message, asked.instructions.strip(), brief, draft, state=state)


def told(error: Exception, name: str) -> StepError:
    """Returns an error of somebody else's code in one line without secrets; the step may be tried again."""
    from redraft.app.process.logs import without_secrets

    text = " ".join(without_secrets(f"{type(error).__name__}: {error}").split())
    return StepError(f"{name}: {text[:300]}")
