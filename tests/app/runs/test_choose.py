"""Steps that choose, as a user has them: on the command line, and on RabbitMQ with PostgreSQL."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from operator import attrgetter
from pathlib import Path

import pytest
from model_server import ModelServer
from tests.app.cli_calls import call, one_line
from tests.app.deployments import Deployment
from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq
from tests.projections.logs import chosen_told, fill
from tests.streams import recorded

from redraft.actors.runtime.coordinating.decisions import Tallies
from redraft.app.wiring import coordinator_views
from redraft.app.wiring.coordinator_views import ArmTallies
from redraft.events.backends import open_store
from redraft.events.bus.port import INBOX, work_queue
from redraft.events.errors import ReadModelCorrupt, StoreError
from redraft.events.messages.domain_events import (
    ChoicesCredited,
    DraftCritiqued,
    DraftGenerated,
    RunEnded,
    StepFailed,
    StepRequested,
    Tally,
)
from redraft.events.messages.envelope import Recorded
from redraft.projections.backends import ReadModels
from redraft.projections.engine.projection import Projection
from redraft.projections.engine.views import Views

ACTORS = """
from redraft.actors import Critique, critic, generator, publisher, refiner

@generator
def write(brief):
    return brief.text

@critic
def length(draft):
    return Critique(min(1, len(draft.text.split()) / 4))

@critic
def helpful(draft, context):
    return Critique(min(1, len(draft.text.split()) / 4), suggestions=(context.options.get("say", "more"),))

@critic
def silent(draft):
    return Critique(0.1)

@refiner
def improve(draft, critique):
    return " ".join((draft.text, *critique.suggestions))

@publisher
def save(draft):
    return "nowhere"
"""
PLAN = """
name: essay
steps:
  - generate: {actor: write}
  - repeat:
      until: score >= 1
      max_iterations: 1
      body:
        - critique: {actor: length}
        - critique:
            choose: [silent, {actor: helpful, name: plain, with: {say: more words}}, helpful]
            name: judge
        - refine: {actor: improve}
  - publish: {actor: save}
