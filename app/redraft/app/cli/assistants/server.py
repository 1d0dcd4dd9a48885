"""The MCP server: its tools and resources, each a call of the desk, with the official SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import Field, ValidationError

from redraft.actors.conditions.text import parse_condition, read_margin
from redraft.actors.deciding.policy import Policy
from redraft.app.builtin.support.options import nearest
from redraft.app.cli.assistants.desk import Desk, Document
from redraft.app.cli.assistants.offers import PlanWishes
from redraft.app.cli.assistants.resources import audit_text, draft_text, record_lines
from redraft.events.errors import NoSuchRun, RedraftError
from redraft.events.messages.content import Brief
from redraft.events.messages.plan import Keep
from redraft.projections.display import plain

T = TypeVar("T")

Step = Annotated[str, Field(description="The `step` that asks, as the waiting run tells; needed at a second step.")]
Run = Annotated[str, Field(description="The run's id, the beginning or end of it, or `last` for the newest.")]
Until = Annotated[str, Field(description="End the loop when this holds, such as 'score >= 0.9'; empty: as it is.")]
Most = Annotated[int | None, Field(description="The most iterations of the loop; null: as it is.")]

READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
STEERS: Final = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)

LONGEST_WATCH: Final = 600.0
"""The most seconds for which one call of `watch` waits."""

INSTRUCTIONS: Final = """\
Redraft refines a text by independent actors: it is generated, judged by critics, refined, and judged again until it \
is good. Every step is recorded, and the record can be verified.

Call `submit` with the text; then `watch` with the run's id, again and again, until its status is `ended` or \
`waiting`. If it is `waiting`, show the person the draft and ask whether to `approve` or `reject` it: never decide for \
them. `guide` gives advice to the next refinement. The resource `redraft://runs/{{run}}/audit` is the proof of what \
was done.

