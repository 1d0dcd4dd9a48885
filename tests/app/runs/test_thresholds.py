"""What-if for many thresholds: the mean cost of runs is in their currency."""

from __future__ import annotations

import pytest

from redraft.actors import Context, Critique, Draft, Workflow, critic, generator, score
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


@pytest.mark.parametrize(("currencies", "told"), [(("EUR",), "EUR"), (("EUR", "USD"), "")])
async def test_costs_are_in_the_currency_of_the_runs_where_they_have_one(
    currencies: tuple[str, ...], told: str
) -> None:
    found = await curve(currencies)
    assert (found.taken, found.currency) == (len(currencies), told)
    assert found.recorded is not None
    assert found.recorded.mean_cost == 0.5
