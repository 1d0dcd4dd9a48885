"""Holds the application around the event-sourced core: settings, wiring, built-in actors, command line.

It alone knows both actors and projections; nothing outside it knows it.

All names that programs use are here: `from redraft.app import Workflow, critic, refine`. Each is imported only when it
is asked for, so that `import redraft.app` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
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
    from redraft.app.builtin.gates.programs import names_critic, python_critic, schema_critic, sql_critic
    from redraft.app.builtin.gates.text import agreement_critic, length_critic, pattern_critic, words_critic
    from redraft.app.builtin.llm.actors import llm_critic, llm_generator, llm_refiner
    from redraft.app.builtin.llm.verify import verify_critic
    from redraft.app.builtin.plans import source
    from redraft.app.builtin.programs.command import command_critic, command_generator, command_refiner
    from redraft.app.builtin.programs.pytest_critic import pytest_critic
    from redraft.app.builtin.programs.ruff import ruff_critic, ruff_refiner
    from redraft.app.builtin.prose.actors import prose_critic, prose_refiner
    from redraft.app.builtin.prose.structure import structure_critic
    from redraft.app.builtin.publishers.files import file_publisher, stdout_publisher
    from redraft.app.builtin.publishers.git import git_publisher
    from redraft.app.builtin.publishers.pdf import pdf_publisher
    from redraft.app.builtin.publishers.web import html_publisher, webhook_publisher
    from redraft.app.client.client import Client
    from redraft.app.client.result import Result
    from redraft.app.models.configuration import Models, models_of
    from redraft.app.runs.refine import refine
    from redraft.app.settings.settings import Settings, read_settings
    from redraft.app.wiring.deployment import open_client
    from redraft.app.wiring.embedding import run_coordinator, run_worker
    from redraft.app.wiring.local import LocalRuntime, open_local, open_readonly
    from redraft.events.errors import (
        ActorError,
        BusError,
        BusUnusable,
        CodecError,
        ConditionError,
        Conflict,
        ContentError,
        DeliveryError,
        EncryptionKeyMissing,
        IncompatibleStore,
        InputError,
        LeaseLost,
        MessageTooLarge,
        NoSuchRun,
        NotAllowed,
        PermanentError,
        PlanError,
        ReadModelCorrupt,
        RedraftError,
        RunEndedFirst,
        SetAside,
        StepError,
        StoreError,
        Tampered,
        UnknownName,
        UnknownRules,
    )
    from redraft.events.messages.conditions import (
        Condition,
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
        DraftRef,
        Edit,
        Files,
        History,
        Issue,
        Mark,
        Receipt,
        Refusal,
        Revision,
    )
    from redraft.events.messages.domain_events import (
        EVENT_NAMES,
        ApprovalExpired,
        ApprovalRequested,
        BudgetReached,
        ChoicesCredited,
        DomainEvent,
        DraftApproved,
        DraftCritiqued,
        DraftEdited,
        DraftGenerated,
        DraftPublished,
        DraftRefined,
        DraftRejected,
        IterationStarted,
        LimitsChanged,
        LoopClosing,
        LoopEnded,
        Outcome,
        PanelClosed,
        RunCancelled,
        RunEnded,
        RunErased,
        RunGuided,
        RunPaused,
        RunQuarantined,
        RunResumed,
        RunStarted,
        StepFailed,
        StepRequested,
        VerdictLate,
    )
    from redraft.events.messages.envelope import Recorded
    from redraft.events.messages.filters import EventFilter, event_filter
    from redraft.events.messages.plan import Criterion, Plan, Retry
    from redraft.events.messages.usage import Usage

    __version__: str

_HOMES: Final = {
    "redraft.actors.conditions.text": "parse_condition print_condition",
    "redraft.actors.deciding.policy": "Policy",
    "redraft.actors.formats.mermaid": "print_mermaid",
    "redraft.actors.formats.yaml_reader": "print_plan read_plan",
    "redraft.actors.plans.check": "check_plan",
    "redraft.actors.replay.whatif": "WhatIf what_if",
    "redraft.actors.workflow.roles": (
        "Actor Context Critic Generator Publisher Refiner critic generator publisher refiner"
    ),
    "redraft.actors.workflow.workflow": "Workflow approve parallel repeat step",
    "redraft.app.builtin.gates.programs": "names_critic python_critic schema_critic sql_critic",
    "redraft.app.builtin.gates.text": "agreement_critic length_critic pattern_critic words_critic",
    "redraft.app.builtin.llm.actors": "llm_critic llm_generator llm_refiner",
    "redraft.app.builtin.llm.verify": "verify_critic",
    "redraft.app.builtin.plans": "source",
    "redraft.app.builtin.programs.command": "command_critic command_generator command_refiner",
    "redraft.app.builtin.programs.pytest_critic": "pytest_critic",
    "redraft.app.builtin.programs.ruff": "ruff_critic ruff_refiner",
    "redraft.app.builtin.prose.actors": "prose_critic prose_refiner",
    "redraft.app.builtin.prose.structure": "structure_critic",
    "redraft.app.builtin.publishers.files": "file_publisher stdout_publisher",
    "redraft.app.builtin.publishers.git": "git_publisher",
    "redraft.app.builtin.publishers.pdf": "pdf_publisher",
    "redraft.app.builtin.publishers.web": "html_publisher webhook_publisher",
    "redraft.app.client.client": "Client",
    "redraft.app.client.result": "Result",
    "redraft.app.models.configuration": "Models models_of",
    "redraft.app.runs.refine": "refine",
    "redraft.app.settings.settings": "Settings read_settings",
    "redraft.app.wiring.deployment": "open_client",
    "redraft.app.wiring.embedding": "run_coordinator run_worker",
    "redraft.app.wiring.local": "LocalRuntime open_local open_readonly",
    "redraft.events.errors": (
        "ActorError BusError BusUnusable CodecError ConditionError Conflict ContentError DeliveryError "
        "EncryptionKeyMissing IncompatibleStore InputError LeaseLost MessageTooLarge NoSuchRun NotAllowed "
        "PermanentError PlanError ReadModelCorrupt RedraftError RunEndedFirst SetAside StepError StoreError "
        "Tampered UnknownName UnknownRules"
    ),
    "redraft.events.messages.conditions": (
        "Condition approved confidence cost criterion elapsed errors exit_ lowest oscillating outputs plateau points "
        "score tokens"
    ),
    "redraft.events.messages.content": (
        "Brief Critique Draft DraftRef Edit Files History Issue Mark Receipt Refusal Revision"
    ),
    "redraft.events.messages.domain_events": (
        "ApprovalExpired ApprovalRequested BudgetReached ChoicesCredited DomainEvent DraftApproved "
        "DraftCritiqued DraftEdited DraftGenerated DraftPublished DraftRefined DraftRejected EVENT_NAMES "
        "IterationStarted LimitsChanged LoopClosing LoopEnded Outcome PanelClosed RunCancelled RunEnded "
        "RunErased RunGuided RunPaused RunQuarantined RunResumed RunStarted StepFailed StepRequested "
        "VerdictLate"
    ),
    "redraft.events.messages.envelope": "Recorded",
    "redraft.events.messages.filters": "EventFilter event_filter",
    "redraft.events.messages.plan": "Criterion Plan Retry",
    "redraft.events.messages.usage": "Usage",
}
"""The modules that hold the public names."""

_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "EVENT_NAMES",
    "Actor",
    "ActorError",
    "ApprovalExpired",
    "ApprovalRequested",
    "Brief",
    "BudgetReached",
    "BusError",
    "BusUnusable",
    "ChoicesCredited",
    "Client",
    "CodecError",
    "Condition",
    "ConditionError",
    "Conflict",
    "ContentError",
    "Context",
    "Criterion",
    "Critic",
    "Critique",
    "DeliveryError",
    "DomainEvent",
    "Draft",
    "DraftApproved",
    "DraftCritiqued",
    "DraftEdited",
    "DraftGenerated",
    "DraftPublished",
    "DraftRef",
    "DraftRefined",
    "DraftRejected",
    "Edit",
    "EncryptionKeyMissing",
    "EventFilter",
    "Files",
    "Generator",
    "History",
    "IncompatibleStore",
    "InputError",
    "Issue",
    "IterationStarted",
    "LeaseLost",
    "LimitsChanged",
    "LocalRuntime",
    "LoopClosing",
    "LoopEnded",
    "Mark",
    "MessageTooLarge",
    "Models",
    "NoSuchRun",
    "NotAllowed",
    "Outcome",
    "PanelClosed",
    "PermanentError",
    "Plan",
    "PlanError",
    "Policy",
    "Publisher",
    "ReadModelCorrupt",
    "Receipt",
    "Recorded",
    "RedraftError",
    "Refiner",
    "Refusal",
    "Result",
    "Retry",
    "Revision",
    "RunCancelled",
    "RunEnded",
    "RunEndedFirst",
    "RunErased",
    "RunGuided",
    "RunPaused",
    "RunQuarantined",
    "RunResumed",
    "RunStarted",
    "SetAside",
    "Settings",
    "StepError",
    "StepFailed",
    "StepRequested",
    "StoreError",
    "Tampered",
    "UnknownName",
    "UnknownRules",
    "Usage",
    "VerdictLate",
    "WhatIf",
    "Workflow",
    "__version__",
    "agreement_critic",
    "approve",
    "approved",
    "check_plan",
    "command_critic",
    "command_generator",
    "command_refiner",
    "confidence",
    "cost",
    "criterion",
    "critic",
    "elapsed",
    "errors",
    "event_filter",
    "exit_",
    "file_publisher",
    "generator",
    "git_publisher",
    "html_publisher",
    "length_critic",
    "llm_critic",
    "llm_generator",
    "llm_refiner",
    "lowest",
    "models_of",
    "names_critic",
    "open_client",
    "open_local",
    "open_readonly",
    "oscillating",
    "outputs",
    "parallel",
    "parse_condition",
    "pattern_critic",
    "pdf_publisher",
    "plateau",
    "points",
    "print_condition",
    "print_mermaid",
    "print_plan",
    "prose_critic",
    "prose_refiner",
    "publisher",
    "pytest_critic",
    "python_critic",
    "read_plan",
    "read_settings",
    "refine",
    "refiner",
    "repeat",
    "ruff_critic",
    "ruff_refiner",
    "run_coordinator",
    "run_worker",
    "schema_critic",
    "score",
    "source",
    "sql_critic",
    "stdout_publisher",
    "step",
    "structure_critic",
    "tokens",
    "verify_critic",
    "webhook_publisher",
    "what_if",
    "words_critic",
]


def __getattr__(name: str) -> object:
    """Returns a public name, imported from where it is defined. Raises AttributeError for any other."""
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("redraft")
    elif name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
