"""pydantic-ai: an agent as an actor, and a workflow as a tool of an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

import msgspec
from pydantic_ai import Agent, RunContext, Tool, capture_run_messages

from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.context import Context
from redraft.actors.workflow.workflow import Workflow
from redraft.app.builtin.llm.ask import error_of
from redraft.app.builtin.llm.reply import critique_reply
from redraft.app.client.client import Client
from redraft.app.integrations.material import NO_CRITERIA, AsksModel, Declared, Material, asking
from redraft.app.integrations.within import key_for, refined, run_within
from redraft.app.models.provider import usage_of
from redraft.app.settings.settings import Settings
from redraft.events.messages.plan import Criterion
from redraft.events.messages.scales import UNIT, Scale

TRIES = 1
"""How often a step asks the agent: it asks its model again by its own settings, and the plan retries the step."""


def agent_generator(agent: Agent[Any, Any], *, name: str = "", version: str = "", deps: Any = None) -> Actor:  # noqa: ANN401 - the agent's own
    """Returns a generator that asks the agent, with the brief; what it puts out is the draft's text.

    Without a `name` it has that of the agent. `deps` are given to each run of the agent. What its model used is counted
    for the step. Raises ActorError for a name that cannot be an actor's.
    """
    return _agent_actor("generator", agent, Declared(_name(agent, name), version), deps)


def agent_critic(
    agent: Agent[Any, Any],
    *,
    name: str = "",
    version: str = "",
    deps: Any = None,  # noqa: ANN401 - the agent's own
    scale: Scale = UNIT,
    criteria: Mapping[str, str | Criterion] = NO_CRITERIA,
) -> Actor:
    """Returns a critic that asks the agent, with the brief and the draft.

    What it puts out is a critique: a number on the `scale`, a bool, or an object with the fields of a Critique. An
    agent that puts out text is asked for such an object instead. The rest is as for `agent_generator`.
    """
    return _agent_actor("critic", agent, Declared(_name(agent, name), version, scale, criteria), deps)


def agent_refiner(agent: Agent[Any, Any], *, name: str = "", version: str = "", deps: Any = None) -> Actor:  # noqa: ANN401 - the agent's own
    """Returns a refiner that asks the agent, with the draft, its critique, earlier attempts and people's advice.

    What it puts out is the new text, or an object with a `text`, and `changes` and `declined` if it likes. The rest is
    as for `agent_generator`.
    """
    return _agent_actor("refiner", agent, Declared(_name(agent, name), version), deps)


def agent_step(
    agent: Agent[Any, Any],
    *,
    name: str = "",
    version: str = "",
    deps: Any = None,  # noqa: ANN401 - the agent's own
    writes: Sequence[str] = (),
) -> Actor:
    """Returns a free step that asks the agent, with the run's state, the draft and its critique, if there are any.

    The fields of what it puts out, such as a pydantic model, are the values of the state that change; `writes` names
    those that may. The rest is as for `agent_generator`.
    """
    return _agent_actor("step", agent, Declared(_name(agent, name), version, writes=tuple(writes)), deps)


def _agent_actor(role: AsksModel, agent: Agent[Any, Any], declared: Declared, deps: object) -> Actor:
    async def ask(material: Material, context: Context) -> object:
        output: Any = None
        if role == "critic" and agent.output_type is str:
            criteria = tuple(context.criteria)
            output = critique_reply(context.scale or declared.scale, criteria, verdict=False)
        began, model = monotonic(), _model_name(agent)
        with (
            capture_run_messages() as messages,
            context.metered(lambda: usage_of(messages, None, model, "", monotonic() - began)),
        ):
            try:
                done = await agent.run(
                    material.message, instructions=material.rule, output_type=output, deps=deps, timeout=context.timeout
                )
            except Exception as error:  # noqa: BLE001 - whatever the library raises is told without secrets
                raise error_of(error, model or declared.name, TRIES, "check the network") from None
        return done.output

    return asking(role, declared, ask)


def _name(agent: Agent[Any, Any], name: str) -> str:
    return name or agent.name or "agent"


def _model_name(agent: Agent[Any, Any]) -> str:
    """Returns the name of the model that the agent asks; empty where each run says it."""
    model = agent.model
    return model if isinstance(model, str) else (model.model_name if model is not None else "")


def workflow_tool(
    workflow: Workflow,
    *,
    name: str = "",
    description: str = "",
    settings: Settings | None = None,
    client: Client | None = None,
) -> Tool[Any]:
    """Returns a tool by which an agent has a text refined: `Agent(model, tools=[workflow_tool(article)])`.

    It takes a `text`, runs the workflow with it as the brief, in this process by the `settings`, or by the deployment
    of a `client`, and answers with the text, the outcome, the reason, the score, and the id of the recorded run. A call
    that is made again within the same run of the agent is the same run. Raises RedraftError as `refine` does.
    """

    async def refine_text(ctx: RunContext[Any], text: str) -> dict[str, Any]:
        key = key_for(ctx.run_id or "", ctx.tool_call_id or "")
        result = await run_within(workflow, text, key, settings, client)
        return msgspec.structs.asdict(refined(result))

    said = description or (
        f"Refine a text by the workflow {workflow.plan.name}: it is judged by critics and improved until it is good. "
        "Returns the text, the outcome, why it ended, the score from 0 to 1, and the id of the recorded run."
    )
    return Tool(
        refine_text, takes_ctx=True, name=name or f"refine_{workflow.plan.name.replace('-', '_')}", description=said
    )
