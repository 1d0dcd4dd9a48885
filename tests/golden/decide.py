"""Records runs as some rules decide them, for `tests/actors/deciding/test_rules_golden.py` to compare with.

    python tests/golden/decide.py --rules 4            records runs of new rules in tests/golden/rules4.jsonl
    python tests/golden/decide.py --rules 7 --state    records runs with a state in tests/golden/rules7-state.jsonl

What was decided once by some rules is folded and decided so for ever: a recorded file is never written over.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from redraft.actors.deciding.decider import continue_from, handle
from redraft.actors.deciding.state import OpenStep, RunState
from redraft.events.messages import commands
from redraft.events.messages.codec import encode_message
from redraft.events.messages.conditions import (
    approved,
    errors,
    exit_,
    measure,
    oscillating,
    outputs,
    plateau,
    score,
    state,
)
from redraft.events.messages.content import Brief, Critique, DraftRef, Receipt
from redraft.events.messages.domain_events import DomainEvent, RunStarted
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.plan import (
    Approve,
    Budget,
    Node,
    Parallel,
    Plan,
    Repeat,
    Retry,
    Role,
    StateField,
    StateSpec,
    Step,
)
from redraft.events.messages.run_state import Values
from redraft.events.messages.usage import Usage

GOLDEN: Final = Path(__file__).parent
RUN: Final = "golden-run"
START: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
SEEDS: Final = 2
"""How many runs of each plan are recorded."""


class Driven:
    """A run that is driven by a seed: what was said to it, and what came of it."""

    def __init__(self, plan: Plan, seed: int, rules: int) -> None:
        self.said: list[dict[str, Any]] = []
        self.events: list[DomainEvent] = []
        self.state = RunState()
        self._now = START
        self._random = Random(seed)
        self._keep(continue_from(self.state, RunStarted(plan, Brief("brief"), START, rules=rules), START))
        for _ in range(400):
            if self.state.status != "running":
                break
            self._now += timedelta(seconds=7)
            self._send(self._next())

    def _send(self, message: commands.Message) -> None:
        name, body = encode_message(message)
        self.said.append({"at": self._now.isoformat(), "name": name, "body": json.loads(body)})
        self._keep(handle(self.state, message, self._now))

    def _keep(self, decision: Any) -> None:
        self.events.extend(decision.events)
        self.state = decision.state

    def _next(self) -> commands.Message:
        state, chance = self.state, self._random.random()
        if state.paused:
            return commands.ResumeRun(RUN)
        if chance < 0.06 and (word := self._steering()) is not None:
            return word
        if state.approval is not None:
            return self._peoples_word(state.approval.request.draft)
        path = self._pick(sorted(state.open))
        asked = state.open[path]
        if asked.retry_at is not None:
            self._now = max(self._now, asked.retry_at)
            return commands.RetryStep(RUN, path, asked.attempt)
        if self._random.random() < 0.05:
            return commands.Failed(RUN, path, asked.attempt, "error", "broke", self._random.random() < 0.5)
        return self._answer(path, asked)

    def _answer(self, path: str, asked: OpenStep) -> commands.Message:
        draft, used = asked.draft or DraftRef(0, ""), Usage(10, 0.01, 1)
        text = self._pick(["a", "b", "c", "d e f", "long " * 4, f"text {len(self.said)}"])
        match asked.step.role:
            case "generator":
                return commands.Generated(RUN, path, asked.attempt, text, usage=used)
            case "refiner":
                leaving = self._random.random() < 0.1
                return commands.Refined(RUN, path, asked.attempt, text, exit=leaving, usage=used)
            case "publisher":
                return commands.Published(RUN, path, asked.attempt, draft, Receipt("here"))
            case "step":
                return commands.Completed(RUN, path, asked.attempt, self._values(), used)
            case "critic" if asked.step.condition:
                holds = self._random.random() < 0.4
                said = Critique(0.0, weaknesses=() if holds else ("no",), scored=False, measures={"good": int(holds)})
                return commands.Critiqued(RUN, path, asked.attempt, draft, said, used)
            case "critic":
                value = self._pick([0.0, 0.3, 0.6, 0.75, 0.85, 0.95, 1.0, 1.0])
                said = self._pick([None, None, None, True, False])
                found = ("bad",) if value < 0.5 else ()
                return commands.Critiqued(
                    RUN, path, asked.attempt, draft, Critique(value, (), (), (), found, said), used
                )

    def _values(self) -> Values:
        """Returns changes of the state, now and then some that the plan does not allow."""
        return self._pick([{}, {"n": len(self.said)}, {"done": True}, {"done": False, "notes": ["a"]}, {"other": 1}])

    def _peoples_word(self, draft: DraftRef) -> commands.Message:
        assert self.state.approval is not None
        chance, key = self._random.random(), f"k{len(self.said)}"
        if chance < 0.5:
            return commands.ApproveDraft(RUN, draft, "good", f"ann{len(self.said)}", key)
        if chance < 0.75:
            return commands.RejectDraft(RUN, draft, "too long", "ben", key)
        if chance < 0.9:
            return commands.EditDraft(RUN, draft, f"edited {len(self.said)}", "so", "ann", key)
        self._now = max(self._now, self.state.approval.request.due)
        return commands.ExpireStep(RUN, self.state.approval.request.path, 1)

    def _steering(self) -> commands.Message | None:
        current, key = self.state.current, f"k{len(self.said)}"
        kind = self._pick(["guide", "limits", "limits", "pause", "edit", "edit", "cancel"])
        if kind == "guide":
            return commands.GuideRun(RUN, "say why", "", "ann", key)
        if kind == "limits":
            most = self._pick([1, 2, 4])
            return commands.ChangeLimits(RUN, "", self._pick([None, score >= 0.7]), most, "", "ann", key)
        if kind == "pause":
            return commands.PauseRun(RUN, by="ann", key=key)
        if kind == "edit" and current is not None:
            return commands.EditDraft(RUN, current.ref, f"edited {len(self.said)}", "", "ann", key)
        return commands.CancelRun(RUN, "enough", "ann", key) if self._random.random() < 0.2 else None

    def _pick(self, among: Sequence[Any]) -> Any:
        return among[int(self._random.random() * len(among))]


def plans() -> Iterator[tuple[str, Plan]]:
    """Plans that go every way which the rules may tell apart."""
    write, save, judge, improve = (_step(*each) for each in _ACTORS)
    gate = msgspec.structs.replace(judge, name="gate", actor="gate", gate=True)
    other = _step("critic", "other")
    ask, until = Approve("editor"), (score >= 0.9) | plateau(0.01, 2)
    chief, loop = Approve("chief"), Repeat("Refinement", until, 3, (judge, improve))
    second = Repeat("Second", score >= 0.8, 2, (judge, improve))
    for combine in ("min", "median", "mean", "veto"):
        panel = Parallel("panel", (judge, other), combine=combine)
        yield f"panel-{combine}", _plan(write, Repeat("L", score >= 0.8, 3, (panel, improve)), save)
    weights = Parallel("panel", (gate, judge, other), combine="weights", weights=(1.0, 2.0, 1.0))
    yield "panel-weights", _plan(write, Repeat("L", score >= 0.8, 3, (weights, improve)), save)
    yield "straight", _plan(write, judge, other, save)
    yield "straight-gate", _plan(write, gate, judge, improve, other, save)
    yield "straight-people", _plan(write, gate, judge, ask, save, chief, _step("publisher", "web"))
    yield "after-loop-people", _plan(write, loop, ask, save)
    yield "loop-people", _plan(write, Repeat("Review", approved & (score >= 0.5), 4, (judge, ask, improve)), save)
    yield "nested-people", _plan(write, Repeat("Review", approved, 3, (loop, ask, chief, improve)), save)
    yield "gate", _plan(write, Repeat("L", score >= 0.9, 3, (gate, judge, improve)), save)
    last = Repeat("L", score >= 0.97, 3, (judge, improve), keep="last")
    yield "last", _plan(write, last, save)
    yield "exit", _plan(write, Repeat("L", (score >= 0.97) | oscillating(3), 4, (improve, judge)), save)
    yield "exit-alone", _plan(write, Repeat("L", exit_(), 4, (judge, improve)), save)
    either = Repeat("L", (score >= 0.97) | exit_(), 4, (gate, judge, improve))
    yield "exit-or-score", _plan(write, Repeat("Outer", approved, 2, (either, improve)), save)
    yield "exit-people", _plan(write, Repeat("L", approved & (errors == 0), 4, (judge, ask, improve)), save)
    stop = Repeat("L", (score >= 0.97) & (errors == 0), 4, (judge, improve), on_oscillation="stop")
    yield "oscillating", _plan(write, stop, save)
    chapter = Repeat("Chapter", score >= 0.8, 2, (judge, improve))
    again = Repeat("Chapters", outputs >= 2, 3, (_step("generator", "chapter"), chapter))
    yield "chapters", _plan(write, again, save)
    yield "chapters-best", _plan(write, again, save, on_failure="publish_best")
    nested = Repeat("Outer", score >= 0.9, 3, (loop, other, improve))
    yield "nested", _plan(write, nested, second, save)
    yield "best", _plan(write, loop, other, second, save, on_failure="publish_best")
    yield "best-people", _plan(write, loop, ask, second, save, on_failure="publish_best")
    yield "budget", _plan(write, loop, save, on_failure="publish_best", budget=Budget(calls=5))
    yield "budget-nested", _plan(write, again, save, on_failure="publish_best", budget=Budget(tokens=70))
    samples = Parallel("samples", (_step("refiner", "one"), _step("refiner", "two")), judge=other)
    yield "samples", _plan(write, Repeat("L", score >= 0.9, 3, (judge, samples)), save, on_failure="publish_best")


def state_plans() -> Iterator[tuple[str, Plan]]:
    """Plans with a state, free steps, conditions of one's own, and loops without critics."""
    write, save, judge, improve = (_step(*each) for each in _ACTORS)
    other, look, note = _step("critic", "other"), _step("step", "look"), _step("step", "note")
    gate = msgspec.structs.replace(judge, name="gate", actor="gate", gate=True)
    good = msgspec.structs.replace(_step("critic", "good"), condition=True, measures=("good",))
    declared = msgspec.structs.replace(look, writes=("n", "done"))
    fields = (StateField("n", "int"), StateField("done", "bool"), StateField("notes", "list", optional=True))
    typed, done = StateSpec(fields, {"n": 0, "notes": None}), state.done & (score >= 0.8)
    both = Parallel("both", (look, note))
    yield "first", _plan(note, write, judge, save, state=typed)
    yield "behind", _plan(write, Repeat("L", done, 3, (judge, declared, improve)), save, state=typed)
    yield "before", _plan(write, Repeat("L", done, 3, (look, judge, improve)), save)
    yield "between", _plan(write, Repeat("L", done, 3, (gate, look, judge, note, other, improve)), save)
    yield "both", _plan(write, Repeat("L", done, 3, (judge, both, improve)), save)
    yield "alone", _plan(write, Repeat("L", state.n >= 9, 3, (look, improve)), save, state=typed)
    yield "alone-both", _plan(write, Repeat("L", ~state.done, 3, (improve, both)), save)
    yield "alone-exit", _plan(write, Repeat("L", state.done | exit_(), 3, (improve,)), save)
    inner = Repeat("Inner", state.done.condition, 2, (improve, look))
    yield "nested", _plan(write, Repeat("Outer", score >= 0.8, 3, (inner, note, judge)), save)
    yield "nested-alone", _plan(write, Repeat("Outer", outputs >= 2, 3, (note, inner)), save)
    yield "own", _plan(write, Repeat("L", measure.good >= 1, 3, (judge, look, good, improve)), save)
    alone = Repeat("L", (measure.good >= 1) & state.done, 3, (good, look, improve))
    yield "own-alone", _plan(write, alone, save, state=typed)
    people = Repeat("L", approved & state.done, 3, (judge, look, Approve("editor"), improve))
    yield "people", _plan(write, people, save)
    yield "people-behind", _plan(write, Repeat("L", state.done.condition, 3, (look, improve)), Approve("editor"), save)
    late = msgspec.structs.replace(other, when=state.done.condition)
    yield "when", _plan(write, Repeat("L", score >= 0.9, 3, (judge, late, look, improve)), save)
    yield "salvaged", _plan(write, Repeat("L", done, 3, (judge, look, improve)), save, on_failure="publish_best")