Workflows here: {workflows}.
"""


class _StrictServer(MCPServer):
    """A server that refuses arguments that a tool does not have, which the SDK drops without a word.

    What is wrong with those that it has is told in one line.
    """

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        schemas = [each.input_schema for each in await self.list_tools() if each.name == name]
        known = list(schemas[0]["properties"]) if schemas else list(arguments)
        if unknown := [each for each in arguments if each not in known]:
            raise ToolError(f"{name} has no argument {unknown[0]!r}; {nearest(unknown[0], known)}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(f"{name}: {_first_fault(error.__cause__)}") from None
            raise


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"])) or "its arguments"
    return f"{plain(where, 60)} is not valid: {plain(first['msg'], 200)}"


def build_server(desk: Desk) -> MCPServer:
    """Returns the server that answers at this desk."""
    instructions = INSTRUCTIONS.format(workflows=", ".join(desk.offers))
    server = _StrictServer("redraft", instructions=instructions, version=version("redraft"), log_level="WARNING")
    for add in (_add_beginning, _add_looking, _add_steering, _add_resources):
        add(server, desk)
    return server


async def _tool(asked: Awaitable[T]) -> T:
    """Returns the answer. Raises ToolError, which the assistant reads, for what is wrong with the question."""
    try:
        return await asked
    except RedraftError as error:
        raise ToolError(str(error)) from None


async def _resource(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except NoSuchRun as error:
        raise ResourceNotFoundError(str(error)) from None
    except RedraftError as error:
        raise ResourceError(str(error)) from None


def _add_beginning(server: MCPServer, desk: Desk) -> None:
    offered = f"Begin to refine a text, by a workflow: {', '.join(desk.offers)}. Returns the run's id; `watch` it then."

    @server.tool(description=offered, annotations=STEERS)
    async def submit(
        text: Annotated[str, Field(description="The text to refine, or what to write, as the workflow wants it.")],
        workflow: Annotated[str, Field(description="The name of the workflow; empty: the first.")] = "",
        media_type: Annotated[
            Literal["text/plain", "text/markdown", "text/x-python"], Field(description="What the text is.")
        ] = "text/plain",
        until: Until = "",
        max_iterations: Most = None,
        budget: Annotated[str, Field(description="At most this: tokens=50000,cost=2,calls=40,seconds=600.")] = "",
        key: Annotated[str, Field(description="The same key is the same run, however often it is submitted.")] = "",
        tags: Annotated[list[str], Field(description="Words to find the run by.")] = [],  # noqa: B006 - never changed
        state: Annotated[
            dict[str, Any], Field(description="Values with which the run's state begins, as the workflow wants them.")
        ] = {},  # noqa: B006 - never changed
    ) -> Document:
        wishes = PlanWishes(until, max_iterations, budget)
        return await _tool(desk.submit(Brief(text, media_type, state=state), workflow, wishes, key, tags))

    @server.tool(annotations=READS)
    async def watch(
        ctx: Context[Any, Any],
        run: Run,
        seconds: Annotated[
            float, Field(gt=0, le=LONGEST_WATCH, description="How long to wait; then call it again.")
        ] = 45.0,
    ) -> Document:
        """Wait until a run ends or needs a person's decision, with a progress notification for each step.

        Returns its status (running, waiting, paused, ended), how it ended, and its newest draft.
        """
        return await _tool(desk.watch(run, seconds, _teller(ctx)))


def _teller(ctx: Context[Any, Any]) -> Callable[[int, str], Coroutine[Any, Any, None]]:
    async def tell(number: int, line: str) -> None:
        await ctx.report_progress(number, None, line)

    return tell


def _add_looking(server: MCPServer, desk: Desk) -> None:
    @server.tool(annotations=READS)
    async def show(
        run: Run,
        at: Annotated[str, Field(description="As it was after its first N events, or at a time; empty: now.")] = "",
    ) -> Document:
        """Show a run as a tree, with scores and times, why it ended, and its newest draft."""
        return await _tool(desk.show(run, at))

    @server.tool(annotations=READS)
    async def runs(
        limit: Annotated[int, Field(ge=1, le=200, description="At most so many, the newest first.")] = 20,
        workflow: Annotated[str, Field(description="Only runs of this workflow.")] = "",
        tag: Annotated[str, Field(description="Only runs with this tag.")] = "",
    ) -> Document:
        """List the runs, the newest first."""
        return await _tool(desk.runs(limit, workflow, tag))

    @server.tool(annotations=READS)
    async def diff(
        run: Run,
        before: Annotated[int, Field(description="The number of the draft before.")],
        after: Annotated[int, Field(description="The number of the draft after.")],
    ) -> Document:
        """Show what changed between two drafts: removed words are [-removed-], added ones {+added+}."""
        return await _tool(desk.diff(run, before, after))

    @server.tool(annotations=READS)
    async def what_if(
        run: Run,
        until: Until = "",
        max_iterations: Most = None,
        keep: Annotated[Keep | None, Field(description="Which draft leaves the loop.")] = None,
        rollback_margin: Annotated[
            float | str | None,
            Field(description="A fall in score beyond which refining begins at the best draft again: 0.1, or 1 of 10."),
        ] = None,
        loop: Annotated[str, Field(description="The path of the loop; empty: the one outermost loop.")] = "",
    ) -> Document:
        """Decide a recorded run again under another policy, with the recorded answers: no model is asked."""

        async def answer() -> Document:
            margin = read_margin(rollback_margin) if isinstance(rollback_margin, str) else rollback_margin
            policy = Policy(parse_condition(until) if until else None, max_iterations, keep, margin)
            return await desk.what_if(run, policy, loop)

        return await _tool(answer())


def _add_steering(server: MCPServer, desk: Desk) -> None:
    @server.tool(annotations=STEERS)
    async def guide(
        run: Run, advice: Annotated[str, Field(description="What the next refinement should take into account.")]
    ) -> Document:
        """Give advice to the next refinement of a run that goes on."""
        return await _tool(desk.guide(run, advice))

    @server.tool(annotations=STEERS)
    async def approve(
        run: Run,
        draft: Annotated[int, Field(description="The number of the draft that the person has seen and approves.")],
        reason: Annotated[str, Field(description="Why; it is kept in the record.")] = "",
        step: Step = "",
    ) -> Document:
        """Approve the draft that a run waits with, in the name of the person who runs this server. Ask them first."""
        return await _tool(desk.approve(run, draft, reason, step))

    @server.tool(annotations=STEERS)
    async def reject(
        run: Run,
        draft: Annotated[int, Field(description="The number of the draft that the person has seen and rejects.")],
        feedback: Annotated[str, Field(description="What the next refinement should take into account.")] = "",
        step: Step = "",
    ) -> Document:
        """Reject the draft that a run waits with, in the name of the person who runs this server. Ask them first."""
        return await _tool(desk.reject(run, draft, feedback, step))


def _add_resources(server: MCPServer, desk: Desk) -> None:
    @server.resource("redraft://runs/{run}/drafts/{draft}", mime_type="text/plain")
    async def draft(run: str, draft: str) -> str:
        """The text of a draft of a run, by its number, or `final` for the one that the run ended with."""
        return await _resource(draft_text(desk, run, draft))

    @server.resource("redraft://runs/{run}/audit", mime_type="text/plain")
    async def audit(run: str) -> str:
        """The whole story of a run, below the result of checking its record by hashes and against its plan."""
        return await _resource(audit_text(desk, run))

    @server.resource("redraft://runs/{run}/record.jsonl", mime_type="application/x-ndjson")
    async def record(run: str) -> str:
        """The record of a run as JSON Lines, which can be checked without Redraft."""
        return await _resource(record_lines(desk, run))
