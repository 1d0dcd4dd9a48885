"""Who decides and who works: roles, workflows, the decider, and what runs them."""

from redraft.actors.condition_text import parse_condition, print_condition
from redraft.actors.mermaid import print_mermaid
from redraft.actors.plan_check import check_plan
from redraft.actors.plan_python import print_python
from redraft.actors.plan_yaml import print_plan, read_plan
from redraft.actors.policy import Policy
from redraft.actors.roles import Actor, Context, critic, generator, publisher, refiner
from redraft.actors.whatif import WhatIf, what_if
from redraft.actors.workflow import Workflow, approve, parallel, repeat, step
from redraft.events.conditions import (
    approved,
    cost,
    elapsed,
    errors,
    oscillating,
    outputs,
    plateau,
    score,
    tokens,
)
from redraft.events.content import Brief, Critique, Draft, History, Receipt, Revision
from redraft.events.errors import PermanentError, StepError
from redraft.events.plan import Retry
from redraft.events.usage import Usage

__all__ = [
    "Actor",
    "Brief",
    "Context",
    "Critique",
    "Draft",
    "History",
    "PermanentError",
    "Policy",
    "Receipt",
    "Retry",
    "Revision",
    "StepError",
    "Usage",
    "WhatIf",
    "Workflow",
    "approve",
    "approved",
    "check_plan",
    "cost",
    "critic",
    "elapsed",
    "errors",
    "generator",
    "oscillating",
    "outputs",
    "parallel",
    "parse_condition",
    "plateau",
    "print_condition",
    "print_mermaid",
    "print_plan",
    "print_python",
    "publisher",
    "read_plan",
    "refiner",
    "repeat",
    "score",
    "step",
    "tokens",
    "what_if",
]
