"""A word that comes after another has made it void is refused with the reason, with a broker as without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.app.deployments import Deployment, deployment

from redraft.app.runs.steering import draft_meant, quarantine, steer
from redraft.app.settings.settings import Settings, read_settings
from redraft.events.errors import InputError
from redraft.events.messages.commands import ApproveDraft, EditDraft, PauseRun, RejectDraft, SteeringMessage
from redraft.events.messages.domain_events import RunPaused
from redraft.events.messages.envelope import Recorded

pytestmark = pytest.mark.check

ASKED = """
from redraft.actors import Critique, Workflow, approve, critic, generator

@generator
def write(brief):
    return brief.text

@critic
def judge(draft):
    return Critique(1.0)

loop = Workflow("loop").start_with(write).then(judge).then(approve("Sign", quorum=2))
"""

Making = Callable[[Sequence[Recorded]], SteeringMessage]


def edits(text: str) -> Making:
    return lambda past: EditDraft(past[0].run, draft_meant(past, None), text, by="ann")


def approves(key: str) -> Making:
    return lambda past: ApproveDraft(past[0].run, draft_meant(past, None), by="ann", key=key)


def rejects(key: str) -> Making:
    return lambda past: RejectDraft(past[0].run, draft_meant(past, None), by="ann", key=key)


def pauses(by: str) -> Making:
    return lambda past: PauseRun(past[0].run, by=by)


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as made:
        (tmp_path / "loop.py").write_text(ASKED)
        yield made


@pytest.fixture
def run(there: Deployment, settings: Settings) -> str:
    """A run that waits for people, without a coordinator by now."""
    coordinator = there.start("coordinator", "coordinator")
    there.start("worker", "worker", "loop.py")
    begun = there.submit()
    there.until("it waits", lambda: [each["status"] for each in there.json("list")] == ["waiting"])
    coordinator.kill()
    coordinator.wait()
    return begun


@pytest.fixture
def settings(there: Deployment, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in there.environment().items():
        monkeypatch.setenv(name, value)
    return read_settings()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    return lambda seconds: monkeypatch.setattr("redraft.app.runs.steering.PATIENCE", seconds)


async def said_while_it_starts(there: Deployment, settings: Settings, run: str, word: Making) -> Recorded | None:
    """What became of a word that was sent while there was no coordinator, which is started then."""
    saying = asyncio.create_task(steer(settings, run, word))
    await asyncio.to_thread(there.start, "again", "coordinator")
    return (await saying)[1]


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (pauses("ben"), pauses("ann"), "is paused already"),
        (edits("mine"), edits("mine"), "the text is that of draft 2"),
        (edits("mine"), approves(""), "draft 1"),
        (approves("one"), approves("other"), "ann has approved it already"),
    ],
    ids=["pauses", "edits", "an edit and an approval", "one person's links"],
)
def test_a_word_that_another_made_void_is_refused(
    there: Deployment,
    settings: Settings,
    run: str,
    hurried: Callable[[float], None],
    first: Making,
    second: Making,
    why: str,
) -> None:
    hurried(0.1)
    assert asyncio.run(steer(settings, run, first)) == (run, None), "it is on its way"
    hurried(80.0)
    with pytest.raises(InputError, match=why):
        asyncio.run(said_while_it_starts(there, settings, run, second))


def test_a_word_that_is_said_again_under_its_key_is_recorded_once_and_told_as_it_is(
    there: Deployment, settings: Settings, run: str, hurried: Callable[[float], None]
) -> None:
    hurried(0.1)
    assert asyncio.run(steer(settings, run, approves("link 1"))) == (run, None)
    hurried(80.0)
    event = asyncio.run(said_while_it_starts(there, settings, run, rejects("link 1")))
    assert (event and event.name) == "draft.approved.v1"
    again = asyncio.run(steer(settings, run, approves("link 1")))
    assert again == (run, event)
    assert len([each for each in there.history(run) if each.name == "draft.approved.v1"]) == 1


def test_a_word_that_can_still_be_recorded_is_on_its_way_and_is_recorded(
    there: Deployment, settings: Settings, run: str, hurried: Callable[[float], None]
) -> None:
    hurried(0.1)
    assert asyncio.run(steer(settings, run, pauses("ann"))) == (run, None)
    there.start("again", "coordinator")
    there.until("it is paused", lambda: any(isinstance(each.data, RunPaused) for each in there.history(run)))


def test_a_run_that_somebody_else_has_set_aside_meanwhile_takes_no_word(
    there: Deployment, settings: Settings, run: str, hurried: Callable[[float], None]
) -> None:
    hurried(0.1)
    assert asyncio.run(quarantine(settings, run, "wrong", "ben")) == (run, None)
    hurried(80.0)
    with pytest.raises(InputError, match="was set aside"):
        asyncio.run(said_while_it_starts(there, settings, run, pauses("ann")))
