"""The client for programs: submits a brief, waits for the result, follows the events, cancels."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, Final, overload

import msgspec
from cachetools import LRUCache

from redraft.actors.runtime.admission import require_sendable
from redraft.actors.values import ignore
from redraft.actors.workflow.workflow import Workflow
from redraft.app.client.ports import MessagePublisher, RunOwner
from redraft.app.client.result import (
    Change,
    Result,
    as_brief,
    check_values,
    fork_of,
    planned,
    readable,
    refuse_other_start,
    result_of,
)
from redraft.app.client.waiting import AwaitedRuns
from redraft.app.process.ids import new_message_id, new_run_id
from redraft.app.subscribing.delivery import RETRY, TIMEOUT, Handler
from redraft.app.subscribing.subscriber import Subscriber
from redraft.app.telemetry.propagation import client_span, current_traceparent
from redraft.app.workflows.state_values import with_state
from redraft.events.bus.port import INBOX, BusMessage
from redraft.events.errors import InputError, NoSuchRun
from redraft.events.messages.codec import encode_said
from redraft.events.messages.commands import (
    ApproveDraft,
    CancelRun,
    ChangeLimits,
    EditDraft,
    EraseRun,
    GuideRun,
    Message,
    PauseRun,
    QuarantineRun,
    RejectDraft,
    ResumeRun,
    StartRun,
    SteeringMessage,
    StrikeLesson,
)
from redraft.events.messages.conditions import Condition
from redraft.events.messages.content import Brief, DraftRef, Files, check_brief, checked
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.filters import event_filter
from redraft.events.messages.plan import Plan, Retry
from redraft.events.messages.run_state import Values
from redraft.events.messages.tags import check_tags
from redraft.events.store.event_store import EventStore

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

CHECKED: Final = 256
"""The number of plans, those last submitted, that are known to be valid."""


class Client:
    """Speaks to a deployment: sends to its inbox, reads from its log. Made by `redraft.app.wiring.local`.

    One without a `store` has the broker alone: it submits, cancels and subscribes, and waits by subscribing.
    """

    def __init__(
        self,
        store: EventStore | None,
        bus: MessagePublisher,
        subscriber: Subscriber,
        limit: int,
        *,
        owner: RunOwner | None = None,
        new_run_id: Callable[[], str] = new_run_id,
        new_message_id: Callable[[], str] = new_message_id,
    ) -> None:
        self._store = store
        self._subscriber = subscriber
        self._bus = bus
        self._owner = owner
        self._new_run_id = new_run_id
        self._new_message_id = new_message_id
        self._limit = limit
        self._checked: LRUCache[int, Plan] = LRUCache(CHECKED)
        self._awaited = AwaitedRuns(self.result)
        self._noticing = False

    async def submit(
        self,
        workflow: Workflow | Plan,
        brief: Brief | str,
        *,
        key: str = "",
        tags: Iterable[str] = (),
        state: Values | None = None,
        by: str = "client",
        files: Files = Files(),  # noqa: B008 - frozen
        sent: Callable[[StartRun], object] = ignore,
    ) -> str:
        """Starts a run and gives its id; with the same `key` it is the same run, however often it is submitted.

        The plan of a Workflow names the versions of the actors that it was built with; a Plan is taken as it is.
        `tags` are words to find it by: at most 10, each of 64 letters, digits, `_ . : / -` at most. Raises ContentError
        when the brief is empty or too large, PlanError when the plan is faulty, InputError for a tag that is none,
        a brief or key that is no text, values of the state that the plan does not have, and a key that was used for
        another brief, state or workflow, or with other tags or limits. `state` are values with which the run's state
        begins, beside those of the brief. `files`, which a run of this process alone keeps, name the files of its
        functions. `sent` is called with the command that starts the run, for `require_own`.
        """
        chosen = check_tags(tags)
        plan = self._planned(workflow)
        asked = with_state(as_brief(brief), state or {})
        check_brief(asked, f"brief {asked.source}".rstrip(), self._limit)
        check_values(plan, asked.state)
        run = self._run_of(key)
        await self._start(StartRun(run, plan, asked, key, chosen, files=files), by, sent)
        return run

    def _planned(self, workflow: Workflow | Plan) -> Plan:
        """Returns the plan of a workflow; a plan that was submitted lately is not checked again."""
        if isinstance(workflow, Plan) and self._checked.get(id(workflow)) is workflow:
            return workflow
        plan = planned(workflow)
        self._checked[id(plan)] = plan
        return plan

    async def fork(
        self,
        run: str,
        at: int,
        *,
        plan: Workflow | Plan | None = None,
        brief: Brief | str | None = None,
        key: str = "",
        tags: Iterable[str] | None = None,
        state: Values | None = None,
        by: str = "client",
        author: str = "",
        files: Files = Files(),  # noqa: B008 - frozen
        sent: Callable[[StartRun], object] = ignore,
    ) -> str:
        """Starts a run that begins with another's first `at` events, and gives its id; `key`, `sent` as for `submit`.

        Its workers do what had no answer by then, and whatever follows. `plan` has the same steps as the other run's;
        when its loops end, what they keep and how its steps are done may differ. What is None is as the other run had
        it at that event. The values of `state` are changed before it goes on, in the name of `author`, or else of
        `by`. Raises NoSuchRun, InputError for an event that there is not or by which the run had ended, for a plan with
        other steps and for values that the plan does not have, ContentError, PlanError.
        """
        past = await self.history(run)
        start = fork_of(past, at, self._run_of(key), key, Change(plan, brief, tags, state or {}))
        start = msgspec.structs.replace(start, files=files, by=(author or by) if start.state else "")
        check_brief(start.brief, "brief", self._limit)
        await self._start(start, by, sent)
        return start.run

    def _run_of(self, key: str) -> str:
        if not isinstance(key, str):
            raise InputError(f"key: a key is a text, not {type(key).__name__}; write it in quotes")
        return f"k{sha256(checked(key, 'key', self._limit)).hexdigest()[:25]}" if key else self._new_run_id()

    async def require_own(self, start: StartRun | None) -> None:
        """Waits until the run that was started with a key is recorded.

        Raises InputError if somebody else began it with something else, or it was refused; SetAside, StoreError.
        """
        if start is not None and start.key and self._store is not None:
            await self.wait(start.run, "run.started")
            await refuse_other_start(start, self._store)

    async def _start(self, start: StartRun, by: str, sent: Callable[[StartRun], object]) -> None:
        await refuse_other_start(start, self._store)
        if self._noticing:  # else nobody notices that it ended
            self._awaited.note_start(start.run, is_new=not start.key)
        if self._owner is not None:
            await self._owner.adopt(start.run, bool(start.key))
        with client_span("submit", start.plan.name, start.run):
            await self._send(start, by)
        sent(start)

    async def cancel(self, run: str, reason: str = "", *, by: str = "client") -> None:
        """Ends a run as cancelled, and stops what is under way; nothing happens when it has ended already."""
        await self.steer(CancelRun(run, reason, by))

    async def guide(self, run: str, advice: str, *, reason: str = "", by: str = "client") -> None:
        """Gives advice to the next refinement, which finds it in its `history.advice`."""
        await self.steer(GuideRun(run, advice, reason, by))

    async def limits(
        self,
        run: str,
        *,
        until: Condition | None = None,
        max_iterations: int | None = None,
        loop: str = "",
        reason: str = "",
        by: str = "client",
    ) -> None:
        """Changes when a loop ends, from its next critique on. `loop` is its path in the plan.

        Without one it is the outermost loop. Nothing happens when there is no such loop, or the plan were wrong then.
        """
        await self.steer(ChangeLimits(run, loop, until, max_iterations, reason, by))

    async def pause(self, run: str, reason: str = "", *, by: str = "client") -> None:
        """Asks for nothing more until the run is resumed; what is under way is still recorded."""
        await self.steer(PauseRun(run, reason, by))

    async def resume(self, run: str, reason: str = "", *, by: str = "client") -> None:
        """Goes on with a run that is paused."""
        await self.steer(ResumeRun(run, reason, by))

    async def approve(self, run: str, draft: DraftRef, reason: str = "", *, by: str, step: str = "") -> None:
        """Approves a draft, by its version and hash; nothing happens when it is not the one that is waited for.

        `step` is the path of the step that asks; a second one that asks about the same draft has to be named.
        """
        await self.steer(ApproveDraft(run, draft, reason, by, step=step))

    async def reject(self, run: str, draft: DraftRef, feedback: str = "", *, by: str, step: str = "") -> None:
        """Rejects a draft. In a loop the feedback reaches the next refinement; else the run ends as rejected."""
        await self.steer(RejectDraft(run, draft, feedback, by, step=step))

    async def edit(
        self, run: str, before: DraftRef, text: str, reason: str = "", *, by: str, latest: bool = False
    ) -> None:
        """Gives a person's own draft, made from `before`, which critics judge like any other.

        With `latest` nothing happens once another draft was made. Raises ContentError when it is empty or too large.
        """
        checked(text, "edit", self._limit)
        await self.steer(EditDraft(run, before, text, reason, by, latest=latest))

    async def steer(self, message: SteeringMessage | QuarantineRun | StrikeLesson, *, actor: str = "") -> str:
        """Says this to a run that goes on, once in effect; gives the message's id, which its event's id begins with.

        The event names as its `actor` who says so in the message, unless it is given: the name and how it is known.
        Raises InputError for a run that has ended, SetAside for one that was set aside, where this client reads the
        store.
        """
        if self._store is not None and not isinstance(message, CancelRun | QuarantineRun | StrikeLesson):
            await self._require_running(message.run)
        said = self._new_message_id()
        await self._send(msgspec.structs.replace(message, key=message.key or said), actor or message.by, said)
        return said

    async def _require_running(self, run: str) -> None:
        """Raises InputError for a run that has ended: what is said to it would be dropped without a word."""
        if (result := await self.result(run)) is not None:
            remedy = "fork it, or begin another"
            raise InputError(f"run {run} has ended as {result.outcome} and takes no more messages; {remedy}")

    async def quarantine(self, run: str, reason: str, *, by: str) -> None:
        """Sets a run aside, whatever is recorded of it: nothing more is decided or done for it."""
        await self.steer(QuarantineRun(run, by, reason))

    async def erased(self, run: str, reason: str = "", *, by: str) -> None:
        """Records that the texts of a run were made unreadable; nothing happens when that is recorded already."""
        await self._send(EraseRun(run, by, reason), by)

    async def _send(self, message: Message, by: str, said: str = "") -> None:
        name, body = encode_said(message)
        origin = Origin(said or self._new_message_id(), by, "", message.run, current_traceparent())
        require_sendable(message, origin)
        await self._bus.publish(INBOX, [BusMessage(name, body, origin, message.run, message)])

    @overload
    async def wait(self, run: str) -> Result: ...

    @overload
    async def wait(self, run: str, until: str) -> Recorded: ...

    async def wait(self, run: str, until: str = "") -> Result | Recorded:
        """The result of a run, once it has ended; with `until`, the first event by which something has come about.

        `until` is an event type (`draft.published`), a condition that holds for a judged draft (`score >= 0.8`), or
        `end`, for the event that ends the run. What happened already counts. Waits for ever: put a deadline around it.
        Raises RunEndedFirst when the run ends without it, InputError when the text cannot be understood, or the run's
        start was refused in this process, NoSuchRun when the log has lost the run meanwhile, SetAside for one that a
        person set aside, or that cannot be read here.
        """
        if until:
            return await self._awaited.unless_refused(run, self._subscriber.wait(run, until))
        if self._noticing:
            result = await self._awaited.wait(run)
        else:
            known = await self.result(run) if self._store is not None else None
            result = known or result_of(await self._subscriber.story(run))
        if result is None:
            raise NoSuchRun(run)
        return result

    async def wait_for(self, position: int) -> int:
        """Returns once the read models (`redraft list`, `redraft.projections`) count every event up to this position.

        So whoever has seen an event reads what came of it: `position` is that of an event. Gives the position reached,
        which may be a later one. Waits for ever when nobody projects: put a deadline around it. Raises InputError for a
        client that has the broker alone.
        """
        return await self._subscriber.wait_for(position)

    async def result(self, run: str) -> Result | None:
        """The result of a run that has ended; None while it goes on, or before its start is recorded.

        Raises SetAside for one that a person set aside, or that cannot be read here.
        """
        return result_of(readable(await self._log.entries(run)))

    async def notice(self, after: int) -> None:
        """Gathers what is waited for, and wakes those who wait, until cancelled; after an error it goes on there."""
        self._noticing = True
        async for batch in self._log.tail(max(after, self._awaited.reached)):
            for end in self._awaited.note(batch):
                if self._owner is not None:
                    self._owner.let_go(end.run)

    def refuse(self, run: str, why: str) -> None:
        """Ends the waits for a run that was never begun in this process, as its start was refused, and says why."""
        self._awaited.refuse(run, why)

    async def history(self, run: str, upto: int | None = None) -> tuple[Recorded, ...]:
        """The events of a run, oldest first, up to a version. Raises NoSuchRun."""
        events = await self._log.read(run, upto)
        if not events:
            raise NoSuchRun(run)
        return events

    def subscribe(
        self,
        after: int = 0,
        *,
        types: Iterable[str] = (),
        run: str = "",
        workflow: str = "",
        tags: Iterable[str] = (),
        follow: bool = True,
        name: str = "",
    ) -> AsyncGenerator[Recorded, None]:
        """The events after this position of the log, once and in order: what was recorded, then what comes.

        Only those of one of these `types` (`draft.critiqued`), of this `run`, of runs of this `workflow`, of runs that
        have one of these `tags`. `follow=False` ends where the log does now; a client that has the broker alone cannot
        tell that. However slow the reader is, it holds a bounded number of events. Close it when you leave it early
        (`contextlib.aclosing`).

        With a `name` the position is kept beside the store: the next who subscribes by this name, in whichever process,
        goes on there, and `after` is only where a new name begins. An event counts as done when the next is asked for;
        after a crash the last ones come again. One process has a name at a time, others wait until it leaves.

        Raises InputError for an unknown type, or what this client cannot do; StoreError or BusError when the events
        cannot be read (subscribe again after the last that you saw), LeaseLost when somebody moved the name; BusError
        when events after the position are not kept by the broker any more.
        """
        criteria = event_filter(types=types, runs=filter(None, [run]), workflows=filter(None, [workflow]), tags=tags)
        return self._subscriber.subscribe(after, criteria, follow=follow, name=name)

    async def deliver(
        self,
        name: str,
        handler: Handler,
        after: int = 0,
        *,
        types: Iterable[str] = (),
        run: str = "",
        workflow: str = "",
        tags: Iterable[str] = (),
        retry: Retry = RETRY,
        timeout: float = TIMEOUT,
        log: FilteringBoundLogger | None = None,
    ) -> None:
        """Calls the handler with each event that the name has not had, in order, one at a time, until cancelled.

        A handler that raises, or takes longer than `timeout` seconds (0: no limit; a thread is not stopped), is called
        again, after a second, then two, then four (`retry`); after the last attempt the event is parked for this name,
        and the others go on. It may raise DeliveryError to say more. A new name begins `after` this position; the rest
        is as for `subscribe` with a name.

        Raises StoreError when the store cannot be used: call it again, and it goes on (`redraft subscribe` does so);
        InputError for an unknown type, a name that cannot be, or a client that has the broker alone.
        """
        criteria = event_filter(types=types, runs=filter(None, [run]), workflows=filter(None, [workflow]), tags=tags)
        await self._subscriber.deliver(name, handler, after, criteria, retry=retry, timeout=timeout, log=log)

    @property
    def _log(self) -> EventStore:
        if self._store is None:
            raise InputError("this client is connected to the broker only: open one that reads the store, or subscribe")
        return self._store
