"""What docs/testing.md shows is what happens. `python tests/app/testing/test_simulate_guide.py` writes its story."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.pages import ROOT, blocks

from redraft.actors import Actor, publisher
from redraft.app.testing import Outside, SimulationFailed, simulate

GUIDE = ROOT / "docs" / "testing.md"
STORY = re.compile(r"```text\n(.*?)```", re.DOTALL)
LETTERS, TEST, MENDED, CHECK = blocks(GUIDE, "python")[:4]


class Mail:
    """The mail server of the guide, which drops what it was sent before by its key."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._keys = outside.kept.setdefault("keys", set())

    async def send(self, text: str, key: str) -> None:
        if key not in self._keys:
            self._keys.add(key)
            self._outside.did(f"mailed: {text}")


def letters() -> ModuleType:
    module = ModuleType("letters")
    exec(LETTERS, vars(module))  # noqa: S102 - the guide's own example
    return module


def found() -> str:
    """What the test of the guide fails with."""
    names: dict[str, Any] = {}
    sys.modules["letters"] = letters()
    try:
        exec(TEST, names)  # noqa: S102 - the guide's own example
        names["test_each_letter_is_mailed_once"]()
    except SimulationFailed as error:
        return str(error)
    finally:
        del sys.modules["letters"]
    raise AssertionError("the guide's publisher goes well")


def run(make: Callable[[Outside], list[Actor]], **options: Any) -> None:
    check: dict[str, Any] = {}
    exec(CHECK, check)  # noqa: S102 - the guide's own example
    simulate(letters().letter, make, check=check["all_mailed"], **options)


def test_the_story_is_the_one_that_is_told():
    (shown,) = STORY.findall(GUIDE.read_text(encoding="utf-8"))
    assert gist(shown) == gist(found()), f"write it anew: python {Path(__file__).relative_to(Path.cwd())}"


def gist(story: str) -> list[str]:
    """What is wrong and what it takes, without the seed, and numbers that change with every change of the schedule."""
    return [re.sub(r"\d+", "N", line) for line in story.splitlines()[:4]]


@pytest.mark.check
def test_the_mended_publisher_goes_well():
    names: dict[str, Any] = {"publisher": publisher}
    exec(MENDED, names)  # noqa: S102 - the guide's own example
    run(lambda outside: [names["posting"](Mail(outside))], seeds=20)


def remembering(outside: Outside) -> list[Actor]:
    mailed: set[str] = set()

    @publisher
    async def post(draft, context):
        if draft.text not in mailed:
            await Mail(outside).send(draft.text, str(len(outside.effects)))
            mailed.add(draft.text)
        return "mailed"

    return [post]


def noting(outside: Outside) -> list[Actor]:
    mailed = outside.kept.setdefault("mailed", set())

    @publisher
    async def post(draft, context):
        if draft.text not in mailed:
            mailed.add(draft.text)
            await asyncio.sleep(0.2)
            await Mail(outside).send(draft.text, draft.text)
        return "mailed"

    return [post]


def by_attempt(outside: Outside) -> list[Actor]:
    @publisher
    async def post(draft, context):
        await Mail(outside).send(draft.text, f"{context.idempotency_key}#{context.attempt}")
        if context.attempt == 1:
            raise ConnectionError("the answer of the mail server got lost")
        return "mailed"

    return [post]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (remembering, "doubled: "),
        pytest.param(noting, "check: published, and not mailed", marks=pytest.mark.check),
        (by_attempt, "doubled: "),
    ],
)
def test_what_is_said_of_the_other_mends(make: Callable[[Outside], list[Actor]], says: str):
    with pytest.raises(SimulationFailed) as failed:
        run(make)
    assert failed.value.wrong[0].startswith(says)


if __name__ == "__main__":
    told = f"```text\n{found()}\n```"
    GUIDE.write_text(STORY.sub(lambda shown: told, GUIDE.read_text(encoding="utf-8")), encoding="utf-8")
