"""A draft that people edited, where they were asked about one that a loop had finished: it is what is finished then."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Literal

import pytest

from redraft.actors import Context, Workflow, approve, critic, generator, outputs, publisher, refiner, repeat, score
from redraft.app import Client, open_local, read_settings
from redraft.events.backends import open_store
from redraft.events.messages.domain_events import ApprovalRequested, RunEnded
from redraft.projections.record_check.check import check_events

Word = Literal["edit", "approve", "reject"]


@generator
def write(brief, history):
    return f"chapter {len(history.rounds)}"


@critic
def judge(draft):
    return 0.5


@refiner
def improve(draft):
    return f"{draft.text}, refined"


def saving(into: list[list[str]]):
    @publisher
    def save(draft, context: Context):
        into.append([each.text for each in context.outputs])
        return draft.text

    return save


async def decide(client: Client, run: str, words: list[Word]) -> str:
    """Says these words, one each time people are asked; returns how the run ended."""
    async with aclosing(client.subscribe(0, run=run)) as events:
        async for event in events:
            match event.data:
                case ApprovalRequested(draft=draft):
                    match words.pop(0):
                        case "edit":
                            await client.edit(run, draft, f"edit of {draft.version}", by="ann")
                        case "approve":
                            await client.approve(run, draft, by="ann")
                        case "reject":
                            await client.reject(run, draft, "no", by="ann")
                case RunEnded(outcome=outcome):
                    return outcome
    raise AssertionError("the log ended before the run")


def asked_behind(body: list) -> Workflow:
    return (
        Workflow("book").start_with(write).repeat_until(score >= 0.9, max_iterations=1, body=body).then(approve("Sign"))
    )


def asked_at_the_end(body: list) -> Workflow:
    chapter = repeat("Chapter", until=score >= 0.9, max_iterations=1, on_exhausted="ask", body=body)
    return Workflow("book").repeat_until(outputs >= 1, max_iterations=3, name="Book", body=[write, chapter])


@pytest.mark.parametrize(
    ("made", "words", "published"),
    [
        (asked_behind, ["edit", "approve"], ["edit of 2"]),
        (asked_at_the_end, ["edit", "approve"], ["edit of 2"]),
        (asked_at_the_end, ["edit", "edit", "approve"], ["edit of 3"]),
        (asked_at_the_end, ["edit", "reject", "approve"], ["chapter 3, refined"]),
    ],
    ids=["behind a loop", "at its end", "twice", "refused"],
)
async def test_what_people_approved_is_what_the_loop_has_finished(
    tmp_path: Path, made: Callable[[list], Workflow], words: list[Word], published: list[str]
) -> None:
    seen: list[list[str]] = []
    book = made([judge, improve]).finally_(saving(seen))
    store = f"sqlite:///{tmp_path / 'log.db'}"
    async with open_local(read_settings(store=store), book.actors.values()) as runtime:
        run = await runtime.client.submit(book, "brief")
        assert await decide(runtime.client, run, list(words)) in ("accepted", "exhausted")
    assert seen == [published]
    async with open_store(store) as log:
        assert check_events(await log.read(run)) == ()
