"""`await refine(workflow, brief)`: one run in this process, from brief to result."""

from __future__ import annotations

from collections.abc import Iterable

from redraft.actors.workflow import Workflow
from redraft.app.compose import open_house
from redraft.app.result import Result
from redraft.app.settings import Settings, read_settings
from redraft.events.content import Brief


async def refine(
    workflow: Workflow,
    brief: Brief | str,
    *,
    key: str = "",
    tags: Iterable[str] = (),
    settings: Settings | None = None,
) -> Result:
    """Runs a workflow for a brief and gives the result; every step is recorded in the store of the settings.

    With the same `key` it is the same run: one that was interrupted goes on, one that has ended gives its result
    again. `tags` are words to find it by. Raises PlanError for a faulty plan, ContentError for a brief that is empty or
    too large, InputError for a tag that is none and for a key that was used for something else, StoreError.
    """
    chosen = settings or read_settings()
    async with open_house(chosen, workflow.actors.values()) as house:
        run = await house.client.submit(workflow, brief, key=key, tags=tags)
        return await house.client.wait(run)
