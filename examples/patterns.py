"""Three patterns of refinement: reflection on a trace of reasoning, a plan for each revision, one step mended.

A function of a few lines stands where a model would be asked. Run it: `python examples/patterns.py`
"""

from __future__ import annotations

import asyncio
import re

from redraft.actors import (
    Brief,
    Context,
    Critique,
    Draft,
    Edit,
    Issue,
    Revision,
    Workflow,
    approved,
    critic,
    generator,
    refiner,
    score,
    state,
    step,
)
from redraft.app import refine

TASK = "Tom has 17 apples, eats 5, and buys 2 bags of 6. How many has he?"
STEP = re.compile(r"\d+ [-+*] \d+ = \d+")


def outcome(line: str) -> tuple[int, int]:
    """Returns what a step of reasoning, `2 * 6 = 14`, says comes out, and what does."""
    left, sign, right, _, said = line.split()
    ways = {"-": int(left) - int(right), "+": int(left) + int(right), "*": int(left) * int(right)}
    return int(said), ways[sign]


# Reflection: the reasoning itself is in the state, apart from the answer; what is wrong in it is found and put right.


@step(writes=["trace"])
def think() -> dict[str, list[str]]:
    return {"trace": ["17 - 5 = 12", "2 * 6 = 14", "12 + 14 = 26"]}


@generator
def answer(context: Context) -> str:
    return f"He has {context.state.trace[-1].rpartition(' ')[2]} apples."


@step(writes=["flaws"])
def reflect(context: Context) -> dict[str, list[int]]:
    outcomes = map(outcome, context.state.trace)
    return {"flaws": [place for place, (said, right) in enumerate(outcomes) if said != right]}


@step
def revise_trace(context: Context) -> dict[str, list[str]]:
    """Mends the first step that is wrong, and puts its outcome where later steps begin with it."""
    place, trace = context.state.flaws[0], context.state.trace
    said, right = outcome(trace[place])
    later = [re.sub(rf"\b{said}\b(?=.*=)", str(right), each) for each in trace[place + 1 :]]
    return {"trace": [*trace[:place], trace[place].replace(f"= {said}", f"= {right}"), *later]}


@refiner
def answer_again(draft: Draft, context: Context) -> Revision:
    return Revision(f"He has {context.state.trace[-1].rpartition(' ')[2]} apples.", changes=("the trace was mended",))


reflection = (
    Workflow("reflection")
    .start_with(think, answer)
    .repeat_until(~state.flaws, max_iterations=5, body=[reflect, revise_trace, answer_again])
)


# Draft, critique, plan, revise, verify: what to change, and in which order, is decided before anything is changed.

PARTS = {"cause": "The moon pulls at the sea.", "rhythm": "Twice a day the water rises.", "help": "The sun helps it."}


@generator
def write(brief: Brief) -> str:
    return brief.text


@critic
def judge(draft: Draft) -> Critique:
    missing = tuple(part for part, sentence in PARTS.items() if sentence not in draft.text)
    return Critique(1 - len(missing) / len(PARTS), weaknesses=missing)


@step(writes=["plan"])
def plan_revision(critique: Critique) -> dict[str, list[str]]:
    """Takes two of the weaknesses at once, the most important first."""
    return {"plan": [part for part in PARTS if part in critique.weaknesses][:2]}


@refiner
def revise(draft: Draft, context: Context) -> Revision:
    plan = context.state.plan
    return Revision(" ".join((draft.text, *(PARTS[part] for part in plan))), changes=tuple(plan))


planned = (
    Workflow("planned-revision")
    .start_with(write)
    .repeat_until(score >= 0.9, max_iterations=5, body=[judge, plan_revision, revise])
)


# Stepwise correction: the one step that is wrong is found, and nothing else may be changed.


@generator
def show_the_work() -> str:
    return "First 17 - 5 = 12. Then 2 * 6 = 14. So 12 + 12 = 24."


@critic
def check_steps(draft: Draft) -> object:
    """Names the steps that are wrong, without a score; approves when there are none."""
    wrong = [found[0] for found in STEP.finditer(draft.text) if len(set(outcome(found[0]))) > 1]
    return {"issues": [Issue("It comes to something else.", quote=each) for each in wrong]} if wrong else True


@refiner
def mend_one_step(draft: Draft, critique: Critique) -> Revision:
    issue = critique.issues[0]
    said, right = outcome(issue.quote)
    return Revision(edits=(Edit(issue.quote, issue.quote.replace(f"= {said}", f"= {right}"), issues=(issue.id,)),))


stepwise = (
    Workflow("stepwise-correction")
    .start_with(show_the_work)
    .repeat_until(approved, max_iterations=5, body=[check_steps, step(mend_one_step, only_issues=True)])
)


async def main() -> None:
    for workflow, brief in ((reflection, TASK), (planned, "Why tides exist:"), (stepwise, TASK)):
        result = await refine(workflow, brief)
        print(f"{result.text}\n-- {workflow.name}: {result.outcome}, {result.iterations} iterations: {result.reason}")


if __name__ == "__main__":
    asyncio.run(main())
