"""LangGraph: a graph or any other runnable as an actor, and a workflow as a node of a graph."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from time import monotonic
from typing import Any, TypeAlias

import msgspec
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig

from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.context import Context
from redraft.actors.workflow.workflow import Workflow
from redraft.app.client.client import Client
from redraft.app.client.result import Result
from redraft.app.integrations.material import NO_CRITERIA, AsksModel, Declared, Material, asking, told
from redraft.app.integrations.within import key_for, refined, run_within
from redraft.app.settings.settings import Settings
from redraft.events.errors import PermanentError, RedraftError
from redraft.events.messages.plan import Criterion
from redraft.events.messages.scales import UNIT, Scale
from redraft.events.messages.usage import Usage

Into: TypeAlias = Callable[[Material], Any]
"""Makes a runnable's input of what a step was given."""

OutOf: TypeAlias = Callable[[Any], Any]
"""Takes what an actor returns out of a runnable's output."""

State: TypeAlias = Mapping[str, Any]

Node: TypeAlias = Callable[[State, RunnableConfig], Coroutine[Any, Any, dict[str, Any]]]
"""A node of a graph: takes the state, gives what changes in it."""


def as_messages(material: Material) -> dict[str, list[BaseMessage]]:
    """Returns the input of a graph of messages: one message, with all that the step was given."""
    return {"messages": [HumanMessage(material.whole)]}


def last_message(output: Any) -> Any:  # noqa: ANN401 - whatever a runnable gives
    """Returns the text of a message, or of the last message of a graph's state; anything else as it is."""
    if isinstance(output, Mapping) and output.get("messages"):
        output = output["messages"][-1]
    return str(output.text) if isinstance(output, BaseMessage) else output


def runnable_generator(
    runnable: Runnable[Any, Any],
    name: str,
    *,
    into: Into = as_messages,
    out_of: OutOf = last_message,
    version: str = "",
) -> Actor:
    """Returns a generator that invokes the runnable, such as a compiled graph, for the draft's text.

    It is given a state of messages, and the text of the last message is taken, unless `into` and `out_of` say
    otherwise: for a chain that takes a text, `into=lambda material: material.whole`. A graph with a checkpointer gets a
    thread for each step. What models report as used is counted for the step. Raises ActorError for a name that cannot
    be an actor's.
    """
    return _runnable_actor("generator", runnable, Declared(name, version), into, out_of)


def runnable_critic(
    runnable: Runnable[Any, Any],
    name: str,
    *,
    into: Into = as_messages,
    out_of: OutOf = last_message,
    version: str = "",
    scale: Scale = UNIT,
    criteria: Mapping[str, str | Criterion] = NO_CRITERIA,
) -> Actor:
    """Returns a critic that invokes the runnable; `out_of` takes a critique out of what it gives.

    That is a number on the `scale`, a bool, or an object with fields of a Critique. The rest is as for
    `runnable_generator`.
    """
    return _runnable_actor("critic", runnable, Declared(name, version, scale, criteria), into, out_of)


def as_state(material: Material) -> dict[str, Any]:
    """Returns the input of a graph whose state has values of the run's: these, by name."""
    return dict(material.state)


def runnable_step(
    runnable: Runnable[Any, Any],
    name: str,
    *,
    into: Into = as_state,
    out_of: OutOf = lambda output: output,
    version: str = "",
    writes: Sequence[str] = (),
) -> Actor:
    """Returns a free step that invokes the runnable with the run's state; what is then otherwise in its output changes.

    `out_of` takes the values out of what it gives: a dict, or an object with fields; of a graph that is its own state,
    without what it was given. `writes` names those that may change. The rest is as for `runnable_generator`.
    """
    declared = Declared(name, version, writes=tuple(writes))
    return _runnable_actor("step", runnable, declared, into, out_of)


def runnable_refiner(
    runnable: Runnable[Any, Any],
    name: str,
    *,
    into: Into = as_messages,
    out_of: OutOf = last_message,
    version: str = "",
) -> Actor:
    """Returns a refiner that invokes the runnable for the new text, or an object with `text` and `changes`.

    The rest is as for `runnable_generator`.
    """
    return _runnable_actor("refiner", runnable, Declared(name, version), into, out_of)


def _runnable_actor(
    role: AsksModel, runnable: Runnable[Any, Any], declared: Declared, into: Into, out_of: OutOf
) -> Actor:
    async def ask(material: Material, context: Context) -> object:
        used, began = UsageMetadataCallbackHandler(), monotonic()
        config = RunnableConfig(
            callbacks=[used], configurable={"thread_id": context.idempotency_key}, run_name=declared.name
        )
        with context.metered(lambda: _usage(used, monotonic() - began)):
            try:
                output = out_of(await runnable.ainvoke(into(material), config))
                return _changed(material, output) if role == "step" else output
            except RedraftError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the library raises is told without secrets
                raise told(error, declared.name) from None

    return asking(role, declared, ask)


def _changed(material: Material, output: Any) -> Any:  # noqa: ANN401 - the worker judges what it is
    """Returns the values of an output that are not in the run's state already; what is no mapping, as it is."""
    if not isinstance(output, Mapping):
        return output
    return {
        name: value for name, value in output.items() if name not in material.state or material.state[name] != value
    }


def _usage(used: UsageMetadataCallbackHandler, seconds: float) -> Usage:
    """Returns what the models reported; nobody here knows their prices."""
    given = sum(each["input_tokens"] for each in used.usage_metadata.values())
    taken = sum(each["output_tokens"] for each in used.usage_metadata.values())
    return Usage(
        tokens=given + taken,
        input_tokens=given,
        output_tokens=taken,
        calls=len(used.usage_metadata),
        unpriced=len(used.usage_metadata),
        seconds=round(seconds, 3),
        model=", ".join(used.usage_metadata),
    )


def text_in(state: State) -> str:
    """Returns the text to refine: `text` of the state, or that of its last message. Raises PermanentError."""
    if isinstance(text := state.get("text"), str):
        return text
    if messages := state.get("messages"):
        return str(last_message({"messages": messages}))
    raise PermanentError("the state has neither a text nor messages; say what to refine with read=")


def changes_of(result: Result) -> dict[str, Any]:
    """Returns what a node changes: the `text`, unless the run failed, and `refined` with outcome, score and run."""
    found = msgspec.structs.asdict(refined(result))  # a checkpoint can hold it
    return {"text": found["text"], "refined": found} if found["text"] else {"refined": found}


def workflow_node(
    workflow: Workflow,
    *,
    read: Callable[[State], str] = text_in,
    write: Callable[[Result], dict[str, Any]] = changes_of,
    settings: Settings | None = None,
    client: Client | None = None,
) -> Node:
    """Returns a node that refines a text of the state: `graph.add_node("refine", workflow_node(article))`.

    `read` takes the text out of the state, and `write` makes the changes of the result. It runs in this process by the
    `settings`, or by the deployment of a `client`. In a graph with a checkpointer a node that is run again after a
    crash is the same run, and goes on. Raises RedraftError as `refine` does.
    """

    async def node(state: State, config: RunnableConfig) -> dict[str, Any]:
        known = config.get("configurable", {})
        key = key_for(str(known.get("thread_id") or ""), str(known.get("checkpoint_ns") or ""))
        return write(await run_within(workflow, read(state), key, settings, client))

    return node
