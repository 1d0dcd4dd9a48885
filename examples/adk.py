"""A loop that its own agents end: a critic that says APPROVED, and a refiner with a tool to leave the loop by.

The two ways of Google ADK's LoopAgent, with agents of one's own (here pydantic-ai's) as a critic and a refiner. A model
answers: that of REDRAFT_MODEL, or else recorded answers. Run it: `python examples/adk.py`
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from model_server import scripted
from pydantic_ai import Agent

from redraft.actors import (
    Context,
    Critique,
    Draft,
    Revision,
    Usage,
    Workflow,
    critic,
    exit_,
    generator,
    refiner,
    score,
    step,
)
from redraft.app import Settings, read_settings, refine
from redraft.app.models.provider import model_of

CHOSEN: list[Settings] = []
"""The settings of this program, for its own agents."""


async def ask(context: Context, instructions: str, message: str, tools: Sequence[Callable[[], str]] = ()) -> str:
    """An agent's answer; what it used is told to the step that it is part of."""
    settings = CHOSEN[0] if CHOSEN else read_settings()
    model = model_of(settings.model, settings.model_url)
    agent = Agent(model, instructions=instructions, tools=tools, deps_type=type(None))
    async with agent:
        done = await agent.run(message)
    used = done.usage
    tokens = used.input_tokens + used.output_tokens
    context.used(Usage(tokens, calls=used.requests, unpriced=used.requests, model=settings.model))
    return done.output


@generator
async def storyteller(brief: object, context: Context) -> str:
    return await ask(context, "You write a very short story.", "Write of a cat.")


@critic
async def reviewer(draft: Draft, context: Context) -> Critique:
    """APPROVED ends the loop, whatever its condition says; anything else is what to change."""
    told = await ask(context, "You review a story: reply APPROVED, or say what to change.", draft.text)
    approved = told.strip() == "APPROVED"
    return Critique(1.0 if approved else 0.0, suggestions=() if approved else (told,), approved=approved or None)


@refiner
async def editor(draft: Draft, critique: Critique, context: Context) -> Revision:
    """Calls its tool when there is nothing more to change; then the loop ends."""
    left = False

    def exit_loop() -> str:
        """Leaves the loop; call it when there is nothing more to change."""
        nonlocal left
        left = True
        return "the loop has ended"

    told = "\n".join(critique.suggestions)
    text = await ask(
        context, "You refine a story by a review, or call exit_loop.", f"{draft.text}\n\n{told}", [exit_loop]
    )
    return Revision(draft.text, exit=True) if left else Revision(text, changes=(told,))


approved = (
    Workflow("approved").start_with(storyteller).repeat_until(score >= 1, max_iterations=5, body=[reviewer, editor])
)
exit_tool = (
    Workflow("exit-tool")
    .start_with(step("llm", role="generator"))
    .repeat_until(exit_(), max_iterations=5, body=[step("llm", role="critic", name="judge"), editor])
)


async def main(settings: Settings) -> None:
    CHOSEN.append(settings)
    for workflow, brief in ((approved, "a story of a cat"), (exit_tool, "a story of a dog")):
        result = await refine(workflow, brief, settings=settings)
        print(f"{result.text}\n-- {workflow.name}: {result.outcome}: {result.reason}\n")


if __name__ == "__main__":
    with scripted("adk") as chosen:
        asyncio.run(main(chosen))
