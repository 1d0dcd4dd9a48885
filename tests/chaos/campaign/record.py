"""The line that a part adds to the table in `docs/proof.md`, and the commit that it counts for."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.chaos.campaign.verdict import Verdict

PAGE: Final = Path(__file__).parents[3] / "docs" / "proof.md"
END: Final = "<!-- campaign: rows end here -->"
CODE: Final = ("events", "actors")
"""A campaign counts from the last commit that touched these."""


def row(part: str, seed: int, faults: Mapping[str, int], verdict: Verdict, seconds: float, beside: str) -> str:
    """A row of the table."""
    counts = verdict.counts
    bad = [str(len(verdict.faults.get(kind, ()))) for kind in ("lost", "doubled", "stuck", "untrue")]
    told = ", ".join(f"{number} {what}" for what, number in faults.items())
    again = f"{counts.get('work again', 0)} of {counts.get('work', 0)}"
    when = f"{datetime.now(UTC):%Y-%m-%d}"
    cells = [commit(), when, part, str(seed), told, f"{counts.get('runs', 0)}", again]
    cells += [str(counts.get("delivered again", 0)), *bad, f"{seconds / 60:.0f} min{beside}"]
    return f"| {' | '.join(cells)} |"


def add(line: str) -> None:
    """Adds a row to the page."""
    page = PAGE.read_text()
    PAGE.write_text(page.replace(END, f"{line}\n{END}"))


def commit() -> str:
    """The last commit that touched what is tried; with a + where that was changed since."""
    last = _git("log", "-1", "--format=%h", "--", *CODE)
    return f"{last}+" if _git("status", "--porcelain", "--", *CODE) else last


def _git(*order: str) -> str:
    done = subprocess.run(["git", *order], capture_output=True, text=True, check=True, cwd=PAGE.parents[1])
    return done.stdout.strip()
