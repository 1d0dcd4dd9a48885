"""The actors `llm`: a language model that writes, judges and improves. What it judges is data to it, never a rule."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Coroutine, Iterable
from statistics import median
from typing import TypeVar

import msgspec

from redraft.actors.roles import Actor, Context, critic, generator, refiner
from redraft.app.builtin.llm_options import CriticOptions, LlmOptions, checked
from redraft.app.builtin.llm_prompt import Prompt, read_prompt
from redraft.app.builtin.llm_reply import (
    CritiqueReply,
    Reply,
    RevisionReply,
    critique_fault,
    critique_reply,
    revision_fault,
)
from redraft.app.builtin.options import read_options
from redraft.app.models import INSTALL, Models
from redraft.events.content import Brief, Critique, Draft, History, Revision
from redraft.events.errors import PermanentError

T = TypeVar("T")
R = TypeVar("R", bound=str | Reply)


def llm_generator(models: Models) -> Actor:
    """The generator `llm`: writes what the brief asks for; options: LlmOptions, prompt `generator`."""

    @generator(name="llm")
    async def write(brief: Brief, context: Context) -> str:
        options = read_options(LlmOptions, context.options, "llm")
        prompt = read_prompt(options.prompt or "generator", options.instructions)
        return await asked(models, options, context, prompt, {"BRIEF": brief.text, **parts_of(context)}, str)

    return write


def llm_critic(models: Models) -> Actor:
    """The critic `llm`: judges a draft on its scale, once or as the median of several; options: CriticOptions.

    The verdict is left to the condition, unless the option `verdict` gives it to the model.
    """

    @critic(name="llm")
    async def judge(draft: Draft, brief: Brief, context: Context) -> Critique:
        options = checked(read_options(CriticOptions, context.options, "llm"))
        first = await _judged(models, options, context, draft, brief)
        score = _share(first, options)
        if options.samples == 1 or not _is_borderline(score, options):
            return _critique(first, (score,))
        asking = [_judged(models, options, context, draft, brief) for _ in range(options.samples - 1)]
        replies = [first, *await all_of(asking)]
        scores = tuple(_share(reply, options) for reply in replies)
        return _critique(replies[scores.index(median(scores))], scores)

    return judge


def llm_refiner(models: Models) -> Actor:
    """The refiner `llm`: improves a draft by what was said of it; options: LlmOptions, prompt `refiner`.

    It gives the text and the changes, or says what it would not change and why; when that is everything, it is done.
    """

    @refiner(name="llm")
    async def improve(
        draft: Draft, critique: Critique | None, history: History, brief: Brief, context: Context
    ) -> Revision:
        options = read_options(LlmOptions, context.options, "llm")
        prompt = read_prompt(options.prompt or "refiner", options.instructions)
        texts = {"BRIEF": brief.text, "DRAFT": draft.text, **told(critique, history), **parts_of(context)}
        reply = await asked(
            models, options, context, prompt, texts, RevisionReply, lambda given: revision_fault(given, draft.text)
        )
        return revision(reply, draft)

    return improve


def revision(reply: RevisionReply, draft: Draft) -> Revision:
    """A refiner's reply as a Revision of this draft; it keeps the draft's last line end, and adds no code fence."""
    text = draft.text if reply.text is None else _as_before(reply.text, draft.text)
    declined = tuple(map(str, reply.declined))
    return Revision(text, tuple(reply.changes), exit=text == draft.text, declined=declined)


def told(critique: Critique | None, history: History) -> dict[str, str]:
    """What was said of the draft and tried before, as texts for a model."""
    tried = msgspec.structs.replace(history, advice=())
    return {
        "ADVICE OF PEOPLE": "\n".join(history.advice),
        "CRITIQUE": _json(critique) if critique else "",
        "HISTORY": _json(tried) if tried.rounds else "",
    }


def parts_of(context: Context) -> dict[str, str]:
    """The finished parts of a larger whole, such as the chapters before this one."""
    return {f"FINISHED PART {number}": each.text for number, each in enumerate(context.outputs, 1)}


async def asked(
    models: Models,
    options: LlmOptions,
    context: Context,
    prompt: Prompt,
    texts: dict[str, str],
    reply: type[R],
    fault: Callable[[R], str] = lambda _: "",
) -> R:
    """See `llm_ask.ask`. The library that speaks to models takes a second to import: beside the event loop."""
    try:
        module = await asyncio.to_thread(importlib.import_module, "redraft.app.builtin.llm_ask")
    except ImportError:
        raise PermanentError(f"llm: {INSTALL}") from None
    given: R = await module.ask(models, options, context, prompt, texts, reply, fault)
    return given


async def all_of(asking: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """What these give, asked side by side. When one fails the others are heard all the same, as they are paid for."""
    heard = await asyncio.gather(*asking, return_exceptions=True)
    for each in heard:
        if isinstance(each, BaseException):
            raise each
    return [each for each in heard if not isinstance(each, BaseException)]


async def _judged(
    models: Models, options: CriticOptions, context: Context, draft: Draft, brief: Brief
) -> CritiqueReply:
    low, high = options.scale
    prompt = read_prompt(options.prompt or "critic", options.instructions, {"low": str(low), "high": str(high)})
    reply = critique_reply(low, high, verdict=options.verdict)
    texts = {"BRIEF": brief.text, "DRAFT": draft.text}
    return await asked(models, options, context, prompt, texts, reply, lambda given: critique_fault(given, draft.text))


def _share(reply: CritiqueReply, options: CriticOptions) -> float:
    """The score as a share (0 to 1) of the critic's scale."""
    low, high = options.scale
    return (reply.score - low) / (high - low)


def _is_borderline(score: float, options: CriticOptions) -> bool:
    return options.borderline is None or abs(score - options.borderline) <= options.margin + 1e-9


def _critique(reply: CritiqueReply, scores: tuple[float, ...]) -> Critique:
    return Critique(
        median(scores),
        tuple(reply.strengths),
        tuple(reply.weaknesses),
        tuple(reply.suggestions),
        tuple(map(str, reply.errors)),
        reply.approved,
        samples=scores if len(scores) > 1 else (),
    )


def _json(value: msgspec.Struct) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def _as_before(text: str, before: str) -> str:
    """The text as the draft before was framed: without a fence that was not there, and with the same end."""
    if text.startswith("```") and not before.startswith("```") and text.rstrip().endswith("```"):
        text = text.rstrip()[:-3].partition("\n")[2]
    ending = before[len(before.rstrip("\n")) :]
    return text.rstrip("\n") + ending
