"""Critics that cost more run late: asked only about drafts for which their condition holds on what was said before."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from redraft.actors import (
    Context,
    Critique,
    Draft,
    Workflow,
    critic,
    generator,
    parallel,
    publisher,
    read_plan,
    refiner,
    step,
)
from redraft.actors.formats.yaml_writer import print_plan
from redraft.app import Settings, read_settings, refine
from redraft.app.cli.views.changes import score_lines
from redraft.events.backends import open_store
from redraft.events.errors import PlanError
from redraft.events.messages.domain_events import CriticSkipped, DraftCritiqued, DraftPublished, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.projections.record_check.check import check_events
from redraft.projections.run_views.chart import scores_by_part
from redraft.projections.run_views.scores_between import scores_between


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings(store=f"sqlite:///{tmp_path / 'log.db'}")


@generator
async def write(brief) -> str:
    return "x"


@critic
async def cheap(draft: Draft) -> Critique:
    return Critique(draft.version / 5)


@refiner
async def improve(draft: Draft) -> str:
    return draft.text + "x"


@publisher
async def save(draft: Draft) -> str:
    return "here"


def costly(score: float = 1.0, **more: float):
    @critic(name="judge", criteria=dict.fromkeys(more, "it is right"))
    async def judge(draft: Draft) -> Critique:
        return Critique(score, criteria=dict(more))

    return judge


def flow(*critics, until="score >= 0.9", most: int = 5, improver=improve) -> Workflow:
    made = Workflow("late").start_with(write)
    return made.repeat_until(until, max_iterations=most, name="Loop", body=[*critics, improver]).finally_(save)


async def recorded(settings: Settings, workflow: Workflow) -> tuple[str, list[Recorded]]:
    result = await refine(workflow, "tides", settings=settings)
    async with open_store(settings.store) as store:
        return result.outcome, list(await store.read(result.run))


def asked_of(events: list[Recorded], name: str) -> list[int]:
    requests = [each.data for each in events if isinstance(each.data, StepRequested)]
    return [each.draft.version for each in requests if each.draft and each.path.endswith(f"/{name}")]


def skipped(events: list[Recorded]) -> list[tuple[str, int, str]]:
    left = [each.data for each in events if isinstance(each.data, CriticSkipped)]
    return [(each.path, each.draft.version, each.reason) for each in left]


async def test_a_critic_is_asked_once_its_condition_holds(settings: Settings):
    outcome, events = await recorded(settings, flow(cheap, step(costly(), when="score >= 0.7")))
    assert outcome == "accepted"
    assert asked_of(events, "cheap") == [1, 2, 3, 4, 5]
    assert asked_of(events, "judge") == [4, 5]
    assert skipped(events) == [
        (f"Loop[{number}]/judge", number, f"not score {number / 5:.2f} >= 0.7") for number in (1, 2, 3)
    ]
    assert check_events(events) == ()


async def test_it_is_told_when_what_a_critic_waits_for_is_not_known(settings: Settings):
    @critic(measures=("words?",))
    async def counting(draft: Draft) -> Critique:
        return Critique(draft.version / 5, measures={"words": 9} if draft.version > 2 else {})

    judge = step(costly(), when="score >= 0.1 and not words < 3")
    _, events = await recorded(settings, flow(counting, judge))
    assert skipped(events) == [(f"Loop[{number}]/judge", number, "words is not known") for number in (1, 2)]
    assert check_events(events) == ()


async def test_what_nobody_has_said_accepts_no_draft(settings: Settings):
    """The condition names a criterion of the critic that was not asked: neither it nor its negation holds."""
    judge = step(costly(0.9, truth=0.9), when="score >= 0.7")
    for until in ("score >= 0.2 and truth >= 0.8", "score >= 0.2 and not truth < 0.8", "not judge.truth < 0.8"):
        outcome, events = await recorded(settings, flow(cheap, judge, until=until))
        assert (outcome, asked_of(events, "judge")) == ("accepted", [4]), until
        assert check_events(events) == ()


async def test_a_critic_that_was_left_out_takes_no_part(settings: Settings):
    outcome, events = await recorded(
        settings, flow(cheap, step(costly(0.1), when="score >= 0.9"), until="score >= 0.5")
    )
    assert (outcome, asked_of(events, "judge")) == ("accepted", [])
    published = next(each.data for each in events if isinstance(each.data, DraftPublished))
    assert published.draft.version == 3


async def test_in_a_panel_it_is_asked_after_the_others(settings: Settings):
    @critic
    async def second(draft: Draft) -> Critique:
        return Critique(min(1, draft.version / 3))

    panel = parallel("Panel", cheap, second, step(costly(), when="score >= 0.7"), combine="mean")
    outcome, events = await recorded(settings, flow(panel))
    assert (outcome, asked_of(events, "judge")) == ("accepted", [3, 4])
    assert [path for path, _, _ in skipped(events)] == ["Loop[1]/Panel/judge", "Loop[2]/Panel/judge"]
    assert check_events(events) == ()


async def test_the_last_draft_is_judged_by_those_that_may(settings: Settings):
    late = step(costly(), when="score >= 0.5")
    outcome, events = await recorded(settings, flow(cheap, late, most=2))
    assert outcome == "exhausted"
    assert [path for path, _, _ in skipped(events)] == ["Loop[1]/judge", "Loop[2]/judge"]
    assert asked_of(events, "judge") == [3]
    assert check_events(events) == ()


async def test_an_untrue_record_is_found(settings: Settings):
    _, events = await recorded(settings, flow(cheap, step(costly(), when="score >= 0.7")))
    lower = [
        replace(each, data=replace(each.data, critique=Critique(0.6, critic="cheap")))
        if isinstance(each.data, DraftCritiqued) and each.data.path == "Loop[4]/cheap"
        else each
        for each in events
    ]
    assert "the condition of Loop[4]/judge does not hold, and it was asked" in str(check_events(lower))
    higher = [
        replace(each, data=replace(each.data, critique=Critique(0.8, critic="cheap")))
        if isinstance(each.data, DraftCritiqued) and each.data.path == "Loop[1]/cheap"
        else each
        for each in events
    ]
    assert "the condition of Loop[1]/judge holds, and it was not asked" in str(check_events(higher))


def test_it_is_read_from_yaml_and_written_back():
    plan = flow(cheap, step(costly(), when="score >= 0.7")).plan
    text = print_plan(plan)
    assert "when: score >= 0.7" in text
    assert read_plan(text) == plan


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (lambda: flow(step(costly(), when="score >= 0.7"), cheap), "Loop/judge: when: nothing is said of the draft"),
        (lambda: flow(cheap, step(costly(), gate=True, when="score > 0.7")), "when is for critics, and this is a gate"),
        (lambda: flow(cheap, improver=step(improve, when="score > 0.7")), "when is for critics, and this is a refiner"),
        (lambda: flow(cheap, step(costly(), when="tokens > 7")), "when: tokens > 7 is no word about one draft"),
        (lambda: flow(cheap, step(costly(), when="tone > 0.7")), "when: tone is no criterion or measure"),
        (lambda: flow(parallel("P", step(costly(), when="score > 0"), cheap)), "P/judge: when: it is asked after"),
        (lambda: flow(parallel("P", cheap, step(costly(), when="score > 0"), wait=1)), "wait is 1, but a critic with"),
    ],
)
def test_what_cannot_be_is_refused(made, fault: str):
    with pytest.raises(PlanError) as refused:
        _ = made().plan
    assert fault in str(refused.value)


async def test_a_diff_says_about_which_draft_a_critic_was_not_asked(settings: Settings):
    _, events = await recorded(settings, flow(cheap, step(costly(truth=0.4), when="score >= 0.7")))
    told = [list(score_lines(scores_between(events, *pair))) for pair in ((1, 4), (4, 1), (4, 5), (1, 2))]
    assert [lines[1:] for lines in told] == [
        ["judge: score not asked → 1.00, truth not asked → 0.40"],
        ["judge: score 1.00 → not asked, truth 0.40 → not asked"],
        ["judge: score 1.00, truth 0.40"],
        [],
    ]


async def test_a_diff_tells_steps_of_one_actor_apart(settings: Settings):
    @critic(criteria={"truth": "it is right"})
    async def judge(draft: Draft, context: Context) -> dict[str, object]:
        return {"score": 0.1, "truth": context.options["truth"]}

    first, second = (step(judge, name=name, options={"truth": t}) for name, t in (("kind", 0.8), ("strict", 0.2)))
    _, events = await recorded(settings, flow(first, second, until="kind.truth >= 0.9", most=1))
    assert list(score_lines(scores_between(events, 1, 2))) == [
        "kind: score 0.10, truth 0.80",
        "strict: score 0.10, truth 0.20",
    ]
    assert list(scores_by_part(events)) == ["kind: truth", "strict: truth"]
