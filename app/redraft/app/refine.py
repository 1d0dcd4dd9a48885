"""`await refine(workflow, brief)`: one run in this process, from brief to result."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from redraft.actors.workflow import Workflow
from redraft.app.compose import open_house
from redraft.app.forks import as_brief, planned
from redraft.app.models import check_models, models_of, seats_of
from redraft.app.outlets import Outlets
from redraft.app.prepare import prepare
from redraft.app.result import Result
from redraft.app.settings import Settings, read_settings
from redraft.app.staff import staff
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
    again. `tags` are words to find it by. Actors that ship with Redraft are there for a plan that names them, such as
    `step("llm", role="critic")`; where a step names no model, that of the settings is asked, and kept with the run.
    Raises PlanError for a faulty plan, ActorError for an actor that nobody provides, ContentError for a brief that is
    empty or too large, InputError for a tag that is none, for a key that was used for something else, where a model is
    wanted and none is configured, and for a budget of money where nobody knows what a model costs, StoreError.
    """
    chosen = settings or read_settings()
    models = models_of(chosen)
    outlets = Outlets(sys.stdout, Path.cwd(), models=models, webhook_hosts=chosen.webhook_hosts)
    actors = staff(workflow.plan, workflow.actors.values(), outlets)
    own = seats_of(workflow.actors.values())
    check_models(workflow.plan, models, own)
    plan = prepare(planned(workflow), as_brief(brief), models, own)
    async with open_house(chosen, actors) as house:
        run = await house.client.submit(plan, brief, key=key, tags=tags)
        return await house.client.wait(run)
