"""What-if for many thresholds: the mean cost of runs is in their currency."""

from __future__ import annotations

import pytest

from redraft.actors import Context, Critique, Draft, Workflow, critic, generator, refiner, score, state, step
from redraft.app import open_local, read_settings
from redraft.app.runs.thresholds import Curve, Thresholds
from redraft.events.messages.usage import Usage
from redraft.projections.read_models.runs_query import RunFilter


@generator
def write() -> str:
    return "a text"


async def curve(currencies: tuple[str, ...]) -> Curve:
    """Returns the curve over one run in each of these currencies."""
    paid = iter(currencies)

    @critic
    def judge(draft: Draft, context: Context) -> Critique:
        context.used(Usage(tokens=3, cost=0.5, currency=next(paid), calls=1))
        return Critique(0.9)

    loop = Workflow("loop").start_with(write)
    loop = loop.repeat_until(score >= 0.9, max_iterations=2, name="Loop", body=[judge])
    async with open_local(read_settings(store="memory:"), loop.actors.values()) as log:
        for _ in currencies:
            await log.client.wait(await log.client.submit(loop.plan, "Tides"))
        await log.views.wait_for(await log.store.head())
        return await Thresholds().curve(log, RunFilter("ended", "loop"), "", 60)


async def test_what_a_loop_asks_of_the_state_holds_beside_each_threshold() -> None:
    @step(writes=["passed"])
    def run_tests(draft: Draft) -> dict[str, bool]:
        return {"passed": draft.version >= 3}

    @critic
    def judge(draft: Draft) -> float:
        return 0.3 * draft.version

    @refiner
    def improve(draft: Draft) -> str:
        return draft.text + "!"

    loop = Workflow("loop").start_with(write)
    until = (state.passed | (state.tries > 9)) & (score >= 0.5)
    loop = loop.repeat_until(until, max_iterations=5, name="Loop", body=[run_tests, judge, improve])
    async with open_local(read_settings(store="memory:"), loop.actors.values()) as log:
        await log.client.wait(await log.client.submit(loop.plan, "Tides"))
        await log.views.wait_for(await log.store.head())
        found = await Thresholds().curve(log, RunFilter("ended", "loop"), "", 60)
    first, last = found.points[0], found.points[-1]
    assert first.until == "score >= 0.5 and (state.passed or state.tries > 9)"
    assert found.recorded is not None
    assert (found.recorded.mean_iterations, first.row.mean_iterations) == (3, 3), "the tests of draft 2 did not pass"
    assert last.row.ended_early == 1, "a score of 1 was never reached"


@pytest.mark.parametrize(("currencies", "told"), [(("EUR",), "EUR"), (("EUR", "USD"), "")])
async def test_costs_are_in_the_currency_of_the_runs_where_they_have_one(
    currencies: tuple[str, ...], told: str
) -> None:
    found = await curve(currencies)
    assert (found.taken, found.currency) == (len(currencies), told)
    assert found.recorded is not None
    assert found.recorded.mean_cost == 0.5
