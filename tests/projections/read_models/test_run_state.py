"""What the read models keep of steps without a role and of the state: the work, and none of the values."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.projections.logs import contents, stateful_told, view_of
from tests.streams import START, recorded

from redraft.projections.engine.storage import StorageLocation
from redraft.projections.read_models.actor_work import actors
from redraft.projections.read_models.costs import costs
from redraft.projections.read_models.runs_query import find_run
from redraft.projections.read_models.steps import next_due, steps_of

RUN = recorded("s", stateful_told())


async def test_they_are_work_with_attempts_and_usage_like_any_other(anywhere: StorageLocation) -> None:
    async with view_of(RUN, anywhere) as views:
        found = {(each.role, each.actor): (each.asked, each.done, each.invalid) for each in await actors(views)}
        assert found == {
            ("generator", "write"): (1, 1, 0),
            ("step", "books"): (2, 1, 1),
            ("step", "run_tests"): (1, 1, 0),
            ("step", "web"): (1, 1, 0),
        }
        line = await find_run(views, "s")
        assert (line.steps, line.failures, line.tokens, line.cost) == (4, 1, 7, 0.5)
        (web,) = [each for each in await costs(views, "actor") if each.name == "step web"]
        assert (web.attempts, web.tokens, web.cost) == (1, 7, 0.5)


async def test_a_step_is_done_and_falls_due_no_more(anywhere: StorageLocation) -> None:
    async with view_of(RUN[:13], anywhere) as views:
        assert {each.path: (each.status, each.draft) for each in await steps_of(views, "s")} == {
            "Search/web": ("done", None),
            "Search/books": ("done", None),
            "write": ("done", 1),
            "Tests[1]/run_tests": ("done", 1),
        }
        assert await next_due(views) == START + timedelta(hours=1), "the wall time of the run is still limited"


async def test_what_a_fork_repeats_is_its_parents_work(anywhere: StorageLocation) -> None:
    repeated = [replace(each, repeats="p.1") if 1 < each.version < 9 else each for each in RUN]
    async with view_of(repeated, anywhere) as views:
        assert [(each.role, each.actor) for each in await actors(views)] == [
            ("generator", "write"),
            ("step", "run_tests"),
        ]
        assert (await find_run(views, "s")).steps == 2


@pytest.mark.parametrize("encrypted", [False, True])
async def test_no_read_model_keeps_a_value(encrypted: bool) -> None:
    log = [replace(each, encrypted=encrypted) for each in RUN]
    async with view_of(log) as views:
        kept = await contents(views)
    assert "secret" not in str(kept)
