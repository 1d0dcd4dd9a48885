"""Why a loop went on, as the story of a real run tells it: by the draft and the score that the loop looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from redraft.actors import Critique, Workflow, critic, generator, parallel, publisher, refiner, repeat, step
from redraft.app import read_settings, refine
from redraft.app.record.auditing.audit import story_of
from redraft.events.backends import open_store


@generator
def write(brief):
    return "draft 1"


@refiner
def improve(draft):
    return f"draft {draft.version + 1}"


@refiner
def one(draft):
    return f"one of {draft.version}"


@refiner
def two(draft):
    return f"two of {draft.version}"


@critic
def strict(draft):
    return 0.4


@critic
def mild(draft):
    return 0.8


@critic
def prefers_one(draft):
    return 0.7 if draft.text.startswith("one") else 0.5


@critic
def indifferent(draft):
    return 0.5


@critic
def bars_one(draft):
    return Critique(0.7, approved=False) if draft.text.startswith("one") else Critique(0.5)


@critic
def falls(draft):
    return 0.8 if draft.text == "draft 1" else 0.6


@critic
def checks(draft):
    return Critique(0.2, errors=["it fails"])


@critic
def passing(draft):
    return False


@publisher
def save(draft):
    return "somewhere"


UNTIL = "score >= 0.9"
GATE, PASSING = step(checks, gate=True), step(passing, gate=True)
INNER = repeat("Inner", until="score >= 0.95", max_iterations=2, body=[falls, improve])


async def why(tmp_path: Path, *body: object) -> list[str]:
    """What the story of a run says at each event with which its loop went on."""
    settings = read_settings(store=f"sqlite:///{tmp_path / 'store.db'}")
    loop = repeat("Loop", until=UNTIL, max_iterations=2, body=body)
    result = await refine(Workflow("why").start_with(write).then(loop).finally_(save), "a brief", settings=settings)
    async with open_store(settings.store) as store:
        story = story_of(await store.read(result.run))
    told = [(str(entry["sentence"]), detail) for entry in story for detail in entry["details"]]  # type: ignore[attr-defined]
    return [f"{sentence}: {why}" for sentence, why in told if why.startswith("because") and not why.endswith("0.95")]


def unmet(draft: int, scored: str) -> str:
    return f"because draft {draft}, scored at {scored}, did not end it: {UNTIL}"


BEGAN = "Loop: iteration 2 began"


@pytest.mark.parametrize(
    ("critics", "scored"),
    [
        pytest.param([strict, mild], "0.40", id="row"),
        pytest.param([mild, strict], "0.40", id="row-with-the-lowest-last"),
        pytest.param([parallel("Panel", strict, mild)], "0.40", id="panel"),
        pytest.param([parallel("Panel", strict, mild, combine="mean")], "0.60", id="panel-of-a-mean"),
        pytest.param(
            [parallel("Panel", strict, mild, combine="weights", weights=(3, 1))], "0.50", id="panel-with-weights"
        ),
        pytest.param([parallel("Panel", strict, mild, combine="mean"), mild], "0.60", id="panel-in-a-row"),
    ],
)
async def test_it_is_the_joined_score_of_several_critics(tmp_path: Path, critics: list[object], scored: str) -> None:
    assert await why(tmp_path, improve, *critics) == [f"{BEGAN}: {unmet(2, scored)}"]


@pytest.mark.parametrize(
    ("judge", "draft", "scored"),
    [
        pytest.param(prefers_one, 2, "0.70", id="the-best"),
        pytest.param(indifferent, 3, "0.50", id="the-later-of-two"),
        pytest.param(bars_one, 3, "0.50", id="not-one-that-is-barred"),
    ],
)
async def test_it_is_the_draft_that_a_judge_chose(tmp_path: Path, judge: object, draft: int, scored: str) -> None:
    assert await why(tmp_path, parallel("Best", one, two, judge=judge)) == [f"{BEGAN}: {unmet(draft, scored)}"]


async def test_what_a_judge_chose_is_not_what_the_critics_of_the_loop_judged(tmp_path: Path) -> None:
    told = await why(tmp_path, strict, parallel("Best", one, two, judge=prefers_one))
    asked = "refiner one was asked to improve draft {0}, which was scored at 0.40: {1}"
    assert told == [asked.format(number, unmet(number, "0.40")) for number in (1, 2)]


async def test_it_is_the_draft_that_left_an_inner_loop(tmp_path: Path) -> None:
    assert await why(tmp_path, INNER) == [f"{BEGAN}: {unmet(1, '0.80')}"]


async def test_it_says_that_a_gate_did_not_pass_the_draft(tmp_path: Path) -> None:
    reason = "because draft 1, scored at 0.20, did not end it: the gate checks did not pass it"
    first, second = await why(tmp_path, GATE, mild, improve)
    assert first == f"refiner improve was asked to improve draft 1, which was scored at 0.20: {reason}"
    assert second.endswith(reason.replace("draft 1", "draft 2"))


async def test_it_says_so_of_a_gate_without_a_score(tmp_path: Path) -> None:
    told = await why(tmp_path, improve, PASSING)
    assert told == [f"{BEGAN}: because draft 2 did not end it: the gate passing did not pass it"]


async def test_it_says_so_of_several_gates(tmp_path: Path) -> None:
    told = await why(tmp_path, improve, GATE, PASSING)
    assert told == [
        f"{BEGAN}: because draft 2, scored at 0.20, did not end it: the gates checks and passing did not pass it"
    ]


async def test_a_draft_that_the_loop_has_not_looked_at_is_no_reason(tmp_path: Path) -> None:
    settings = read_settings(store=f"sqlite:///{tmp_path / 'store.db'}")
    loop = repeat("Loop", until=UNTIL, max_iterations=1, body=[improve, strict])
    result = await refine(Workflow("why").start_with(write, mild).then(loop), "a brief", settings=settings)
    async with open_store(settings.store) as store:
        story = story_of(await store.read(result.run))
    assert not [entry for entry in story if "because draft" in str(entry["details"])]
