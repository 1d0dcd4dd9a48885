"""Walks the nodes of a plan: single steps, parallels and rows of critics, and rates their drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from redraft.events.messages.content import Draft, DraftRef
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftGenerated,
    DraftRefined,
    PanelClosed,
    StepAnswered,
    StepFailed,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Node, Parallel, Role, Step
from redraft.projections.record_check.answers import (
    Made,
    drop_heeded_advice,
    is_asked_next,
    take_answer,
    take_only_answer,
    take_request,
)
from redraft.projections.record_check.chain import Deviates
from redraft.projections.record_check.counts import declared_counts, why_miscounted
from redraft.projections.record_check.drafts import is_barred, note_veto, rate_draft, rated_drafts
from redraft.projections.record_check.loop_conditions import (
    note_silence,
    rating_of,
)
from redraft.projections.record_check.ratings import (
    Rated,
    Rating,
    answers_needed,
    critics_of,
    failed_gate,
    heed_gates,
    is_critic,
    join_ratings,
    role_of,
    row_before,
)
from redraft.projections.record_check.run_state import changes_of, refuse_second
from redraft.projections.record_check.skipped import take_skipped
from redraft.projections.record_check.walk import Asked, Broken, Frame, Walk

_DECIMALS: Final = 14
"""Those that the means of a panel have by rules 5."""


def walk_work(walk: Walk, frame: Frame) -> None:
    """Walks the step or parallel at the frame's index."""
    node = frame.body[frame.index]
    if is_critic(node):
        _walk_critics(walk, frame)
    elif isinstance(node, Parallel):
        _walk_parallel(walk, frame, node)
    elif isinstance(node, Step):
        _walk_step(walk, frame, node)


def _walk_step(walk: Walk, frame: Frame, step: Step) -> None:
    take_request(walk, step, f"{frame.prefix}{step.name}{frame.review or ''}")
    event, asked, data = take_only_answer(walk)
    if isinstance(data, DraftGenerated | DraftRefined):
        drop_heeded_advice(walk, asked)
        _take_draft(walk, frame, data)
    _pass_step(walk, frame, step.role, changed=bool(changes_of(event.data)))


def _pass_step(walk: Walk, frame: Frame, role: Role, *, changed: bool) -> None:
    """Goes on to the node after a step. The loop's condition must be checked after a free step, and after any other
    that changed the state or, in a loop without critics, made a draft.
    """
    drafted = role in ("generator", "refiner") and not walk.needs_rating(frame)
    if frame.loop is not None and (changed or drafted or role == "step"):
        frame.due = "state"
    frame.index += 1
    if role == "step":
        frame.index = _index_without_gate(walk, frame)


def _index_without_gate(walk: Walk, frame: Frame) -> int:
    """Returns the index of the next node after a free step: once a gate of its row has failed, no critic but a gate."""
    gates = [node for node in row_before(frame.body, frame.index) if isinstance(node, Step) and node.gate]
    failed = join_ratings(frame.heard).gate == "failed" if frame.heard else failed_gate(walk.current)
    return _next_gate(frame.body, frame.index) if gates and failed else frame.index


def _take_draft(walk: Walk, frame: Frame, data: Made) -> None:
    """Makes a new draft the current one; a draft with the same text keeps its rating."""
    before = data.before if isinstance(data, DraftRefined) else None
    same = before is not None and before.sha256 == data.draft.sha256
    rating = _known_rating(walk, before) if before is not None and same and _is_own(walk, frame, before) else None
    walk.drafts = data.draft.version
    walk.current = Rated(data.draft.ref, rating)
    walk.untold = ()
    frame.exit = isinstance(data, DraftRefined) and data.exit
    note_draft(frame, data.draft, before.version if before else 0)


def _is_own(walk: Walk, frame: Frame, ref: DraftRef) -> bool:
    """Returns whether a loop's own critics rated a draft, or it came rated: by rules 8 only that word is carried on."""
    if walk.rules < 8 or frame.loop is None or not critics_of(frame.loop):
        return True
    return ref in [each.ref for each in rated_drafts(frame)]


