"""Drafts and audits as an assistant reads them: by their addresses, `redraft://runs/…`."""

from __future__ import annotations

from redraft.app.cli.assistants.desk import Desk
from redraft.app.cli.auditing.verification import story_lines
from redraft.app.record.auditing.audit import RunAudit, audit_one
from redraft.app.record.copying.archive import export_jsonl
from redraft.app.record.past import drafts_of
from redraft.events.errors import InputError
from redraft.projections.display import counted
from redraft.projections.run_views.chart import kept_draft

FINAL = "final"


async def draft_text(desk: Desk, run: str, draft: str) -> str:
    """Returns the text of a draft, by its number or as `final`. Raises NoSuchRun, and InputError for another."""
    events = await desk.events(run)
    drafts = drafts_of(events)
    if draft == FINAL:
        kept = kept_draft(events)
        if kept is None:
            raise InputError(f"run {events[0].run} has not ended with a draft; read the newest one by its number")
        return drafts[kept].text
    if not draft.isdecimal() or int(draft) not in drafts:
        numbers = ", ".join(map(str, drafts)) or "none yet"
        raise InputError(f"run {events[0].run} has no draft {draft!r}; it has {numbers}")
    return drafts[int(draft)].text


async def audit_text(desk: Desk, run: str) -> str:
    """Returns what a check of the record found, and the whole story of the run below. Raises NoSuchRun, Tampered."""
    await desk.events(run)
    found = await audit_one(desk.log, run, hashes=True, origin=True)
    return "\n".join([*_verdict(found), "", *story_lines(found.events), ""])


def _verdict(found: RunAudit) -> list[str]:
    run = found.events[0].run
    findings = [each.message for each in found.record.findings] if found.record else []
    if found.is_faulty:
        return [f"run {run}: NOT verified", *filter(None, [found.fault]), *findings]
    events = counted(found.verified, "event")
    last = f"run {run}: {events} verified, by hash and against the plan; the last hash is {found.events[-1].hash}"
    return [last, f"it is {found.fork}", *findings] if found.fork else [last, *findings]


async def record_lines(desk: Desk, run: str) -> str:
    """Returns the record as JSON Lines, which can be checked without Redraft. Raises NoSuchRun."""
    found = (await desk.events(run))[0].run
    return "".join(export_jsonl(found, await desk.log.store.raw(found)))
