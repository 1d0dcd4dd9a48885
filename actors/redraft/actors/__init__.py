"""Holds what people write actors and workflows with, the decider and the runtime; knows neither projections nor app."""

from redraft.actors.conditions.text import parse_condition, print_condition
from redraft.actors.deciding.policy import Policy
from redraft.actors.formats.mermaid import print_mermaid
from redraft.actors.formats.yaml_reader import print_plan, read_plan
from redraft.actors.plans.check import check_plan
from redraft.actors.replay.whatif import WhatIf, what_if
from redraft.actors.workflow.roles import (
    Actor,
    Context,
    Critic,
    Generator,
    Publisher,
    Refiner,
    critic,
    generator,
    publisher,
    refiner,
)
from redraft.actors.workflow.workflow import Workflow, approve, parallel, repeat, step
from redraft.events.errors import PermanentError, StepError
from redraft.events.messages.conditions import (
    approved,
    confidence,
    cost,
    criterion,
    elapsed,
    errors,
    exit_,
    lowest,
    oscillating,
    outputs,
    plateau,
    points,
    score,
    tokens,
)
from redraft.events.messages.content import (
    Brief,
    Critique,
    Draft,
    Edit,
    History,
    Issue,
    Mark,
    Receipt,
    Refusal,
    Revision,
)
from redraft.events.messages.plan import Criterion, Retry
from redraft.events.messages.usage import Usage

__all__ = [
    "Actor",
    "Brief",
    "Context",
    "Criterion",
    "Critic",
    "Critique",
    "Draft",
    "Edit",
    "Generator",
    "History",
    "Issue",
    "Mark",
    "PermanentError",
    "Policy",
    "Publisher",
    "Receipt",
    "Refiner",
    "Refusal",
    "Retry",
    "Revision",
    "StepError",
    "Usage",
    "WhatIf",
    "Workflow",
    "approve",
    "approved",
    "check_plan",
    "confidence",
    "cost",
    "criterion",
    "critic",
    "elapsed",
    "errors",
    "exit_",
    "generator",
    "lowest",
    "oscillating",
    "outputs",
    "parallel",
    "parse_condition",
    "plateau",
    "points",
    "print_condition",
    "print_mermaid",
    "print_plan",
    "publisher",
    "read_plan",
    "refiner",
    "repeat",
    "score",
    "step",
    "tokens",
    "what_if",
]