_ACTORS: Final[tuple[tuple[Role, str], ...]] = (
    ("generator", "write"),
    ("publisher", "save"),
    ("critic", "judge"),
    ("refiner", "improve"),
)


def _step(role: Role, name: str) -> Step:
    return Step(role, name, name, retry=Retry(2, 0.0))


def _plan(*nodes: Node, **settings: Any) -> Plan:
    return Plan("golden", nodes, **settings)


def runs(rules: int, seeds: int = SEEDS, *, with_state: bool = False) -> Iterator[dict[str, Any]]:
    """The lines of a recorded file: what was said to each run, and what came of it."""
    for name, plan in state_plans() if with_state else plans():
        for seed in range(seeds):
            driven = Driven(plan, seed, rules)
            told = [{"name": EVENT_NAMES[type(event)], "data": msgspec.to_builtins(event)} for event in driven.events]
            yield {"plan": name, "seed": seed, "said": driven.said, "events": told}


def main(arguments: Sequence[str]) -> str:
    """Does what the command line says; gives a line to end with when it will not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", type=int, required=True, help="the rules that the runs follow")
    parser.add_argument("--state", action="store_true", help="record runs with a state")
    asked = parser.parse_args(arguments)
    path = GOLDEN / f"rules{asked.rules}{'-state' if asked.state else ''}.jsonl"
    if path.exists():
        return f"{path.name} is there already; recorded runs stay as they are"
    lines = runs(asked.rules, SEEDS * 2 if asked.state else SEEDS, with_state=asked.state)
    path.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines), encoding="utf-8")
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) or 0)