def note_draft(frame: Frame, draft: Draft | DraftRef, before: int) -> None:
    """Adds the draft to the loop's memory, if the loop detects oscillation."""
    if frame.swings is not None:
        frame.swings.note(draft, before)


def _known_rating(walk: Walk, ref: DraftRef) -> Rating | None:
    of_loops = (each for frame in walk.frames for each in (frame.best, frame.last, *frame.judged, frame.entry))
    known = next((each.rating for each in (walk.current, *of_loops) if each and each.ref == ref), None)
    return None if known is not None and known.broken else known


def _walk_parallel(walk: Walk, frame: Frame, node: Parallel) -> None:
    if node.steps[0].role in ("publisher", "step"):
        changed = _walk_side_by_side(walk, frame, node)
        _pass_step(walk, frame, node.steps[0].role, changed=changed)
        return
    before = walk.current
    chosen, rating = _walk_candidates(walk, frame, node)
    walk.untold = ()
    refines = node.steps[0].role == "refiner" and before is not None
    note_draft(frame, chosen, before.ref.version if refines and before else 0)
    is_final = walk.rules < 8 or frame.loop is None or not critics_of(frame.loop)
    rate_draft(walk, frame, chosen, rating, is_final=is_final)
    frame.due = "judged" if is_final else "output"
    frame.index += 1


def _walk_critics(walk: Walk, frame: Frame) -> None:
    """Walks a critic or a panel. After the last one of a row, their joined rating is the draft's."""
    rating = _walk_critic(walk, frame, frame.body[frame.index], frame.heard)
    frame.index += 1
    if rating is not None:
        frame.heard = (*frame.heard, rating)
        failed = join_ratings(frame.heard).gate == "failed"
        frame.index = _next_gate(frame.body, frame.index) if failed else frame.index
    if walk.current is None or _row_goes_on(frame):
        return
    reviewed = walk.frames[-2] if frame.review is not None else frame
    joined = heed_gates(join_ratings(frame.heard), frame.heard, walk.rules)
    joined = note_silence(joined, row_before(frame.body, frame.index))
    frame.heard = ()
    rate_draft(walk, reviewed, walk.current.ref, joined)
    if frame.review is None:
        frame.due = "judged"


def _row_goes_on(frame: Frame) -> bool:
    """Returns whether a critic is yet to come in the row, after free steps or not: only a gate once one has failed."""
    failed = bool(frame.heard) and join_ratings(frame.heard).gate == "failed"
    for node in frame.body[frame.index :]:
        if is_critic(node) and (not failed or (isinstance(node, Step) and node.gate)):
            return True
        if role_of(node) not in ("critic", "step"):
            return False
    return False


def _walk_critic(walk: Walk, frame: Frame, node: Node, said: Sequence[Rating]) -> Rating | None:
    """Walks a critic or a panel, before which these were heard; None for one that was left out."""
    suffix = frame.review or ""
    if isinstance(node, Parallel):
        return _walk_panel(walk, frame, node, said)
    assert isinstance(node, Step)  # noqa: S101 - only steps and parallels judge
    if take_skipped(walk, frame, node, f"{frame.prefix}{node.name}{suffix}", said):
        return None
    heard = heed_gates(join_ratings(said), said, walk.rules) if node.condition and said else None
    take_request(walk, node, f"{frame.prefix}{node.name}{suffix}", heard=heard)
    event, asked, data = take_only_answer(walk)
    assert isinstance(data, DraftCritiqued)  # noqa: S101 - a critic's answer, `answer` saw to it
    return _rate(walk, event, asked.step, data)


