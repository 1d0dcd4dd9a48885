"""What is shown of records with an event that fits no plan, and that what coordinators record always follows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Final

import pytest
from tests.misfits import FORGED, appended, made

from redraft.app.dashboard.pages.run import run_shown
from redraft.app.record.auditing.audit import story_of
from redraft.app.record.auditing.audit_page import render
from redraft.app.record.copying.with_texts import find_command
from redraft.app.record.past import final_draft, legible
from redraft.app.runs.comparing import decide_each, read_policies
from redraft.app.subscribing.misfits import Misfit, fitting
from redraft.app.testing.history import history
from redraft.events.errors import RedraftError
from redraft.events.messages.codec import decode_event
from redraft.events.messages.envelope import Recorded
from redraft.events.store.raw_rows import RawRow

Bases = dict[str, list[RawRow]]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Bases:
    home = tmp_path_factory.mktemp("misfits")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("REDRAFT_STORE", f"sqlite:///{home / 'store.db'}")
        return made(home)


POLICIES: Final = read_policies(["score >= 0.3"], None, None, None)


@pytest.mark.parametrize("base", ["begun", "asked", "judging", "waiting", "ended"])
def test_nothing_that_a_stranger_may_add_breaks_a_view(base: str, bases: Bases) -> None:
    every = [(name, data) for name, each in FORGED.items() for data in each]
    for name, data in [(name, each[0]) for name, each in FORGED.items()] + Random(base).sample(every, 90):
        rows = appended(bases[base], name, data)
        events = [decode_event(each.run, each.version, each.name, each.state, each.version) for each in rows]
        try:
            _look(events)
        except Exception as error:
            raise AssertionError(f"{name} {data} after {base}") from error


def _look(events: Sequence[Recorded]) -> None:
    """Does what readers of one run do, those that show it whole, and those that show what follows."""
    story_of(events), render(events, verified=False)
    past = legible(fitting(events)[0])
    run_shown(past, None, ())
    for view in (
        lambda: final_draft(past),
        lambda: decide_each(past, POLICIES, ""),
        lambda: asyncio.run(find_command(past, str(getattr(events[-1].data, "path", "")), None, _no_run)),
    ):
        with suppress(RedraftError):
            view()


async def _no_run(run: str) -> Sequence[Recorded]:
    return ()


@pytest.mark.parametrize("seed", range(12))
def test_what_coordinators_record_follows(seed: int) -> None:
    runs: dict[str, list[Recorded]] = {}
    for event in history(seed).events:
        runs.setdefault(event.run, []).append(event)
    assert not [each for events in runs.values() for each in fitting(events)[0] if isinstance(each, Misfit)]
