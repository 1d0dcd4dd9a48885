"""The critic `verify`: questions made from a draft, answered by somebody who does not see it, and compared with it.

Chain-of-Verification (Dhuliawala et al., 2023, https://arxiv.org/abs/2309.11495), its steps 2 and 3, each question
answered alone, so that what is wrong in the draft cannot be repeated; a refiner makes step 4 of what comes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from pydantic import Field

from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.context import Context
from redraft.actors.workflow.roles import critic
from redraft.app.builtin.llm.actors import all_of, ask_model
from redraft.app.builtin.llm.prompt import LlmOptions, is_hermetic, read_prompt
from redraft.app.builtin.llm.reply import Line, Reply, place_fault
from redraft.app.builtin.support.options import RELEASE, read_options
from redraft.app.models.configuration import Models
from redraft.events.messages.content import Brief, Critique, Draft, Issue

MOST: Final = 20
"""The largest number of questions about one draft."""


class VerifyOptions(LlmOptions, frozen=True):
    """`questions`: how many are made at most (1 to 20). `prompt` is that of the comparison; `questions_prompt` and
    `answers_prompt` are those of the steps before."""

    questions: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = 6
    questions_prompt: str = ""
    answers_prompt: str = ""


class Questions(Reply):
    """The questions whose answers show whether the draft is right."""

    questions: Annotated[list[Line], Field(min_length=1, max_length=MOST)]


class Finding(Reply):
    """The comparison of the draft with the answer to one question."""

    question: int
    agrees: bool
    quote: Annotated[str, Field(max_length=2_000)] = ""
    message: Annotated[str, Field(max_length=2_000)] = ""


class Comparison(Reply):
    """One finding for each question."""

    findings: list[Finding]


def verify_critic(models: Models) -> Actor:
    """The critic `verify`; options: VerifyOptions. The score is the share of answers that agree with the draft.

    It is counted here, and not given by the model. Each answer that does not agree is an error with its place.
    """

    @critic(name="verify", version=RELEASE, hermetic=is_hermetic)
    async def verify(draft: Draft, brief: Brief, context: Context) -> Critique:
        options = read_options(VerifyOptions, context.options, "verify")
        prompt = read_prompt(options.questions_prompt or "questions", "", {"most": str(options.questions)})
        texts = {"BRIEF": brief.text, "DRAFT": draft.text}
        made = await ask_model(
            models, options, context, prompt, texts, Questions, lambda given: _too_many(given, options.questions)
        )
        answering = [_answer_question(models, options, context, question) for question in made.questions]
        answers = await all_of(answering)
        return await _compare(models, options, context, draft, list(zip(made.questions, answers, strict=True)))

    return verify


async def _answer_question(models: Models, options: VerifyOptions, context: Context, question: str) -> str:
    """The answer of a model that sees the question, and neither the draft nor the other questions."""
    prompt = read_prompt(options.answers_prompt or "answers")
    return await ask_model(models, options, context, prompt, {"QUESTION": question}, str)


async def _compare(
    models: Models, options: VerifyOptions, context: Context, draft: Draft, known: Sequence[tuple[str, str]]
) -> Critique:
    prompt = read_prompt(options.prompt or "compare", options.instructions)
    answers = "\n\n".join(f"{number}. {question}\n{answer}" for number, (question, answer) in enumerate(known, 1))
    texts = {"DRAFT": draft.text, "QUESTIONS AND ANSWERS": answers}
    reply = await ask_model(
        models, options, context, prompt, texts, Comparison, lambda given: _quote_fault(given, draft.text, len(known))
    )
    wrong = [each for each in reply.findings if not each.agrees]
    return Critique(
        round(1 - len(wrong) / len(known), 9),
        strengths=tuple(f"verified: {known[each.question - 1][0]}" for each in reply.findings if each.agrees),
        suggestions=tuple(f"{known[each.question - 1][0]} {known[each.question - 1][1].strip()}" for each in wrong),
        issues=tuple(Issue(each.message, each.quote, severity="error") for each in wrong),
    )


def _too_many(reply: Questions, limit: int) -> str:
    return f"{len(reply.questions)} questions; ask at most {limit}." if len(reply.questions) > limit else ""


def _quote_fault(reply: Comparison, text: str, count: int) -> str:
    if sorted(each.question for each in reply.findings) != list(range(1, count + 1)):
        return f"Give exactly one finding for each of the questions 1 to {count}."
    for number, each in enumerate(reply.findings):
        if not each.agrees and not each.message.strip():
            return f"findings[{number}] does not agree, and its message does not say what is wrong."
        if fault := place_fault(each.quote, text):
            return f"findings[{number}].{fault}"
    return ""
