"""What a trial found: how many runs do not fit their plan, how many never ended, and how long it took."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from redraft.app.record.auditing.record_faults import check_log
from redraft.events.backends import open_store
from redraft.events.messages.domain_events import RunEnded

PANEL: Final = Path(__file__).with_name("panel.py")
"""The workflow of the trials."""

SHOWN: Final = 3
"""Of how many runs, and how many faults of each, a trial tells."""


class Found(msgspec.Struct, frozen=True):
    """`wrong` are the runs with a fault, `stuck` those that had not ended in time; `ended_early` are processes."""

    trial: str
    runs: int
    wrong: int
    stuck: int
    seconds: float
    ended_early: int
    examples: Mapping[str, tuple[str, ...]]


async def examined(trial: str, store: str, runs: int, begun: float, ended_early: int = 0) -> Found:
    """What a trial of so many runs left in a store; `begun` is by `time.monotonic`."""
    seconds = time.monotonic() - begun
    async with open_store(store) as opened:
        faults = {each.run: each.findings async for each in check_log(opened) if each.findings}
        batches = [batch async for batch in opened.tail(0, follow=False)]
    ended = {event.run for batch in batches for event in batch if isinstance(event.data, RunEnded)}
    examples = {run: tuple(each.message for each in faults[run][:SHOWN]) for run in list(faults)[:SHOWN]}
    return Found(trial, runs, len(faults), runs - len(ended), round(seconds, 1), ended_early, examples)


def report(found: Iterable[Found], *, as_json: bool) -> int:
    """Prints what was found; returns the exit code, 1 if a run is wrong or stuck, or a process ended early."""
    all_found = list(found)
    lines = [json.dumps(msgspec.to_builtins(all_found))] if as_json else _table(all_found)
    sys.stdout.write("\n".join(lines) + "\n")
    return int(any(each.wrong or each.stuck or each.ended_early for each in all_found))


def _table(found: Iterable[Found]) -> list[str]:
    all_found = list(found)
    lines = [f"{'trial':<44}{'runs':>6}{'wrong':>7}{'stuck':>7}{'died':>6}{'seconds':>9}"]
    for each in all_found:
        counts = f"{each.runs:>6}{each.wrong:>7}{each.stuck:>7}{each.ended_early:>6}{each.seconds:>9.1f}"
        lines.append(f"{each.trial:<44}{counts}")
    for each in all_found:
        lines += [f"{each.trial}: {run}: {'; '.join(told)}" for run, told in each.examples.items()]
    return lines


def options(description: str | None) -> argparse.ArgumentParser:
    """What every trial can be told."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n\n")[0])
    parser.add_argument("--times", type=int, default=1, help="how often each trial is made (default 1)")
    parser.add_argument("--workflows", default="wait_all,wait_some", help="of panel.py (default: both)")
    parser.add_argument("--folder", type=Path, help="where the files are kept (default: a temporary folder)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser
