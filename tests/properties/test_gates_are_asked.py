"""What is published has passed the gates of its loop, by the record alone, whoever chose it and whatever was said.

Bodies have one row of critics, beside judges that choose the best of several drafts; answers and people are random.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.golden.decide import RUN, Driven
from tests.properties.test_deciding_properties import step
from tests.streams import recorded

from redraft.events.messages.conditions import errors, plateau, score
from redraft.events.messages.domain_events import DomainEvent, DraftApproved, DraftCritiqued, DraftPublished
from redraft.events.messages.plan import RULES, Budget, Node, Parallel, Plan, Repeat
from redraft.projections.record_check.check import check_events

WRITE, SAVE = step("generator", "write"), step("publisher", "save")
GATE, STRICT = replace(step("critic", "gate"), gate=True), step("critic", "strict")
UNTILS = (score >= 0.9, (score >= 0.8) | plateau(0.01, over=2), (score >= 0.7) & (errors == 0))


def best_of_two(name: str) -> Parallel:
    return Parallel(name, (step("refiner", "one"), step("refiner", "two")), judge=step("critic", "rate"))


def random_plan(random: Random) -> Plan:
    others: list[Node] = [best_of_two("First")]
    others += [node for node in (best_of_two("Second"), step("refiner", "improve")) if random.random() < 0.4]
    random.shuffle(others)
    place = random.randint(0, len(others))
    row = (GATE, STRICT) if random.random() < 0.5 else (GATE,)
    body = (*others[:place], *row, *others[place:])
    loop = Repeat("Loop", random.choice(UNTILS), 3, body, keep=random.choice(("best", "last")))
    budget = Budget(calls=random.randint(4, 14)) if random.random() < 0.4 else None
    return Plan("p", (WRITE, loop, SAVE), random.choice(("fail", "publish_best")), budget=budget)


def unseen(events: Sequence[DomainEvent]) -> list[str]:
    """The texts that were published and that neither people approved nor the gate let pass when it was last asked."""
    seen: dict[str, bool] = {}
    for event in events:
        match event:
            case DraftCritiqued(path=path, draft=draft, critique=said) if path.endswith("/gate"):
                seen[draft.sha256] = said.approved is True or (said.approved is None and not said.errors)
            case DraftApproved(draft=draft):
                seen[draft.sha256] = True
            case _:
                pass
    return [
        each.draft.sha256 for each in events if isinstance(each, DraftPublished) and not seen.get(each.draft.sha256)
    ]


@given(st.integers(0, 10**9))
def test_what_is_published_was_let_pass_by_the_gate_of_its_loop(seed: int) -> None:
    events = Driven(random_plan(Random(seed)), seed, RULES).events
    assert unseen(events) == []
    assert check_events(recorded(RUN, [("somebody", each) for each in events])) == ()
