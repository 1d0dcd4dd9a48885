"""`simulate` refuses what would test nothing, before it begins, in words of its own."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.app.testing.test_simulate import LETTER, judge, post

from redraft.actors import Actor, publisher
from redraft.app.testing import CALM, Odds, Outside, simulate
from redraft.events.errors import ActorError, RedraftError
from redraft.events.messages.envelope import Recorded


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"seeds": 0}, "give at least one seed and one brief"),
        ({"seeds": []}, "give at least one seed and one brief"),
        ({"briefs": []}, "give at least one seed and one brief"),
        ({"seeds": "3"}, "seeds: give how many, such as 200, or a list of them, not '3'"),
        ({"seeds": True}, "seeds: give how many, such as 200, or a list of them, not True"),
        ({"seeds": None}, "seeds: give how many, such as 200, or a list of them, not None"),
        ({"seeds": [3.5]}, "seeds: 3.5 is none; give whole numbers from 0 on"),
        ({"seeds": [-1]}, "seeds: -1 is none; give whole numbers from 0 on"),
        ({"briefs": "Moons"}, "briefs: give a list of texts, such as ['Moons']"),
        ({"briefs": ["Moons", " "]}, "brief 2"),
        ({"briefs": [1]}, "text"),
        ({"odds": 0.5}, "odds: give Odds, such as Odds(letter_lost=0.1), or CALM, not 0.5"),
        ({"odds": Odds(letter_lost=2.0)}, "odds: letter_lost is 2.0; give a number from 0 to 1"),
        ({"odds": Odds(crashes=-3.0)}, "odds: crashes is -3.0; give a number from 0 to 100"),
        ({"odds": Odds(pauses="x")}, "odds: pauses is 'x'; give a number from 0 to 100"),  # type: ignore[arg-type]
        ({"actors": post}, "put actors into a list"),
        ({"actors": [judge, 5]}, "5 is no actor; decorate a function with @generator"),
        ({"actors": lambda outside: None}, "None is no list of actors; put actors into a list"),
        (
            {"actors": [publisher(name="psot")(lambda draft: "x")]},
            "asks for the publisher 'psot'; did you mean 'post'? Otherwise take it out",
        ),
    ],
)
def test_what_would_test_nothing_is_refused_before_it_begins(wrong: dict[str, Any], told: str):
    with pytest.raises((ValueError, TypeError, RedraftError), match=re.escape(told)):
        simulate(LETTER, **wrong)


def test_histories_in_which_no_actor_is_called_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.modules["redraft.app.testing.history"], "LONGEST", 3_600.0)  # the name is a function's too
    with pytest.raises(ValueError, match="nothing was tested"):
        simulate(LETTER, odds=msgspec.structs.replace(CALM, letter_lost=1.0), seeds=1)


def test_async_functions_that_nobody_awaits_are_refused():
    async def make(outside: Outside) -> list[Actor]:
        return []

    async def check(outside: Outside, events: Sequence[Recorded]) -> None:
        raise AssertionError("never looked at")

    with pytest.raises(ActorError, match="the function that makes actors is async; define it with def alone"):
        simulate(LETTER, make, seeds=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="check is an async function, whose result nobody awaits"):
        simulate(LETTER, check=check, seeds=1)
