"""Carries out one request with an actor, as a worker would."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from redraft.actors.runtime.working.call import Call
from redraft.actors.workflow.actor import Actor
from redraft.events.messages.commands import (
    Critiqued,
    CritiqueDraft,
    Failed,
    OutcomeMessage,
    Publish,
    Published,
    Refine,
    Request,
)
from redraft.events.messages.content import Brief, Critique, Draft, new_draft
from redraft.events.messages.folders import FOLDER, File, print_folder
from redraft.events.messages.plan import Option


def folder(files: Mapping[str, str | bytes | File], version: int = 1) -> Draft:
    return new_draft(version, print_folder(files), FOLDER)


async def outcome_of(
    actor: Actor, draft: Draft, before: Draft | None = None, source: str = "src", **options: Option
) -> OutcomeMessage:
    brief = Brief((before or draft).text, FOLDER, source)
    counted = tuple(actor.measures_by(options))
    request = Request("r/p#1", "r", "p", actor.name, 1, 60.0, brief, options, measures=counted)
    match actor.role:
        case "critic":
            work: CritiqueDraft | Refine | Publish = CritiqueDraft(request, draft)
        case "refiner":
            work = Refine(request, draft, Critique(0.5))
        case _:
            work = Publish(request, draft)
    over = asyncio.Event()
    call_of = Call(actor, work, over.set)
    await over.wait()
    return call_of.outcome()


async def critique_of(actor: Actor, draft: Draft, before: Draft | None = None, **options: Option) -> Critique:
    outcome = await outcome_of(actor, draft, before, **options)
    assert isinstance(outcome, Critiqued), outcome
    return outcome.critique


async def receipt_of(actor: Actor, draft: Draft, before: Draft | None = None, **options: Option) -> str:
    outcome = await outcome_of(actor, draft, before, **options)
    assert isinstance(outcome, Published), outcome
    return f"{outcome.receipt.location}: {outcome.receipt.note}"


async def fault_of(actor: Actor, draft: Draft, before: Draft | None = None, **options: Option) -> str:
    outcome = await outcome_of(actor, draft, before, **options)
    assert isinstance(outcome, Failed), outcome
    return outcome.message
