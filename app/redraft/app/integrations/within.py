"""A workflow inside of something else: it refines a text and says how that went."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from redraft.actors.workflow.workflow import Workflow
from redraft.app.client.client import Client
from redraft.app.client.result import Result
from redraft.app.runs.refine import refine, refine_on
from redraft.app.settings.settings import Settings
from redraft.events.messages.content import Brief


class Refined(msgspec.Struct, frozen=True):
    """The result of a run. `text` is empty where the run failed or was rejected: that draft is not for use."""

    text: str
    outcome: str
    reason: str
    score: float | None
    run: str


def refined(result: Result) -> Refined:
    """Returns a result in short."""
    text = "" if result.outcome in {"failed", "rejected"} else result.text
    return Refined(text, result.outcome, result.reason, result.score, result.run)


async def run_within(
    workflow: Workflow, text: Brief | str, key: str, settings: Settings | None, client: Client | None
) -> Result:
    """Runs a workflow: in this process, or by a deployment where a `client` of one is given. Raises RedraftError."""
    if client is None:
        return await refine(workflow, text, key=key, settings=settings)
    return await refine_on(client, workflow, text, key=key, by="client")


def key_for(*parts: str) -> str:
    """Returns the key of a run that is the same for the same parts; empty where one of them is not known."""
    return sha256("\0".join(parts).encode()).hexdigest()[:32] if all(parts) else ""