def _rate(walk: Walk, event: Recorded, step: Step, data: DraftCritiqued) -> Rating:
    """Returns the rating of a critique. Raises Deviates for measures that are not those that the plan declares."""
    fault = why_miscounted(step, data.critique) if declared_counts(step) or data.critique.measures else ""
    if fault and not walk.repeats(event):
        raise Deviates("step", event, fault)
    rating = rating_of(event.version, data.critique, walk.rules, step)
    note_veto(walk, data.draft, rating)
    return rating


def _next_gate(body: tuple[Node, ...], index: int) -> int:
    """Returns the index of the next gate, or of the first node after the critics from this index on."""
    while index < len(body) and is_critic(body[index]):
        node = body[index]
        if isinstance(node, Step) and node.gate:
            break
        index += 1
    return index


class _ParallelWalk:
    """A parallel in progress: its steps are requested in order, and answer in any order."""

    def __init__(self, walk: Walk, frame: Frame, node: Parallel) -> None:
        self.walk, self.node = walk, node
        self.path = f"{frame.prefix}{node.name}{frame.review or ''}"
        self.asked = 0
        self.failed = 0
        self.skipped = 0
        self.written: dict[str, str] = {}
        self._ask()

    def next(self, askable: int | None = None) -> tuple[Recorded, Asked, StepAnswered] | None:
        """Returns the next answer; None when another event was taken. `askable` is how many steps may be requested by
        now.

        Raises Broken when too many have failed.
        """
        if self.asked < (len(self.node.steps) if askable is None else askable) and is_asked_next(
            self.walk, self._next_path()
        ):
            self._ask()
            return None
        given = take_answer(self.walk)
        if given is None or not isinstance(given[2], StepFailed):
            if given is not None:
                refuse_second(self.written, given[0])
            return given
        if len(self.node.steps) - self.failed - 1 < answers_needed(self.node):
            raise Broken(publishing=given[1].step.role == "publisher")
        self.failed += 1
        return None

    def leave_out(self, frame: Frame, said: Sequence[Rating]) -> bool:
        """Takes the event that the next critic is not asked, after these were heard; returns whether there is one."""
        if not take_skipped(self.walk, frame, self.node.steps[self.asked], self._next_path(), said):
            return False
        self.asked += 1
        self.skipped += 1
        return True

    def number(self, asked: Asked) -> int:
        """Returns the index of a step among those of the parallel."""
        return [step.name for step in self.node.steps].index(asked.step.name)

    def _next_path(self) -> str:
        return f"{self.path}/{self.node.steps[self.asked].name}"

    def _ask(self) -> None:
        take_request(self.walk, self.node.steps[self.asked], self._next_path())
        self.asked += 1


def _walk_panel(walk: Walk, frame: Frame, node: Parallel, said: Sequence[Rating]) -> Rating:
    """Walks a panel of critics; returns their joined rating. Critics without an answer count as late."""
    turns = _ParallelWalk(walk, frame, node)
    ratings: list[tuple[int, Rating]] = []
    gates = sum(step.gate for step in node.steps)
    early = sum(step.when is None for step in node.steps)
    while not _is_done(turns, ratings, gates):
        event = walk.peek()
        if isinstance(event.data, PanelClosed):
            _take_closing(turns, event, event.data, len(ratings))
            break
        if early <= turns.asked < len(node.steps) and len(ratings) >= early:
            heard = _join_panel(walk, node, ratings[:early])
            if turns.leave_out(frame, [*said, heard]):
                continue
        given = turns.next(gates if gates > len(ratings) else early if early > len(ratings) else None)
        if given is not None and isinstance(given[2], DraftCritiqued):
            ratings.append((turns.number(given[1]), _rate(walk, given[0], given[1].step, given[2])))
    walk.late |= walk.open
    walk.open = {}
    return _join_panel(walk, node, ratings)


