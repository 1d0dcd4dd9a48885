"""Holds the application around the event-sourced core: settings, wiring, built-in actors, command line.

It alone knows both actors and projections; nothing outside it knows it.

All names that programs use are here: `from redraft.app import Workflow, critic, refine`. Each is imported only when it
is asked for, so that `import redraft.app` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redraft.events.public_names import public_names

if TYPE_CHECKING:
    from redraft.actors import *  # noqa: F403 - all names that actors and workflows are written with
    from redraft.app.builtin.gates.programs import (
        names_critic as names_critic,
        python_critic as python_critic,
        schema_critic as schema_critic,
        sql_critic as sql_critic,
    )
    from redraft.app.builtin.gates.text import (
        agreement_critic as agreement_critic,
        length_critic as length_critic,
        pattern_critic as pattern_critic,
        words_critic as words_critic,
    )
    from redraft.app.builtin.llm.actors import (
        llm_critic as llm_critic,
        llm_generator as llm_generator,
        llm_refiner as llm_refiner,
    )
    from redraft.app.builtin.llm.verify import verify_critic as verify_critic
    from redraft.app.builtin.plans import source as source
    from redraft.app.builtin.programs.command import (
        command_critic as command_critic,
        command_generator as command_generator,
        command_refiner as command_refiner,
    )
    from redraft.app.builtin.programs.pytest_critic import pytest_critic as pytest_critic
    from redraft.app.builtin.programs.ruff import ruff_critic as ruff_critic, ruff_refiner as ruff_refiner
    from redraft.app.builtin.prose.actors import prose_critic as prose_critic, prose_refiner as prose_refiner
    from redraft.app.builtin.prose.structure import structure_critic as structure_critic
    from redraft.app.builtin.publishers.files import (
        file_publisher as file_publisher,
        stdout_publisher as stdout_publisher,
    )
    from redraft.app.builtin.publishers.git import git_publisher as git_publisher
    from redraft.app.builtin.publishers.pdf import pdf_publisher as pdf_publisher
    from redraft.app.builtin.publishers.web import (
        html_publisher as html_publisher,
        webhook_publisher as webhook_publisher,
    )
    from redraft.app.client.client import Client as Client
    from redraft.app.client.result import Result as Result
    from redraft.app.models.configuration import Models as Models, models_of as models_of
    from redraft.app.process.version import __version__ as __version__
    from redraft.app.runs.refine import refine as refine
    from redraft.app.settings.settings import Settings as Settings, read_settings as read_settings
    from redraft.app.wiring.deployment import open_client as open_client
    from redraft.app.wiring.embedding import run_coordinator as run_coordinator, run_worker as run_worker
    from redraft.app.wiring.local import (
        LocalRuntime as LocalRuntime,
        open_local as open_local,
        open_readonly as open_readonly,
    )
    from redraft.events.errors import (
        ActorError as ActorError,
        BusError as BusError,
        BusUnusable as BusUnusable,
        CodecError as CodecError,
        ConditionError as ConditionError,
        Conflict as Conflict,
        ContentError as ContentError,
        DeliveryError as DeliveryError,
        EmptyText as EmptyText,
        EncryptionKeyMissing as EncryptionKeyMissing,
        KeyNotOverwritten as KeyNotOverwritten,
        IncompatibleStore as IncompatibleStore,
        InputError as InputError,
        LeaseLost as LeaseLost,
        MessageTooLarge as MessageTooLarge,
        NoRoom as NoRoom,
        NoSuchRun as NoSuchRun,
        NotAllowed as NotAllowed,
        PlanError as PlanError,
        ReadModelCorrupt as ReadModelCorrupt,
        RedraftError as RedraftError,
        RunBarred as RunBarred,
        RunEndedFirst as RunEndedFirst,
        SetAside as SetAside,
        StoreError as StoreError,
        Tampered as Tampered,
        UnknownName as UnknownName,
        UnknownRules as UnknownRules,
        Unstorable as Unstorable,
    )
    from redraft.events.messages.conditions import Condition as Condition
    from redraft.events.messages.content import DraftRef as DraftRef, Files as Files
    from redraft.events.messages.domain_events import (
        ApprovalExpired as ApprovalExpired,
        ApprovalRequested as ApprovalRequested,
        BudgetReached as BudgetReached,
        ChoicesCredited as ChoicesCredited,
        DomainEvent as DomainEvent,
        DraftApproved as DraftApproved,
        DraftCritiqued as DraftCritiqued,
        DraftEdited as DraftEdited,
        DraftGenerated as DraftGenerated,
        DraftPublished as DraftPublished,
        DraftRefined as DraftRefined,
        DraftRejected as DraftRejected,
        IterationStarted as IterationStarted,
        LessonStruck as LessonStruck,
        LimitsChanged as LimitsChanged,
        CriticSkipped as CriticSkipped,
        LoopClosing as LoopClosing,
        LoopEnded as LoopEnded,
        Outcome as Outcome,
        PanelClosed as PanelClosed,
        RunCancelled as RunCancelled,
        RunEnded as RunEnded,
        RunErased as RunErased,
        RunGuided as RunGuided,
        RunPaused as RunPaused,
        RunQuarantined as RunQuarantined,
        RunResumed as RunResumed,
        RunStarted as RunStarted,
        StateChanged as StateChanged,
        StepFailed as StepFailed,
        StepRequested as StepRequested,
        VerdictLate as VerdictLate,
    )
    from redraft.events.messages.event_names import EVENT_NAMES as EVENT_NAMES
    from redraft.events.messages.envelope import Recorded as Recorded
    from redraft.events.messages.filters import EventFilter as EventFilter, event_filter as event_filter
    from redraft.events.messages.plan import Plan as Plan
else:
    __getattr__, __dir__ = public_names(__name__)
