"""A plan as it is kept with its run: what `run`, `submit`, `fork` and `refine` make of one before it begins."""

from __future__ import annotations

from redraft.actors.roles import Seat
from redraft.app.estimates import with_estimates
from redraft.app.models import Models, with_model
from redraft.events.content import Brief
from redraft.events.plan import Plan


def prepare(plan: Plan, brief: Brief, models: Models, own: frozenset[Seat] = frozenset(), model: str = "") -> Plan:
    """The plan with the model of each step that asks one and names none, its price, and what to set aside of a budget.

    That is `model`, or else that of the `models`, if there is one; so a run that goes on under other settings asks the
    model that it began with, at its price. `own` are the seats of actors that the user brought along.
    """
    named = with_model(plan, model or models.default, models.prices)
    return with_estimates(named, brief, models, own)
