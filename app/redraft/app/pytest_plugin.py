"""The pytest plugin: the fixture `redraft`, which runs workflows on recorded answers. It is loaded with every pytest.

So it imports nothing of Redraft until the fixture is used.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from redraft.app import Brief, Settings, Workflow
    from redraft.app.testing import Story


_LONGEST: Final = 100
"""The most letters of a test's name in that of its folder."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options with which answers and snapshots are written."""
    group = parser.getgroup("redraft", "workflows on recorded answers")
    group.addoption(
        "--redraft-record",
        action="store_true",
        help="ask the actors of workflows, and write their answers and the snapshots of histories",
    )
    group.addoption("--redraft-update", action="store_true", help="write the snapshots of histories; nobody is asked")


class Recordings:
    """The fixture `redraft`: runs of one test. Their answers and snapshots lie in a folder beside it."""

    def __init__(self, folder: Path, *, record: bool, update: bool) -> None:
        self._folder = folder
        self._record = record
        self._update = update
        self._runs = 0
        self._snapshots = 0

    async def refine(
        self, workflow: Workflow, brief: Brief | str, *, live: Iterable[str] = (), settings: Settings | None = None
    ) -> Story:
        """Returns how a run of the workflow goes on recorded answers; see `redraft.app.testing.run_recorded`."""
        from redraft.app.testing import run_recorded

        self._runs += 1
        answers = self._folder / f"answers{_number(self._runs)}.json"
        if not self._record and not answers.exists():
            pytest.fail(f"no answers are recorded in {answers}; record them: pytest --redraft-record", pytrace=False)
        return await run_recorded(workflow, brief, answers, record=self._record, live=live, settings=settings)

    def run(
        self, workflow: Workflow, brief: Brief | str, *, live: Iterable[str] = (), settings: Settings | None = None
    ) -> Story:
        """Does the same in a test that is not async."""
        return asyncio.run(self.refine(workflow, brief, live=live, settings=settings))

    def snapshot(self, story: Story) -> None:
        """Raises AssertionError unless the history is as it was when the snapshot was written, which it shows."""
        self._snapshots += 1
        path = self._folder / f"history{_number(self._snapshots)}.txt"
        if self._record or self._update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(story.text(), encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"there is no snapshot {path}; write it: pytest --redraft-update", pytrace=False)
        kept = path.read_text(encoding="utf-8")
        if kept != story.text():
            pytest.fail(f"{_difference(kept, story.text(), path)}\nif this is right: pytest --redraft-update", False)


@pytest.fixture
def redraft(request: pytest.FixtureRequest) -> Recordings:
    """Runs workflows on recorded answers: `story = redraft.run(workflow, "a brief")`."""
    folder = request.path.parent / "recorded" / request.path.stem / _folder_name(request.node.nodeid)
    options = request.config.option
    return Recordings(folder, record=options.redraft_record, update=options.redraft_update)


def _folder_name(test: str) -> str:
    """Returns the name of a test, with its class and parameters, as a folder; with a hash where it is another then.

    Letters count as the same in either case, as some file systems have it.
    """
    own = test.partition("::")[2].replace("::", ".")
    name = re.sub(r"[^\w.-]+", "-", own).strip("-.")[:_LONGEST]
    plain = re.fullmatch(r"[a-z0-9_.]+", own) and name == own
    return name if plain else f"{name}-{sha256(own.encode()).hexdigest()[:8]}"


def _number(count: int) -> str:
    return "" if count == 1 else f"-{count}"


def _difference(kept: str, now: str, path: Path) -> str:
    from difflib import unified_diff

    lines = unified_diff(kept.splitlines(), now.splitlines(), f"{path.name} as it was", "this run", lineterm="")
    return "\n".join(lines)
