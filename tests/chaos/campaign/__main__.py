"""A campaign of faults on real processes, with a RabbitMQ and a PostgreSQL of its own, each behind a proxy.

    python -m tests.chaos.campaign --scale 0.01                       # one of each fault, in about ten minutes
    python -m tests.chaos.campaign --part worker-kills --seed 3 --record

At scale 1 it is what `PARTS` says: 500 kills of workers, and so on. Each part is judged by itself, prints a line with
commit, seed and counts, and with `--record` adds it to the table in `docs/proof.md`. Exit codes: 0 nothing is wrong,
1 something is lost, doubled, stuck or untrue, 2 wrong usage, or no servers to start.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import pytest
from tests.chaos.campaign import recovery, sqlite
from tests.chaos.campaign.deployment import Skipped
from tests.chaos.campaign.parts import PARTS, Outcome, play
from tests.chaos.campaign.record import add, row
from tests.chaos.campaign.servers import Servers, servers
from tests.chaos.campaign.verdict import Verdict

from redraft.app.process.logs import libraries

SQLITE: Final = {"sqlite-kills": sqlite.play_kills, "sqlite-pairs": sqlite.play_pairs, "sqlite-disk": sqlite.play_disk}
RECOVERY: Final = "recovery"
ALL: Final = (RECOVERY, *PARTS, *SQLITE)
SHOWN: Final = 5
"""How many faults of each kind are shown."""


class Campaign:
    """The parts that were asked for, one after the other."""

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self._given = given
        self._folder = folder
        self._bad = 0

    async def run(self) -> int:
        """Returns the exit code."""
        chosen = self._given.part or ALL
        small = [name for name in chosen if name in PARTS and PARTS[name].small]
        plain = [name for name in chosen if name not in SQLITE and name not in small]
        if plain:
            async with servers() as made:
                for name in plain:
                    await self._play(name, made)
        if small:
            try:
                async with servers(small=True) as made:
                    for name in small:
                        await self._play(name, made)
            except OSError as error:
                _say(f"{', '.join(small)}: not tried: {error}")
        for name in chosen:
            if name in SQLITE:
                await self._play(name)
        return int(bool(self._bad))

    async def _play(self, name: str, made: Servers | None = None) -> None:
        began = time.monotonic()
        folder = self._folder / name
        folder.mkdir()
        folder.chmod(0o755)
        try:
            outcome = await self._outcome(name, made, folder)
        except Skipped as why:
            _say(f"{name}: not tried: {why}")
            return
        except TimeoutError as error:
            _say(f"{name}: not ended: {error}")
            self._bad += 1
            return
        self._tell(name, outcome, time.monotonic() - began)

    def _tell(self, name: str, outcome: Outcome, seconds: float) -> None:
        line = row(name, self._given.seed, outcome.faults, outcome.verdict, seconds, self._given.beside)
        _say(line)
        notes = [f"{what}: {number}" for what, number in outcome.notes.items()]
        for each in [*outcome.told, *_shown(outcome.verdict), *notes]:
            _say(f"    {each}")
        self._bad += not outcome.verdict.is_clean
        if self._given.record:
            add(line)

    async def _outcome(self, name: str, made: Servers | None, folder: Path) -> Outcome:
        scale, seed = self._given.scale, self._given.seed
        if name in SQLITE:
            return await SQLITE[name](scale, seed, folder)
        assert made is not None
        if name == RECOVERY:
            return await recovery.play(made, scale, seed, folder)
        return await play(PARTS[name], made, scale, seed, folder)


def _shown(verdict: Verdict) -> list[str]:
    counts = ", ".join(f"{number} {what}" for what, number in verdict.counts.items())
    wrong = [
        f"{kind}: {told}"
        for kind, all_told in verdict.faults.items()
        for told in [*all_told[:SHOWN], *([f"and {len(all_told) - SHOWN} more"] if len(all_told) > SHOWN else [])]
    ]
    return [counts, *wrong]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _stoppable(campaign: Campaign) -> int:
    """Runs it; SIGTERM ends it as Ctrl-C does, with all that it started."""
    running = asyncio.current_task()
    assert running is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    return await campaign.run()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.campaign", description="Breaks what can be broken.")
    parser.add_argument("--scale", type=float, default=0.01, help="of the numbers of faults (default 0.01; at most 1)")
    parser.add_argument("--part", action="append", choices=ALL, help="only this part; may be repeated (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn: order, moments, victims (default 1)")
    parser.add_argument("--record", action="store_true", help="add a row for each part to the table in docs/proof.md")
    parser.add_argument("--beside", default="", metavar="TEXT", help="what the row says beside, such as ', busy'")
    parser.add_argument("--folder", type=Path, help="where logs and files are kept (default: a temporary folder)")
    given = parser.parse_args()
    if not 0 < given.scale <= 1:
        parser.error(f"--scale {given.scale:g}: give a number above 0 and at most 1")
    try:
        with tempfile.TemporaryDirectory(prefix="redraft-campaign-") as folder, libraries():
            place = (given.folder or Path(folder)).resolve()
            place.mkdir(parents=True, exist_ok=True)
            return asyncio.run(_stoppable(Campaign(given, place)))
    except (asyncio.CancelledError, KeyboardInterrupt):
        _say("stopped")
        return 130
    except (pytest.skip.Exception, pytest.fail.Exception) as error:
        _say(f"not tried: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
