"""The list of runs: one row per run, kept from start to end. `runs_query` reads it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, assert_never

from redraft.events.messages import domain_events as domain
from redraft.events.messages.content import Brief
from redraft.events.messages.envelope import Recorded, Unreadable
from redraft.events.messages.item_ids import lineage, run_of_item
from redraft.events.messages.plan import Plan
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.scales import Scale, write_scale
from redraft.events.messages.usage import Usage
from redraft.projections.display import brief_text, plain
from redraft.projections.engine.projection import (
    Change,
    Projection,
    Put,
    Row,
    Set,
    Table,
    Value,
    run_without_texts,
    seconds,
    without_texts,
)


def select_runs(
    time: str, since: datetime | None = None, workflow: str = "", run: str = "", column: str = "run"
) -> tuple[str, dict[str, Value]]:
    """Returns the condition, with its parameters, for rows of one run, of a workflow's runs, or of all.

    `time` is the column that must hold `since` or a later time, `column` that of the run. `workflow` needs `RUNS` in
    the same storage.
    """
    condition = f"{time} >= :since AND (:run = '' OR {column} = :run)"
    if workflow:
        condition += f" AND {column} IN (SELECT run FROM runs WHERE workflow = :workflow)"  # noqa: S608 - a column
    return condition, {"since": seconds(since) if since else 0.0, "workflow": workflow, "run": run}


ONE_SCALE: Final = "CASE WHEN count(DISTINCT coalesce(scale, '')) = 1 THEN max(scale) END"
"""The expression for the scale of all rows of a group; NULL if they have several."""


def day_of(time: str) -> str:
    """Returns the expression for the beginning (UTC) of the day of a time column, on every database."""
    whole = f"CAST({time} AS BIGINT)"  # which one database rounds, and another cuts off
    return f"({whole} - CASE WHEN {whole} > {time} THEN 1 ELSE 0 END) / 86400 * 86400"


BRIEF_LENGTH: Final = 120
"""How many characters of a brief's first line the list shows."""

TABLE: Final = Table(
    "runs",
    {
        "run": "TEXT NOT NULL",
        "workflow": "TEXT NOT NULL",
        "status": "TEXT NOT NULL",
        "waits": "INTEGER NOT NULL",
        "outcome": "TEXT",
        "reason": "TEXT NOT NULL",
        "brief": "TEXT NOT NULL",
        "source": "TEXT NOT NULL",
        "tags": "TEXT NOT NULL",
        "parent": "TEXT",
        "forked": "INTEGER",
        "item_of": "TEXT",
        "root": "TEXT",
        "started": "REAL NOT NULL",
        "updated": "REAL NOT NULL",
        "ended": "REAL",
        "iterations": "INTEGER NOT NULL",
        "score": "REAL",
        "scale": "TEXT",
        "best": "REAL",
        "draft": "INTEGER",
        "sha256": "TEXT",
        "steps": "INTEGER NOT NULL",
        "failures": "INTEGER NOT NULL",
        "calls": "INTEGER NOT NULL",
        "unpriced": "INTEGER NOT NULL",
        "tokens": "INTEGER NOT NULL",
        "cost": "REAL NOT NULL",
        "currency": "TEXT NOT NULL",
        "items_calls": "INTEGER NOT NULL",
        "items_tokens": "INTEGER NOT NULL",
        "items_cost": "REAL NOT NULL",
        "step": "TEXT NOT NULL",
        "began": "INTEGER NOT NULL",
        "position": "INTEGER NOT NULL",
        "version": "INTEGER NOT NULL",
    },
    indexes={"runs_started": "(started, position, workflow, outcome, status, tags, waits, item_of)"},
)
"""`waits` is 1 while people have to decide on a draft. `tags` have a blank before and after each. `step` is the path of
the newest request or approval, empty once the run has ended. `parent` and `forked` are set for a fork: its parent run
and the version. `item_of` is set for the run of an item: the run around it; `root` is the outermost of these. `calls`,
`tokens` and `cost` include what the runs of its items told with their ends; that part is `items_calls` and so on.
`began` is the position of its first event, `position` that of its last. The index has every column
that a list can be filtered by, so that only the listed rows need to be looked up.
"""
_EMPTY: Final = TABLE.empty_row()


def project_run(events: Sequence[Recorded]) -> Iterator[Change]:
    """Yields what events of one run, in order, change in its row: one change for all of them, but for its begin and for
    a quarantine, which may add the row.
    """
    change = _Change()
    for recorded in events:
        event = recorded.data
        if type(event) is domain.RunStarted:
            yield Put("runs", _new_row(recorded.run, recorded.position, event, _place_of(recorded)))
        elif type(event) is domain.RunQuarantined:
            yield change.of(recorded)
            yield _quarantine(recorded, event)
            change = _Change()
        else:
            change.add(recorded, event)
            if "cost" in change.counts:  # a sum of fractions depends on its order, so each is added by itself
                yield change.of(recorded)
                change = _Change()
    yield change.of(events[-1])


def project_unreadable(entry: Unreadable) -> Sequence[Change]:
    """Returns the change that marks a run unreadable; if nothing is known of the run, it is listed without a time."""
    values: Row = {
        "status": "unreadable",
        "outcome": None,
        "reason": plain(unreadable_reason(entry)),
        "position": entry.position,
    }
    new = _unknown_row(entry.run, entry.position, {"updated": 0.0, "version": entry.version, **values})
    return (Set("runs", (entry.run,), values, new=new),)


def unreadable_reason(entry: Unreadable) -> str:
    """Returns why a run cannot be read, and from which event on."""
    return f"it cannot be read from event {entry.version} on (position {entry.position}): {entry.why}"


RUNS: Final = Projection(
    "runs",
    10,
    (TABLE,),
    without_texts(lambda recorded: project_run((recorded,))),
    project_unreadable,
    apply_run=run_without_texts(project_run),
)
"""The projection that keeps the list."""


class _Change:
    """The changes of some events of a run, one after the other, in its row, put together."""

    def __init__(self) -> None:
        self.values: Row = {}
        self.counts: defaultdict[str, int | float] = defaultdict(int)
        self.best: float | None = None
        self.step: str | None = None

    def of(self, last: Recorded) -> Set:
        """Returns the change of all events up to this one."""
        if self.step is not None:
            self.values["step"] = plain(self.step)
        best = None if self.best is None else {"best": self.best}
        return Set("runs", (last.run,), self.values | _place_of(last), self.counts, best)

    def add(self, recorded: Recorded, event: domain.DomainEvent) -> None:
        """Adds the next event."""
        match event:
            case domain.StepRequested():
                self.step = event.path
                if event.role == "refiner" and event.score is not None:
                    self._score_draft(event, event.score)
            case domain.IterationStarted():
                self.counts["iterations"] += "/" not in event.path
            case domain.DraftCritiqued():
                if _is_alone(event.path):
                    self._show_score(event.critique.known_score, event.critique.scale)
                self._count_answer(recorded, event.usage)
            case domain.DraftRefined() | domain.DraftGenerated():
                self._show_draft(event.draft.version, event.draft.sha256)
                self._count_answer(recorded, event.usage)
                self._count_item(recorded, event)
            case domain.DraftPublished() | domain.VerdictLate():
                self._count_answer(recorded, event.usage)
            case domain.StateChanged():
                if event.path:  # the values that a fork began with are no step's
                    self._count_answer(recorded, event.usage)
            case domain.StepFailed():
                self._count_answer(recorded, event.usage, "failures")
                self._count_item(recorded, event)
            case domain.LoopEnded():
                self._end(event)
            case domain.RunEnded():
                self._end_run(recorded, event)
            case domain.ApprovalRequested():
                self.step = event.path
                self.values["waits"] = 1
            case domain.DraftRejected() | domain.ApprovalExpired() | domain.BudgetReached():
                self.values["waits"] = 0
            case domain.DraftApproved():
                if event.granted:
                    self.values["waits"] = 0
            case domain.RunErased():
                self.values |= {"brief": ERASED, "source": "", "reason": ERASED, "sha256": ERASED}
            case domain.RunPaused():
                self.values["status"] = "paused"
            case domain.RunResumed():
                self.values["status"] = "running"
            case domain.DraftEdited():
                self.values["waits"] = 0
                self._show_draft(event.draft.version, event.draft.sha256)
            case (
                domain.RunStarted()
                | domain.RunQuarantined()
                | domain.RunGuided()
                | domain.LimitsChanged()
                | domain.RunCancelled()
                | domain.LoopClosing()
                | domain.PanelClosed()
                | domain.CriticSkipped()
                | domain.ChoicesCredited()
                | domain.LessonStruck()
            ):
                pass
            case _ as never:
                assert_never(never)

    def _count_answer(self, recorded: Recorded, usage: Usage, what: str = "steps") -> None:
        """Counts an answer in the column `what`, and its usage; one that a fork repeats belongs to its parent."""
        if recorded.repeats:
            return
        counts = self.counts
        counts[what] += 1
        if usage.is_nothing:
            return
        if usage.currency:
            self.values["currency"] = usage.currency
        counts["calls"] += usage.calls
        counts["unpriced"] += usage.unpriced
        counts["tokens"] += usage.tokens
        counts["cost"] += usage.cost

    def _count_item(
        self, recorded: Recorded, event: domain.DraftGenerated | domain.DraftRefined | domain.StepFailed
    ) -> None:
        """Counts the usage of an answer that is also in a row of its own: an item's run, whose end the relay tells."""
        if recorded.repeats or recorded.actor != "relay" or event.usage.is_nothing:
            return
        self.counts["items_calls"] += event.usage.calls
        self.counts["items_tokens"] += event.usage.tokens
        self.counts["items_cost"] += event.usage.cost

    def _show_score(self, score: float | None, scale: Scale | None) -> None:
        self.values["score"] = score
        self.values["scale"] = write_scale(scale)

    def _show_draft(self, version: int, sha256: str) -> None:
        self.values["draft"] = version
        self.values["sha256"] = sha256

    def _score_draft(self, event: domain.StepRequested, score: float) -> None:
        """Takes a draft's joined score from a refiner's request; the score of a single critic is known already."""
        if len(event.critiques) > 1:
            self._show_score(score, event.scale)
        self._raise_best(score)

    def _raise_best(self, score: float) -> None:
        self.best = score if self.best is None or score > self.best else self.best

    def _end(self, event: domain.LoopEnded | domain.RunEnded) -> None:
        draft, score = event.draft, event.score
        if draft is not None and draft.version:
            self._show_draft(draft.version, draft.sha256)
        if score is not None:
            self._show_score(score, event.scale)
            self._raise_best(score)

    def _end_run(self, recorded: Recorded, event: domain.RunEnded) -> None:
        self.step = ""
        self.counts.pop("iterations", None)
        self.values |= {"status": "ended", "waits": 0, "outcome": event.outcome, "reason": event.reason}
        self.values |= {"ended": seconds(recorded.time), "iterations": event.iterations}
        self._end(event)