def _join_panel(walk: Walk, node: Parallel, ratings: list[tuple[int, Rating]]) -> Rating:
    weights = [node.weights[number] for number, _ in ratings] if node.weights else []
    said = [rating for _, rating in ratings]
    joined = heed_gates(join_ratings(said, node.combine, weights), said, walk.rules)
    if walk.rules < 5 or node.combine == "min":
        return joined
    marks = {name: round(value, _DECIMALS) for name, value in joined.marks.items()}
    return msgspec.structs.replace(joined, score=round(joined.score, _DECIMALS), marks=marks)


def _is_done(turns: _ParallelWalk, ratings: list[tuple[int, Rating]], gates: int) -> bool:
    node = turns.node
    if not ratings:
        return False
    if len(ratings) == gates and any(rating.gate == "failed" for _, rating in ratings):
        return True
    return len(ratings) + turns.skipped >= (
        answers_needed(node) if node.deadline is None else len(node.steps) - turns.failed
    )


def _take_closing(turns: _ParallelWalk, event: Recorded, data: PanelClosed, ratings: int) -> None:
    walk, node = turns.walk, turns.node
    if data.path != turns.path or node.deadline is None:
        raise Deviates(
            "panel", event, f"{turns.path} is the panel under way, and it has {node.deadline or 'no'} deadline"
        )
    if data.answered != ratings or ratings < answers_needed(node):
        raise Deviates("panel", event, f"{ratings} critics had answered, and {answers_needed(node)} are needed")
    if set(data.missing) != set(walk.open):
        raise Deviates("panel", event, f"missing were {', '.join(sorted(walk.open)) or 'none'}")
    if not walk.repeats(event) and any(
        event.time < each.request.due for each in walk.open.values() if _is_first_attempt(each)
    ):
        raise Deviates("panel", event, "its time was not over")
    walk.take()


def _is_first_attempt(asked: Asked) -> bool:
    return asked.request.attempt == 1 and not asked.again


def _walk_candidates(walk: Walk, frame: Frame, node: Parallel) -> tuple[DraftRef, Rating]:
    """Returns the best of several drafts, according to the parallel's judge."""
    turns = _ParallelWalk(walk, frame, node)
    made: list[DraftRef] = []
    while len(made) < answers_needed(node):
        given = turns.next()
        if given is not None and isinstance(given[2], DraftGenerated | DraftRefined):
            drop_heeded_advice(walk, given[1])
            walk.drafts = given[2].draft.version
            made.append(given[2].draft.ref)
    walk.open = {}
    if node.judge is None:
        raise Deviates("step", walk.peek(), f"{turns.path} has no critic to judge its drafts")
    return _walk_judge(walk, node, turns.path, made)


def _walk_judge(walk: Walk, node: Parallel, path: str, made: list[DraftRef]) -> tuple[DraftRef, Rating]:
    assert node.judge is not None  # noqa: S101 - the caller saw to it
    asked = 0
    ratings: dict[int, Rating] = {}
    written: dict[str, str] = {}
    while len(ratings) < len(made):
        following = f"{path}/{node.judge.name}[{asked + 1}]"
        if asked < len(made) and (not asked or is_asked_next(walk, following)):
            take_request(walk, node.judge, following, made[asked], made)
            asked += 1
            continue
        given = take_answer(walk)
        if given is None:
            continue
        if not isinstance(given[2], DraftCritiqued):
            raise Broken
        refuse_second(written, given[0])
        number = made.index(given[2].draft)
        ratings[number] = _rate(walk, given[0], given[1].step, given[2])
    later = 1 if walk.rules >= 3 else -1
    best = max(ratings, key=lambda number: (not is_barred(walk, made[number]), ratings[number].score, later * number))
    return made[best], ratings[best]


def _walk_side_by_side(walk: Walk, frame: Frame, node: Parallel) -> bool:
    """Walks several publishers or free steps, of which as many as the parallel waits for must answer.

    Returns whether one of them changed the state.
    """
    turns = _ParallelWalk(walk, frame, node)
    answered = 0
    while answered < answers_needed(node):
        answered += turns.next() is not None
    walk.open = {}
    return bool(turns.written)
