"""Which arm a step is given to: Thompson sampling over what runs said of each arm before.

Each arm has a success rate that nobody knows. What is believed of it after s successes and f failures is the
distribution Beta(s + 1, f + 1); a rate is drawn from each arm's, and the highest is chosen. So an arm is chosen as
often as it is believed to be the best: much where much speaks for it, and now and then where little is known.
Sources: W. R. Thompson, "On the likelihood that one unknown probability exceeds another in view of the evidence of two
samples", Biometrika 25 (1933); O. Chapelle and L. Li, "An Empirical Evaluation of Thompson Sampling", NIPS 2011.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeAlias

from redraft.events.commands import request_id
from redraft.events.content import DraftRef
from redraft.events.domain_events import Choice, Tally

Tallies: TypeAlias = Mapping[str, Sequence[Tally]]
"""What is known of the arms of one workflow, by the path in the plan of the step that chooses."""


def thompson(
    run: str, tallies: Tallies, path: str, step: str, arms: Sequence[str], draft: DraftRef | None = None
) -> Choice:
    """The arm for a request, whatever its draft.

    Its id is the seed, so the same tallies give the same arm, whoever decides, however often.
    The choice tells all that it was made by. Arms that nothing is known of have 0 of both.
    """
    known = {each.arm: each for each in tallies.get(step, ())}
    told = tuple(known.get(arm) or Tally(arm) for arm in arms)
    random = Random(request_id(run, path, 1))  # noqa: S311 - nothing is to be kept secret
    rates = [random.betavariate(1 + each.successes, 1 + each.failures) for each in told]
    return Choice(told[rates.index(max(rates))].arm, told)


class Undecided:
    """Stands in where nothing has been looked up yet: takes the first arm, and remembers that it was asked.

    Deciding is pure, so it can be done over again with what is known. Runs that choose nothing thus pay nothing.
    """

    def __init__(self) -> None:
        self.was_asked = False

    def __call__(self, path: str, step: str, arms: Sequence[str], draft: DraftRef | None = None, /) -> Choice:
        self.was_asked = True
        return Choice(arms[0])
