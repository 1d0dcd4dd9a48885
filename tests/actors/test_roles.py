from __future__ import annotations

import pytest

from redraft.actors.roles import critic, generator, publisher, refiner
from redraft.events.errors import ActorError


def test_a_function_takes_what_it_names():
    @refiner
    async def improve(draft, critique, history): ...

    @critic(name="strict", scale=(1, 10))
    def judge(draft, weight=2): ...

    assert (improve.name, improve.role, improve.takes, improve.is_async) == (
        "improve",
        "refiner",
        ("draft", "critique", "history"),
        True,
    )
    assert (judge.name, judge.takes, judge.is_async, judge.scale) == ("strict", ("draft",), False, (1, 10))


def test_a_callable_object_may_be_an_actor():
    class Writer:
        async def __call__(self, brief): ...

    assert generator(name="writer")(Writer()).is_async


def test_an_actor_can_still_be_called():
    @generator
    def write(brief):
        return f"{brief}!"

    assert write("x") == "x!"


def refused(decorator, function) -> str:
    with pytest.raises(ActorError) as raised:
        decorator(function)
    return str(raised.value)


def test_wrong_signatures_are_refused_with_the_right_one():
    def judge(text): ...

    def nothing(): ...

    def many(draft, *rest): ...

    def keywords(draft, **rest): ...

    assert refused(critic, judge) == (
        "@critic judge: there is no argument 'text'; write def judge(draft, brief, context): ...  # -> Critique"
    )
    assert "does not take 'draft'" in refused(refiner, nothing)
    assert "*rest cannot be filled" in refused(publisher, many)
    assert "**rest cannot be filled" in refused(publisher, keywords)
    assert "not a function" in refused(generator(name="x"), 5)


@pytest.mark.parametrize("scale", [(1, 1), (10, 1), (0, float("nan")), (0, float("inf"))])
def test_a_scale_rises(scale):
    with pytest.raises(ActorError, match="rising numbers"):
        critic(name="judge", scale=scale)(lambda draft: None)


def test_an_actor_has_a_name_that_can_be_a_queues():
    with pytest.raises(ActorError, match="no name for an actor"):
        generator(lambda brief: "x")
