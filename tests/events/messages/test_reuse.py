"""The key of a verdict is that of what its critic is given, wherever that is, and of nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from redraft.events.messages.conditions import score
from redraft.events.messages.content import Brief, DraftRef, new_draft
from redraft.events.messages.plan import Node, Parallel, Repeat, Step
from redraft.events.messages.reuse import twins_before, verdict_key

JUDGE = Step("critic", "judge", "judge", options={"level": 1, "strict": True}, version="1")
DRAFT = new_draft(1, "A text.").ref
IMPROVE = Step("refiner", "improve", "improve")


def key_of(step: Step = JUDGE, brief: Brief = Brief("b"), draft: DraftRef = DRAFT, twins: int = 0) -> str:  # noqa: B008
    return verdict_key(step, twins, brief, draft, "text/plain", (), {})


def test_names_timeouts_and_numbers_take_no_part() -> None:
    same = replace(JUDGE, name="other", timeout=9.0, reuse="always", options={"strict": True, "level": 1})
    assert key_of(same, draft=replace(DRAFT, version=7)) == key_of()


def test_all_that_a_critic_is_given_takes_part() -> None:
    steps = [replace(JUDGE, **{name: value}) for name, value in (("actor", "x"), ("version", "2"), ("options", {}))]
    steps += [replace(JUDGE, scale=(1.0, 10.0)), replace(JUDGE, measures=("words",))]
    keys = {key_of(), key_of(twins=1), key_of(brief=Brief("c")), key_of(draft=new_draft(1, "Another.").ref)}
    keys |= {key_of(step) for step in steps}
    keys |= {verdict_key(JUDGE, 0, Brief("b"), DRAFT, "text/markdown", (), {})}
    keys |= {verdict_key(JUDGE, 0, Brief("b"), DRAFT, "text/plain", (DRAFT,), {})}
    keys |= {verdict_key(JUDGE, 0, Brief("b"), DRAFT, "text/plain", (), {"audience": "children"})}
    keys |= {key_of(brief=Brief("b", state={"audience": "children"}))}
    assert len(keys) == 4 + len(steps) + 4


def named(name: str, step: Step = JUDGE) -> Step:
    return replace(step, name=name)


def test_critics_that_judge_together_are_counted() -> None:
    other = replace(JUDGE, options={})
    panel = Parallel("panel", (named("a"), named("b", other), named("c")))
    body: tuple[Node, ...] = (named("one"), panel, IMPROVE, named("two"))
    nodes: tuple[Node, ...] = (Repeat("Loop", score >= 0.5, 2, body), named("last"))
    places = ("Loop/one", "Loop/panel/a", "Loop/panel/b", "Loop/panel/c", "Loop/two", "last", "nowhere")
    assert [twins_before(nodes, place) for place in places] == [0, 1, 0, 2, 0, 0, 0]


@given(st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=6))
def test_no_two_critics_of_a_panel_have_the_same_key(actors: list[str]) -> None:
    steps = tuple(replace(JUDGE, name=f"s{number}", actor=actor) for number, actor in enumerate(actors))
    panel = Parallel("panel", steps)
    keys = {key_of(step, twins=twins_before((panel,), f"panel/{step.name}")) for step in steps}
    assert len(keys) == len(steps)