def _place_of(recorded: Recorded) -> Row:
    """Returns what the last event of a run says in its row."""
    return {"updated": seconds(recorded.time), "position": recorded.position, "version": recorded.version}


def _quarantine(recorded: Recorded, event: domain.RunQuarantined) -> Set:
    """Marks a run as quarantined, whatever its earlier outcome; a run that could not be read before is added."""
    values = _place_of(recorded)
    values |= {"status": "quarantined", "waits": 0, "outcome": None, "reason": event.reason}
    values |= {"ended": values["updated"], "step": ""}
    return Set("runs", (recorded.run,), values, new=_unknown_row(recorded.run, recorded.position, values))


def _unknown_row(run: str, began: int, values: Row) -> Row:
    """Returns the row of a run whose beginning could not be read."""
    return _new_row(run, began, domain.RunStarted(Plan("", ()), Brief(""), datetime(1970, 1, 1, tzinfo=UTC)), values)


def _is_alone(path: str) -> bool:
    """Returns whether a critic's score is the draft's: not in a Parallel, which the path then names."""
    inside = path.rpartition("/")[0]
    return not inside or inside.endswith("]")


def _new_row(run: str, began: int, event: domain.RunStarted, values: Row) -> Row:
    return {
        **_EMPTY,
        "run": run,
        "workflow": event.plan.name,
        "status": "running",
        "brief": brief_line(event.brief),
        "source": event.brief.source,
        "tags": f" {' '.join(event.tags)} " if event.tags else "",
        "parent": event.parent.run if event.parent else None,
        "forked": event.parent.version if event.parent else None,
        **_around(run, event),
        "started": values["updated"],
        "began": began,
        **values,
    }


def _around(run: str, event: domain.RunStarted) -> Row:
    """Returns which run is around a run, and which is the outermost; a fork of an item's run is the run of no item."""
    if event.of is None or run != run_of_item(event.of):
        return {}
    *_, root = lineage(event.of.run)
    return {"item_of": event.of.run, "root": root}


def brief_line(brief: Brief) -> str:
    """Returns the first line of a brief, as the list shows it; of one of several files, which these are."""
    return plain(brief_text(brief).lstrip().partition("\n")[0], BRIEF_LENGTH)
