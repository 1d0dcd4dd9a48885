"""Begins, watches, reads and steers runs for assistants, as the verbs of `redraft` do."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from redraft.actors.deciding.policy import Policy
from redraft.app.cli.assistants.offers import Offer, PlanWishes, actors_of
from redraft.app.cli.running.progress import RunProgress
from redraft.app.cli.shared.reading import events_at
from redraft.app.cli.views.changes import change_lines, score_lines
from redraft.app.client.client import Client
from redraft.app.record.changes import compare_drafts
from redraft.app.record.past import drafts_of
from redraft.app.runs.comparing import decide_each, whatif_document
from redraft.app.runs.steering import Word, draft_meant, steer, step_meant
from redraft.app.settings.settings import LOCAL, Settings
from redraft.app.subscribing.subscriber import is_end
from redraft.app.wiring.deployment import open_client
from redraft.app.wiring.local import Endurance, LocalRuntime, open_local, open_readonly
from redraft.events.errors import InputError
from redraft.events.messages.commands import ApproveDraft, GuideRun, RejectDraft, StartRun
from redraft.events.messages.content import Brief, Draft
from redraft.events.messages.domain_events import ApprovalRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.scales import score_text
from redraft.events.messages.tags import check_tags
from redraft.projections.engine.projector import catch_up
from redraft.projections.read_models.runs_query import list_runs
from redraft.projections.run_views.chart import kept_draft
from redraft.projections.run_views.sentences import history
from redraft.projections.run_views.state import state_at
from redraft.projections.run_views.tree import tree
from redraft.projections.run_views.tree_model import Tree

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

Document: TypeAlias = dict[str, Any]
"""The answer of a tool, as a JSON object."""

Tell: TypeAlias = Callable[[int, str], Awaitable[None]]
"""Called for each step of a watched run, with the number of its event and a line of text."""

ARRIVAL: Final = 10.0
"""Seconds to wait until a run that was begun is recorded."""

BEGUN_HERE: Final = "redraft mcp"
"""The recorded author of runs that this process works on."""

BEGUN_ELSEWHERE: Final = "redraft mcp --bus"
"""The recorded author of runs that a deployment works on."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Answers the requests of assistants. `by` is the name that is recorded for how they steer runs."""

    settings: Settings
    offers: Mapping[str, Offer]
    by: str
    client: Client
    log: LocalRuntime

    async def submit(
        self, brief: Brief, workflow: str, wishes: PlanWishes, key: str = "", tags: Sequence[str] = ()
    ) -> Document:
        """Begins a run, and waits until it is recorded. Raises InputError (ContentError, PlanError), BusError."""
        chosen = workflow or next(iter(self.offers))
        if chosen not in self.offers:
            raise InputError(f"no workflow is named {chosen!r} here; name one of {', '.join(self.offers)}")
        offer = self.offers[chosen]
        by = BEGUN_HERE if self.settings.bus == LOCAL else BEGUN_ELSEWHERE
        plan = offer.plan_for(brief, wishes)
        sent: list[StartRun] = []
        run = await self.client.submit(
            plan, brief, key=key, tags=check_tags(tags), by=by, files=offer.files, sent=sent.append
        )
        recorded = False
        with suppress(TimeoutError):
            async with asyncio.timeout(ARRIVAL):
                await self.client.wait(run, "run.started")
                recorded = True
        if recorded:
            await self.client.require_own(sent[0])
        return {"run": run, "workflow": chosen, "recorded": recorded, "next": f"watch the run {run}"}

    async def watch(self, run: str, seconds: float, tell: Tell) -> Document:
        """Returns how a run stands once it ends, waits for a person, or so many seconds have passed."""
        past = await self.events(run)
        progress = RunProgress()
        for event in past:
            progress.note(event)
        if _goes_on(tree(past)):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._follow(past, progress, tell)
        return await self.state(past[0].run)

    async def _follow(self, past: Sequence[Recorded], progress: RunProgress, tell: Tell) -> None:
        async with aclosing(self.log.client.subscribe(past[-1].position, run=past[0].run)) as events:
            async for event in events:
                line = progress.note(event)
                await tell(event.version, line or progress.status)
                if is_end(event) or isinstance(event.data, ApprovalRequested):
                    return

    async def events(self, run: str, at: str = "") -> tuple[Recorded, ...]:
        """Returns the events of the run that is meant. Raises NoSuchRun, InputError."""
        await self._caught_up()
        return await events_at(self.log, run, at)

    async def _caught_up(self) -> None:
        if self.log.client is self.client:
            await self.log.views.wait_for(await self.log.store.head())
        else:
            await catch_up(self.log.views, self.log.store)

    async def state(self, run: str, at: str = "") -> Document:
        """Returns how a run stands: its status, score, newest draft, and where drafts and record are read."""
        events = await self.events(run, at)
        return _describe(events, tree(events))

    async def show(self, run: str, at: str = "") -> Document:
        """Returns the same, with the run as a tree in words."""
        from redraft.app.cli.views.tree import tree_view

        events = await self.events(run, at)
        found = tree(events)
        view = tree_view(found, whole=not at, shared=self.settings.bus != LOCAL)
        return _describe(events, found) | {"tree": _printed(view)}

    async def runs(self, limit: int, workflow: str, tag: str) -> Document:
        """Returns the newest runs. Raises InputError for a limit below 1."""
        await self._caught_up()
        lines = await list_runs(self.log.views, limit=limit, workflow=workflow or None, tag=tag or None)
        return {"runs": msgspec.to_builtins(lines)}

    async def diff(self, run: str, before: int, after: int) -> Document:
        """Returns what changed between two drafts, in lines. Raises InputError for a draft that is not there."""
        changes = compare_drafts(await self.events(run), before, after)
        lines = [shown.plain for line in changes.lines for shown in change_lines(line)]
        same = [f"drafts {before} and {after} are the same text"]
        text = "\n".join([*score_lines(changes.scores), *(same if changes.is_same else lines)])
        return {"before": before, "after": after, "same": changes.is_same, "changes": text}

    async def guide(self, run: str, advice: str) -> Document:
        """Gives advice to the next refinement. Raises InputError for a run that has ended, BusError."""
        return await self._say(run, lambda past: GuideRun(past[0].run, advice, "", self.by))

    async def approve(self, run: str, draft: int, reason: str, step: str) -> Document:
        """Approves the draft that a run waits with, at this step. Raises InputError where that is another one."""
        return await self._decide(ApproveDraft, run, draft, reason, step)

    async def reject(self, run: str, draft: int, feedback: str, step: str) -> Document:
        """Rejects the draft that a run waits with, at this step. Raises InputError where that is another one."""
        return await self._decide(RejectDraft, run, draft, feedback, step)

    async def _decide(
        self, word: type[ApproveDraft | RejectDraft], run: str, draft: int, reason: str, step: str
    ) -> Document:
        return await self._say(
            run, lambda past: word(past[0].run, draft_meant(past, draft), reason, self.by, step=step)
        )

    async def _say(self, run: str, word: Word) -> Document:
        found, event = await steer(self.settings, run, word)
        if event is None:
            return {"run": found, "recorded": False, "said": "sent; no coordinator has handled it yet"}
        return {"run": found, "recorded": True, "event": event.version, "said": history((event,))[0].sentence}

    async def what_if(self, run: str, policy: Policy, loop: str) -> Document:
        """Returns what another policy would have decided on the recorded answers. Raises InputError, PlanError."""
        if policy.changes_nothing:
            raise InputError("say what should differ: until, max_iterations, keep or rollback_margin")
        (imagined,) = decide_each(await self.events(run), [policy], loop)
        found: Document = msgspec.to_builtins(whatif_document(policy, imagined))
        return found


