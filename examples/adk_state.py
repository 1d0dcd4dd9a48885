"""Google ADK's LoopAgent with its session state: a critic that only speaks, and a refiner that leaves by a tool.

`output_key="criticism"` there is a change of the state here, `{criticism}` in an instruction `context.state.criticism`,
and the tool `exit_loop` is `exit=True`, or a value of the state that the loop waits for. Each function stands where an
agent of theirs asks a model. Run it: `python examples/adk_state.py`
"""

from __future__ import annotations

import asyncio

from redraft.actors import (
    Brief,
    Context,
    Draft,
    Revision,
    WithState,
    Workflow,
    critic,
    exit_,
    generator,
    refiner,
    state,
)
from redraft.app import refine

COMPLETION_PHRASE = "No major issues found."
WISHES = {"cat": "Say that the cat's name is Tom.", "Tom": "Say what Tom wants: the moon.", "moon": COMPLETION_PHRASE}


def model(instruction: str) -> str:
    """A stand-in for a model: reviews by the last wish that the story fulfils, and refines by doing what it is told."""
    task, _, text = instruction.partition("\n")
    if task == "Review this story.":
        return [wish for sign, wish in WISHES.items() if sign in text][-1]
    story, _, criticism = text.partition("\n")
    return f"{story} {'His name is Tom.' if 'name' in criticism else 'Tom wants the moon.'}"


@generator
def initial_writer(brief: Brief) -> WithState:
    return WithState("There was a cat.", {"topic": brief.text})


@critic
def critic_agent(draft: Draft) -> WithState:
    """Its text is all that it says: no score, and no verdict."""
    criticism = model(f"Review this story.\n{draft.text}")
    return WithState(criticism, {"criticism": criticism})


@refiner
def refiner_agent(draft: Draft, context: Context) -> Revision:
    """Refines by the criticism in the state, or calls exit_loop when it is the phrase of completion."""
    if context.state.criticism == COMPLETION_PHRASE:
        return Revision(draft.text, exit=True)
    return Revision(model(f"Refine.\n{draft.text}\n{context.state.criticism}"), changes=(context.state.criticism,))


@refiner
def refiner_that_escalates(draft: Draft, context: Context) -> WithState:
    """The same, where the tool sets a value of the session's state."""
    done = context.state.criticism == COMPLETION_PHRASE
    text = draft.text if done else model(f"Refine.\n{draft.text}\n{context.state.criticism}")
    return WithState(text, {"done": done})


refinement_loop = (
    Workflow("refinement-loop")
    .start_with(initial_writer)
    .repeat_until(exit_(), max_iterations=5, body=[critic_agent, refiner_agent])
)
escalating = (
    Workflow("escalating")
    .start_with(initial_writer)
    .repeat_until(state.done, max_iterations=5, body=[critic_agent, refiner_that_escalates])
)


async def main() -> None:
    for workflow in (refinement_loop, escalating):
        result = await refine(workflow, "a cat")
        print(f"{result.text}\n-- {workflow.name}: {result.outcome}, {result.iterations} iterations: {result.reason}")


if __name__ == "__main__":
    asyncio.run(main())