"""
ACTOR_KEYS = (
    ("generator", "write"),
    ("critic", "length"),
    ("critic", "helpful"),
    ("critic", "silent"),
    ("refiner", "improve"),
    ("publisher", "save"),
)
RUN = ("run", "two words", "--workflow", "plan.yaml", "--actors", "actors.py", "--quiet")


def written(folder: Path) -> None:
    (folder / "actors.py").write_text(ACTORS)
    (folder / "plan.yaml").write_text(PLAN)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    written(tmp_path)
    return tmp_path


def counted(events: Sequence[Recorded]) -> dict[str, tuple[int, int]]:
    """Successes and failures of each arm, by a fold of the log."""
    given = (each for event in events if isinstance(event.data, ChoicesCredited) for each in event.data.credits)
    told = Counter((each.arm, each.success) for each in given)
    return {arm: (told[arm, True], told[arm, False]) for arm in {arm for arm, _ in told}}


def shown(rows: Sequence[dict[str, object]]) -> dict[object, tuple[object, object]]:
    return {each["arm"]: (each["successes"], each["failures"]) for each in rows}


async def log(store: str) -> list[Recorded]:
    async with open_store(store) as opened:
        return [event async for batch in opened.tail(0, follow=False) for event in batch]


def choices(events: Sequence[Recorded]) -> list[StepRequested]:
    return [each.data for each in events if isinstance(each.data, StepRequested) and each.data.choice]


# On one machine


def test_runs_choose_by_what_the_runs_before_them_said(here: Path) -> None:
    codes = [call(*RUN, "--key", f"key-{number}").code for number in range(12)]
    events = asyncio.run(log("sqlite:///store.db"))
    assert shown(json.loads(call("stats", "choices", "--json").out)) == counted(events)
    assert {0, 3} == set(codes), "some runs were accepted, some were not"
    known: dict[str, Tally] = {}
    for event in events:
        if isinstance(event.data, StepRequested) and (choice := event.data.choice):
            assert choice.known == tuple(known.get(arm, Tally(arm)) for arm in ("silent", "plain", "helpful"))
            assert event.data.actor == ("helpful" if choice.arm == "plain" else choice.arm)
        if isinstance(event.data, RunEnded):  # what a run was credited with counts from the next run on
            so_far = counted([each for each in events if each.position < event.position])
            known = {arm: Tally(arm, *numbers) for arm, numbers in so_far.items()}
    assert known["silent"].failures


def test_what_was_learnt_rebuilds_from_the_log_and_is_shown(here: Path) -> None:
    for number in range(4):
        call(*RUN, "--key", f"key-{number}")
    before = json.loads(call("stats", "choices", "--json").out)
    done = json.loads(call("rebuild", "choices", "--json").out)
    assert (done["projections"], done["same"]) == (["choices"], True)
    assert json.loads(call("stats", "choices", "--json").out) == before
    one = json.loads(call("stats", "choices", "last", "--json").out)
    events = asyncio.run(log("sqlite:///store.db"))
    assert shown(one) == counted([event for event in events if event.run == events[-1].run])
    assert json.loads(call("stats", "choices", "--since", "2999-01-01", "--json").out) == []
    head, *rows = call("stats", "choices").out.splitlines()
    assert head.split() == ["workflow", "step", "arm", "runs", "accepted", "not", "accepted", "expected"]
    assert len(rows) == len(before)
    (here / "store.views.db").unlink()
    assert json.loads(call("stats", "choices", "--json").out) == before, "they are made anew from the log"


def test_show_and_audit_say_who_was_chosen_over_whom(here: Path) -> None:
    call(*RUN, "--key", "key-0")
    first = choices(asyncio.run(log("sqlite:///store.db")))[0]
    assert first.choice
    by = f"{first.choice.arm}, by helpful" if first.choice.arm == "plain" else first.choice.arm
    assert f"judge ({by})  score" in call("show", "last").out
    told = call("audit", "last").out
    others = [arm for arm in ("silent", "plain", "helpful") if arm != first.choice.arm]
    assert f"critic {first.choice.arm} was asked to judge draft 1, chosen over {', '.join(others)}" in told
    assert f"chosen by how runs ended: {first.choice.arm} (not known yet) over" in told
    command = call("show", "last", "--step", first.path).out
    assert ("more words" in command) == (first.choice.arm == "plain")


def test_a_fork_and_what_if_keep_what_was_chosen(here: Path) -> None:
    call(*RUN, "--key", "key-0")
    parent = asyncio.run(log("sqlite:///store.db"))
    chosen = choices(parent)[0]
    version = next(event.version for event in parent if event.data == chosen)
    fork = call("fork", "last", "--at", str(version), "--actors", "actors.py", "--quiet")
    assert fork.code in (0, 3), fork.err
    repeated, own = choices(asyncio.run(log("sqlite:///store.db"))[len(parent) :])[:2]
    assert repeated == chosen
    assert (own.path, own.actor, own.choice) == (chosen.path, chosen.actor, chosen.choice)
    found = json.loads(call("whatif", parent[0].run, "--until", "score >= 0.99", "--json").out)
    assert found["parting"] is None
    assert found["imagined"]["steps"] == found["recorded"]["steps"] > 3


def test_a_fork_cannot_set_what_the_arms_differ_in(here: Path) -> None:
    call(*RUN, "--key", "key-0")
    said = call("fork", "last", "--at", "3", "--set", "judge.actor=silent")
    assert (said.code, "judge chooses among silent, plain, helpful, each with its own" in one_line(said)) == (2, True)
    said = call("fork", "last", "--at", "3", "--set", "judge.say=less")
    assert (said.code, "judge chooses among plain, each with its own" in one_line(said)) == (2, True)


def test_an_arm_that_nobody_provides_is_refused_before_anything_runs(here: Path) -> None:
    (here / "plan.yaml").write_text(PLAN.replace("silent,", "silnt,"))
    said = call(*RUN)
    assert said.code == 2
    assert "Refinement/judge: there is no critic 'silnt'; did you mean 'silent'?" in one_line(said)
    (here / "plan.yaml").write_text(PLAN.replace("silent,", "improve,"))
    assert "Refinement/judge: improve is a refiner, and the plan wants a critic" in one_line(call(*RUN))


# Models


def test_models_can_be_the_arms_and_each_has_its_own_settings(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arms = "[{actor: llm, name: small, with: {model: 'openai:gpt-4o-mini'}}, {actor: llm, name: usual}]"
    steps = f"- generate: {{choose: {arms}, with: {{max_tokens: 99}}}}\n- critique: {{actor: length}}\n"
    (here / "models.yaml").write_text(f"name: models\nsteps:\n{steps}")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789abcdef")
    with ModelServer([{"for": "You write", "text": "The Moon pulls the sea.", "always": True}]) as server:
        monkeypatch.setenv("REDRAFT_MODEL_URL", server.url)
        asking = ("--workflow", "models.yaml", "--actors", "actors.py", "--model", "openai:gpt-4o", "--quiet")
        for number in range(6):
            said = call("run", "Why tides exist", *asking, "--key", f"key-{number}", "--budget", "tokens=90000")
            assert said.code == 0, said.err
    events = asyncio.run(log("sqlite:///store.db"))
    wanted = {"small": "openai:gpt-4o-mini", "usual": "openai:gpt-4o"}
    asked = choices(events)
    assert {each.choice.arm for each in asked if each.choice} == set(wanted)
    for request in asked:
        run = next(event.run for event in events if event.data is request)
        (made,) = [e.data for e in events if e.run == run and isinstance(e.data, DraftGenerated)]
        assert request.choice
        assert made.usage.model == wanted[request.choice.arm]
        assert request.reserved.tokens > 99


# How fresh it is, and what it costs


async def test_tallies_are_read_only_when_they_are_wanted_and_not_again_while_they_are_fresh(tmp_path: Path) -> None:
    async with (
        open_store(f"sqlite:///{tmp_path / 'log.db'}") as store,
        ReadModels(tmp_path / "views.db", store) as models,
    ):
        known = ArmTallies(models, fresh=3600, share=1e9)
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(known.run())
            assert not (tmp_path / "views.db").exists()
            assert await known("chosen") == {}
            assert (tmp_path / "views.db").exists()
            await fill(store, recorded("one", chosen_told(1)))
            assert await known("chosen") == {}, "it is as fresh as was asked for"
            reading.cancel()
        always = ArmTallies(models, fresh=0)
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(always.run())
            assert await always("chosen") == {"write": [Tally("slow", 1, 0)]}
            assert await always("another") == {}
            reading.cancel()


async def test_a_choice_does_not_wait_for_tallies_for_ever(tmp_path: Path) -> None:
    async with open_store("memory:") as store, ReadModels(None, store) as models:
        assert await ArmTallies(models, patience=0.01)("essay") == {}, "nobody reads"


async def test_a_choice_does_not_wait_for_a_reading_that_failed(tmp_path: Path) -> None:
    async with open_store("memory:") as store:
        models = ReadModels(tmp_path, store)  # a folder is no file of read models
        known = ArmTallies(models, patience=60)
        reading = asyncio.create_task(known.run())
        async with asyncio.timeout(30):
            assert await known("essay") == {}
        with pytest.raises(StoreError):
            await reading


class Unreadable(ReadModels):
    """Read models that cannot be read while `broken`; `tried` says how often that was found."""

    broken = True
    tried = 0

    async def of(self, projection: Projection) -> Views:
        if self.broken:
            self.tried += 1
            raise ReadModelCorrupt("damaged")
        return await super().of(projection)


async def test_choices_wait_once_at_most_for_tallies_that_cannot_be_read_and_take_the_last_ones() -> None:
    """The part that reads rests after each failure, as `retry_forever` has it rest: meanwhile nobody would answer."""
    async with open_store("memory:") as store, Unreadable(None, store) as models, asyncio.timeout(60):
        known = ArmTallies(models, fresh=0, patience=3600)
        reading = asyncio.create_task(known.run())
        assert await known("chosen") == {}
        await asyncio.wait([reading])
        assert await known("chosen") == {}, "nobody reads, and it does not wait"
        models.broken = False
        await fill(store, recorded("one", chosen_told(1)))
        reading = asyncio.create_task(known.run())
        while not await known("chosen"):
            assert not reading.done()
            await asyncio.sleep(0)
        models.broken = True
        while not reading.done():
            assert await known("chosen") == {"write": [Tally("slow", 1, 0)]}
            await asyncio.sleep(0)
        assert await known("chosen") == {"write": [Tally("slow", 1, 0)]}
        assert models.tried == 2


async def test_a_choice_asks_nothing_of_tables_that_could_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each choice, and with it all deciding, would wait as long as a lock on them lasts."""
    asked = 0

    async def locked(views: Views) -> Mapping[str, Tallies]:
        nonlocal asked
        asked += 1
        raise StoreError("locked")

    monkeypatch.setattr(coordinator_views, "tallies", locked)
    async with open_store("memory:") as store, Unreadable(None, store) as models, asyncio.timeout(60):
        models.broken = False
        known = ArmTallies(models, fresh=0, patience=3600)
        reading = asyncio.create_task(known.run())
        assert await known("chosen") == {}
        assert asked == 1
        models.broken = True
        while not reading.done():
            await known("chosen")
            await asyncio.sleep(0)
        before = asked
        for _ in range(5):
            assert await known("chosen") == {}
        assert asked == before