@asynccontextmanager
async def open_desk(
    settings: Settings, offers: dict[str, Offer], by: str, log: FilteringBoundLogger
) -> AsyncIterator[Desk]:
    """Opens a desk: on `local:` this process works on what is submitted, else a deployment does.

    The work goes on when the store was away, and `log` says so. Raises StoreError, BusError, ActorError.
    """
    if settings.bus == LOCAL:
        async with open_local(settings, actors_of(offers), endurance=Endurance(log)) as runtime:
            yield Desk(settings, offers, by, runtime.client, runtime)
        return
    async with open_client(settings, log=log) as client, open_readonly(settings) as reading:
        yield Desk(settings, offers, by, client, reading)


def _goes_on(found: Tree) -> bool:
    return found.ended is None and not (found.waiting or found.quarantined)


def _describe(events: Sequence[Recorded], found: Tree) -> Document:
    drafts = drafts_of(events)
    number = kept_draft(events) or max(drafts, default=0)
    where = f"redraft://runs/{found.run}"
    return {
        "run": found.run,
        "workflow": found.workflow,
        "version": found.version,
        **_status(found),
        **({"step": step_meant(events)} if found.waiting else {}),
        "draft": _draft(drafts[number]) if drafts else None,
        "state": state_at(events).state,
        "drafts": [f"{where}/drafts/{each}" for each in drafts],
        "audit": f"{where}/audit",
    }


def _status(found: Tree) -> Document:
    """Returns what a run is doing, or how it ended, and what may be done about it."""
    if found.quarantined:
        return {"status": "quarantined", "reason": found.quarantined}
    if end := found.ended:
        score = None if end.score is None else score_text(end.score, end.scale)
        facts = {"outcome": end.outcome, "reason": end.reason, "score": score, "iterations": end.iterations}
        return {"status": "ended", **facts}
    if found.waiting:
        return {"status": "waiting", "reason": found.waiting, "next": "a person decides: approve or reject"}
    if found.paused:
        return {"status": "paused", "reason": found.paused, "next": f"go on with: redraft resume {found.run}"}
    return {"status": "running", "next": "watch it again"}


def _draft(draft: Draft) -> Document:
    return {"number": draft.version, "sha256": draft.sha256, "media_type": draft.media_type, "text": draft.text}


def _printed(view: object) -> str:
    from rich.console import Console

    stream = io.StringIO()
    Console(file=stream, highlight=False, markup=False, emoji=False, width=200, no_color=True).print(view)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())
