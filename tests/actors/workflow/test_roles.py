from __future__ import annotations

import linecache
import re
from functools import partial
from hashlib import sha256
from textwrap import indent

import pytest

from redraft.actors.workflow.roles import critic, generator, publisher, refiner
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


def written(source: str):
    """The function `judge` of a file with this source."""
    names: dict[str, object] = {"critic": critic}
    name = f"<{source}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), names)  # noqa: S102 - a file of actors, written by the test
    return names["judge"]


SOURCE = "@critic\ndef judge(draft):\n    return draft\n"


def test_the_version_of_an_actor_changes_with_its_own_source_and_with_nothing_else():
    version = written(SOURCE).version
    assert re.fullmatch("[0-9a-f]{12}", version)
    assert version == sha256(SOURCE.encode()).hexdigest()[:12]
    assert written(f"\n\nX = 1\n{SOURCE}\n\nY = 2\n").version == version
    assert written(f"if True:\n{indent(SOURCE, '    ')}").version == version
    assert written(SOURCE.replace("return draft", "return draft + 1")).version != version
    assert written(SOURCE.replace("@critic", "@critic(scale=(1, 10))")).version != version


def test_a_version_can_be_said_and_is_empty_where_nothing_is_known():
    assert written(SOURCE.replace("@critic", '@critic(version="7")')).version == "7"
    names: dict[str, object] = {"critic": critic}
    exec(SOURCE, names)  # noqa: S102 - as typed into a prompt, whose source nobody keeps
    assert names["judge"].version == ""  # type: ignore[attr-defined]
    judge = written(SOURCE)
    assert critic(name="late")(partial(judge.function)).version == judge.version


@pytest.mark.parametrize("version", ["", "a b", "x" * 101, "tab\t", 7])
def test_what_is_no_version_is_refused(version):
    with pytest.raises(ActorError, match=r"@critic judge: version is .*; write 1 to 100"):
        critic(name="judge", version=version)(lambda draft: ...)


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
        "@critic judge: there is no argument 'text'; write def judge(draft, brief, context): ..."
        "  # -> Critique, a score from 0 to 1, or a bool"
    )
    assert "does not take 'draft'" in refused(refiner, nothing)
    assert "*rest cannot be filled" in refused(publisher, many)
    assert "**rest cannot be filled" in refused(publisher, keywords)
    assert "not a function" in refused(generator(name="x"), 5)


@pytest.mark.parametrize("scale", [(1, 1), (10, 1), (0, float("nan")), (0, float("inf"))])
def test_a_scale_rises(scale):
    with pytest.raises(ActorError, match="rising numbers"):
        critic(name="judge", scale=scale)(lambda draft: None)


@pytest.mark.parametrize(
    ("scale", "fault"),
    [
        ((0, 1e30), "its ends are numbers up to 10**15"),
        ((-1e300, 1), "its ends are numbers up to 10**15"),
        ((0, 10**400), "its ends are numbers up to 10**15"),
        ((1e12, 1e12 + 1), "too near each other"),
        ((0, 1e-9), "too near each other"),
    ],
)
def test_a_scale_has_points_that_can_be_told_apart(scale, fault):
    with pytest.raises(ActorError) as refused:
        critic(name="judge", scale=scale)(lambda draft: None)
    assert fault in str(refused.value)


def test_an_actor_has_a_name_that_can_be_a_queues():
    with pytest.raises(ActorError, match="is not a name for an actor"):
        generator(lambda brief: "x")