# On many machines


@contextmanager
def deployed(folder: Path, store: str) -> Iterator[Deployment]:
    require_rabbitmq()
    made = Deployment(folder, new_prefix(), store, "quorum")
    written(folder)
    try:
        yield made
    finally:
        made.stop()
        asyncio.run(clear(URL, made.prefix, (INBOX, *(work_queue(*key) for key in ACTOR_KEYS))))


@pytest.mark.check
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_deployment_chooses_too(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    store = request.getfixturevalue("postgres_url") if kind == "postgresql" else f"sqlite:///{tmp_path / 'store.db'}"
    with deployed(tmp_path, store) as there:
        there.start("up", "up", "plan.yaml", "--actors", "actors.py")
        names = {"coordinator", *(f"{role}.{actor}" for role, actor in ACTOR_KEYS)}
        there.until("all serve", lambda: names <= _serving(there))
        numbers = count()

        def submit() -> None:
            said = there.call("submit", "plan.yaml", "two words", "--key", f"key-{next(numbers)}")
            assert said.code == 0, said.err
            there.ended(said.out.strip())

        def knows() -> bool:
            """Submits one more: the coordinator's read model may not have counted the runs before it yet."""
            submit()
            known = [each.known for each in map(attrgetter("choice"), choices(asyncio.run(log(store)))) if each]
            return any(tally.successes + tally.failures for tallies in known for tally in tallies)

        for _ in range(8):
            submit()
        there.until("a choice knows how earlier runs ended", knows)
        events = asyncio.run(log(store))
        assert {each.actor for each in choices(events)} == {"silent", "helpful"}
        assert not [event for event in events if isinstance(event.data, StepFailed)]
        for event in events:
            if isinstance(event.data, DraftCritiqued) and event.data.path.endswith("judge"):
                asked = {each.path: each.actor for each in choices([e for e in events if e.run == event.run])}
                assert event.actor == f"critic {asked[event.data.path]}"
        assert shown(there.json("stats", "choices")) == counted(events)
        assert there.json("rebuild", "choices")["same"]
        told = " ".join(each["message"] for each in there.json("doctor")["checks"])
        for actor in ("silent", "helpful"):
            assert f"{there.prefix}.critic.{actor}: 1 consumer" in told


def test_doctor_asks_for_the_workers_of_arms_that_were_not_chosen_yet(tmp_path: Path) -> None:
    with deployed(tmp_path, f"sqlite:///{tmp_path / 'store.db'}") as there:
        there.start("coordinator", "coordinator")
        assert there.call("submit", "plan.yaml", "two words").code == 0
        there.until("it has begun", lambda: bool(requests_in(there)))
        told = [each["message"] for each in there.json("doctor")["checks"] if each["name"] == "queue"]
    for actor in ("silent", "helpful"):
        remedy = f"no worker serves the critic {actor}; start one: redraft worker FILE.py:{actor} --role critic"
        assert f"{there.prefix}.critic.{actor} does not exist yet; {remedy}" in told


def requests_in(there: Deployment) -> list[Recorded]:
    return [event for event in asyncio.run(log(there.store)) if isinstance(event.data, StepRequested)]


def _serving(there: Deployment) -> set[str]:
    return {line["process"] for line in there.lines("up") if line["event"] == "serving"}
