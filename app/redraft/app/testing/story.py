"""What is told of a history in which something is wrong: what, by which faults, how to see it again, how it came."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from redraft.app.testing.history import History
from redraft.events.envelope import Recorded
from redraft.projections.history import told as tell

LAST: Final = 40
"""How many lines of what happened are shown, the last."""


def story(workflow: str, history: History, wrong: Sequence[str], replay: str) -> str:
    """Several lines, in the words of the domain; runs are numbered in the order in which they began."""
    runs = list(dict.fromkeys(event.run for event in history.events))
    concerned = {run for run in runs if any(run in each for each in wrong)} or set(runs)
    happened = [f"{at:9.2f} s  {what}" for at, what in _happened(history, concerned)]
    lines = [
        f"workflow {workflow} goes wrong with seed {history.seed}; replay it: {replay}",
        *(f"  wrong: {each}" for each in wrong),
        *_faults(history.planted),
        "  what happened, in seconds since the start" + (f" (the last {LAST} lines):" if len(happened) > LAST else ":"),
        *(f"  {line}" for line in happened[-LAST:]),
    ]
    text = "\n".join(lines)
    for number, run in enumerate(runs, 1):
        text = text.replace(f"run {run}", f"run {number}").replace(run, f"run {number}")
    return text


def _faults(planted: Sequence[str]) -> list[str]:
    if not planted:
        return ["  nothing went wrong on purpose"]
    fault = "this fault" if len(planted) == 1 else f"these {len(planted)} faults"
    return [f"  it takes {fault}, and nothing else:", *(f"    {each}" for each in planted)]


def _happened(history: History, runs: set[str]) -> list[tuple[float, str]]:
    """What was recorded of these runs, and what is noted of them or of no single run, in the order of time."""
    notes = [(each.at, each.what) for each in history.notes if not each.run or each.run in runs]
    return sorted([*_recorded(history, runs), *notes], key=lambda each: each[0])


def _recorded(history: History, runs: set[str]) -> Iterator[tuple[float, str]]:
    """By the true time, whatever the clocks of those who recorded it showed."""
    times = dict(zip((event.id for event in history.events), history.recorded, strict=True))
    by_run: defaultdict[str, list[Recorded]] = defaultdict(list)
    for event in history.events:
        by_run[event.run].append(event)
    for run in runs:
        for event, line in zip(by_run[run], tell(by_run[run]), strict=True):
            yield times[event.id], f"run {run}: {line.sentence}"
