"""Holds what people write actors and workflows with, the decider and the runtime; knows neither projections nor app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redraft.events.public_names import public_names

if TYPE_CHECKING:
    from redraft.actors.checkout import folder_text as folder_text
    from redraft.actors.conditions.printing import print_condition as print_condition
    from redraft.actors.conditions.text import parse_condition as parse_condition
    from redraft.actors.deciding.policy import Policy as Policy
    from redraft.actors.formats.mermaid import print_mermaid as print_mermaid
    from redraft.actors.formats.yaml_reader import print_plan as print_plan, read_plan as read_plan
    from redraft.actors.plans.check import check_plan as check_plan
    from redraft.actors.replay.whatif import WhatIf as WhatIf, what_if as what_if
    from redraft.actors.workflow.actor import (
        Actor as Actor,
        Critic as Critic,
        FreeStep as FreeStep,
        Generator as Generator,
        Publisher as Publisher,
        Refiner as Refiner,
    )
    from redraft.actors.workflow.context import (
        ConditionFacts as ConditionFacts,
        Context as Context,
        WithState as WithState,
    )
    from redraft.actors.workflow.roles import (
        condition as condition,
        critic as critic,
        generator as generator,
        publisher as publisher,
        refiner as refiner,
    )
    from redraft.actors.workflow.workflow import (
        Workflow as Workflow,
        approve as approve,
        each as each,
        parallel as parallel,
        repeat as repeat,
        step as step,
    )
    from redraft.events.errors import PermanentError as PermanentError, StepError as StepError
    from redraft.events.messages.conditions import (
        approved as approved,
        change as change,
        confidence as confidence,
        cost as cost,
        criterion as criterion,
        elapsed as elapsed,
        errors as errors,
        exit_ as exit_,
        lowest as lowest,
        measure as measure,
        oscillating as oscillating,
        outputs as outputs,
        plateau as plateau,
        points as points,
        score as score,
        state as state,
        tokens as tokens,
    )
    from redraft.events.messages.folders import FOLDER as FOLDER, File as File, print_folder as print_folder
    from redraft.events.messages.content import (
        Brief as Brief,
        Critique as Critique,
        Draft as Draft,
        Edit as Edit,
        History as History,
        Issue as Issue,
        Mark as Mark,
        Receipt as Receipt,
        Refusal as Refusal,
        Revision as Revision,
    )
    from redraft.events.messages.plan import Criterion as Criterion, Retry as Retry
    from redraft.events.messages.usage import Usage as Usage
else:
    __getattr__, __dir__ = public_names(__name__)
