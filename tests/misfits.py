"""Events that decode and fit no plan, as strangers or other programs may append them to good records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.app.cli_calls import call, said, start, until
from tests.forged import first_events, put_rows, retold

from redraft.events.messages.codec import HASHED, _fingerprint
from redraft.events.store.raw_rows import RawRow

PLAN: Final = """
from redraft.actors import Critique, Workflow, approve, critic, generator, publisher, refiner, score

@generator
def write(brief):
    return brief.text

@critic
def judge(draft):
    return Critique(min(1, draft.text.count("!") / 2), suggestions=("say more",))

@refiner
def improve(draft):
    return draft.text + "!"

@publisher
def save(draft):
    return "nowhere"

flow = (
    Workflow("flow").start_with(write)
    .repeat_until(score >= 1, max_iterations=5, name="Loop", body=[judge, improve])
    .then(approve("editor", approvers=["ann", "ben"], quorum=2))
    .finally_(save)
)
"""

NOBODYS: Final = {"version": 99, "sha256": "a" * 64}
"""The reference to a draft that was never made."""

TEXT: Final = {"version": 99, "text": "no", "media_type": "text/plain", "sha256": "b" * 64}
DUE: Final = "2030-01-01T00:00:00Z"
VERDICT: Final = {"score": 0.5}
PATHS: Final = ("", "nowhere", "Loop[1]/judge", "Loop[7]/judge", "Loop", "Loop[1]", "editor", "/", "[", "write")

FORGED: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "iteration.started.v1": [{"path": path, "iteration": n} for path in PATHS for n in (0, 1, 7)],
    "step.requested.v1": [
        {"path": path, "role": role, "actor": "x", "attempt": attempt, "due": DUE} | more
        for path in PATHS
        for role, attempt, more in (
            ("critic", 1, {}),
            ("critic", 0, {"draft": NOBODYS}),
            ("refiner", 9, {"draft": NOBODYS, "critiques": [99], "advice": [98], "outputs": [NOBODYS]}),
            ("generator", 1, {}),
            ("run", 1, {}),
            ("publisher", 1, {"draft": NOBODYS, "reused": {"run": "nobodys", "version": 7}}),
        )
    ],
    "draft.generated.v1": [{"path": path, "attempt": 1, "draft": TEXT} for path in PATHS],
    "draft.critiqued.v1": [
        {"path": path, "attempt": 7, "draft": NOBODYS, "critique": VERDICT, "reused": {"run": "nobodys", "version": 1}}
        for path in PATHS
    ],
    "critic.skipped.v1": [{"path": path, "actor": "judge", "draft": NOBODYS} for path in PATHS],
    "draft.refined.v1": [{"path": path, "attempt": 1, "before": NOBODYS, "draft": TEXT} for path in PATHS],
    "draft.published.v1": [
        {"path": path, "attempt": 1, "draft": NOBODYS, "receipt": {"location": "x"}} for path in PATHS
    ],
    "state.changed.v1": [{"path": path, "attempt": 1, "state": {"x": 1}} for path in PATHS],
    "step.failed.v1": [
        {"path": path, "attempt": 1, "kind": "error", "message": "m"} | ({"retry_at": DUE} if again else {})
        for path in PATHS
        for again in (False, True)
    ],
    "loop.closing.v1": [{"path": path, "outcome": "exhausted", "reason": ""} for path in PATHS],
    "loop.ended.v1": [
        {"path": path, "outcome": "accepted", "reason": "", "iterations": 3, "draft": NOBODYS} for path in PATHS
    ],
    "run.guided.v1": [{"advice": "la", "by": "x"}],
    "limits.changed.v1": [{"path": path, "by": "x", "max_iterations": 3} for path in PATHS],
    "run.paused.v1": [{"by": "x"}],
    "run.resumed.v1": [{"by": "x"}],
    "run.cancelled.v1": [{"by": "x"}],
    "approval.requested.v1": [{"path": path, "draft": NOBODYS, "due": DUE} for path in PATHS],
    "draft.approved.v1": [
        {"path": path, "draft": NOBODYS, "by": "ann", "granted": given} for path in PATHS for given in (False, True)
    ],
    "draft.rejected.v1": [{"path": path, "draft": NOBODYS, "by": "ann"} for path in PATHS],
    "approval.expired.v1": [
        {"path": path, "draft": NOBODYS, "then": then} for path in PATHS for then in ("approve", "reject", "fail")
    ],
    "draft.edited.v1": [{"draft": TEXT, "before": NOBODYS, "by": "ann"}],
    "budget.reached.v1": [{"quantity": "cost", "limit": 1.0, "used": 2.0}],
    "panel.closed.v1": [{"path": path, "answered": 9, "missing": ["nobody"]} for path in PATHS],
    "verdict.late.v1": [{"path": path, "attempt": 1, "draft": NOBODYS, "critique": VERDICT} for path in PATHS],
    "choices.credited.v1": [{"workflow": "flow", "credits": [{"step": "x", "arm": "y", "success": True}]}],
    "run.ended.v1": [{"outcome": "accepted", "reason": "", "iterations": 1, "draft": NOBODYS}],
    "run.erased.v1": [{"by": "x"}],
    "run.quarantined.v1": [{"by": "x", "reason": "y"}],
    "lesson.struck.v1": [{"lesson": "x", "workflow": "flow", "by": "x"}],
}
"""Values of the data of each event of the package that fit no plan, or not this place."""


def appended(rows: Sequence[RawRow], name: str, data: Mapping[str, Any]) -> list[RawRow]:
    """Returns the rows of a run and one more, whose hashes are right."""
    last = rows[-1]
    told = json.loads(last.state)
    version, previous = last.version + 1, told["hash"]
    facts = {"id": f"{last.run}-{version}.0", "time": DUE, "previous": previous, "actor": "x", "data": data}
    plain = json.dumps(facts, separators=(",", ":")).encode()
    own = _fingerprint(last.run, version, name, plain)
    return [*rows, RawRow(0, last.run, version, name, b'%b%b",%b' % (HASHED, own.encode(), plain[1:]))]


def made(folder: Path) -> dict[str, list[RawRow]]:
    """Records the good run of the plan in a store in the folder; returns its rows as it ended, and at earlier times."""
    (folder / "flow.py").write_text(PLAN)
    with start("run", "flow.py:flow", "Tides", "-q", folder=folder) as process:
        until(lambda: (folder / "store.db").exists() and "editor" in call("show", "last").out)
        for who in ("ann", "ben"):
            said("approve", "last", "--by", who)
        process.wait(30)
    rows = asyncio.run(first_events(f"sqlite:///{folder / 'store.db'}", 1000))
    names = [each.name for each in rows]
    at = {
        "begun": 1,
        "asked": names.index("step.requested.v1") + 1,
        "judging": names.index("iteration.started.v1") + 2,
        "waiting": names.index("approval.requested.v1") + 1,
        "ended": len(rows),
    }
    return {name: rows[:number] for name, number in at.items()}


def forge(url: str, base: Sequence[RawRow], run: str, name: str, data: Mapping[str, Any]) -> None:
    """Puts the run of these rows, followed by a forged event, into a store as another run."""
    asyncio.run(put_rows(url, appended(retold(base, run), name, data)))
