"""What became of an issue is told of the draft that is worked on, and of those that it was made from."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.projections.logs import view_of
from tests.streams import START, recorded

from redraft.events.messages.content import Brief, Critique, new_draft
from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftRefined,
    LoopEnded,
    RunStarted,
    StepRequested,
)
from redraft.events.messages.plan import Plan, Step
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.read_models.issue_lines import (
    MAX_KEPT,
    RunLines,
    Verdict,
    decode_lines,
    encode_lines,
    follow_drafts,
    keep_verdict,
    stand,
    text_of,
)
from redraft.projections.read_models.issues import issue_counts, issues_of, recurring_issues

PLAN = Plan("plan", (Step("generator", "write", "write"),))


def refined(path: str, before: int, after: int) -> DraftRefined:
    return DraftRefined(path, 1, new_draft(before, f"{before}").ref, new_draft(after, f"{after}"))


def listing(path: str, draft: int, *suggestions: str) -> DraftCritiqued:
    return DraftCritiqued(path, 1, new_draft(draft, f"{draft}").ref, Critique(0.5, suggestions=suggestions))


async def ledger(*events: DomainEvent, where: StorageLocation = None) -> dict[str, tuple[str, int | None, int]]:
    """The status, the draft that fixed it, and the returns of each issue of a run that wrote draft 1."""
    first = RunStarted(PLAN, Brief("x"), START), DraftGenerated("write", 1, new_draft(1, "1"))
    async with view_of(recorded("one", [("x", each) for each in (*first, *events)]), where=where) as views:
        found = await issues_of(views, "one")
        assert len({each.text for each in found}) == len(found)
    return {each.text: (each.status, each.fixed, each.returns) for each in found}


def candidates(number: int, before: int, *drafts: tuple[int, Sequence[str]]) -> list[DomainEvent]:
    """An iteration in which several refiners make drafts, and a judge says these things of them."""
    made = [refined(f"L[{number}]/Two/r{draft}", before, draft) for draft, _ in drafts]
    return [*made, *(listing(f"L[{number}]/Two/pick[{at}]", *each) for at, each in enumerate(map(flat, drafts), 1))]


def flat(said: tuple[int, Sequence[str]]) -> tuple[int | str, ...]:
    return said[0], *said[1]


def left(draft: int) -> LoopEnded:
    return LoopEnded("L", "accepted", "", 2, new_draft(draft, f"{draft}").ref, 0.5)


@pytest.mark.parametrize("others", [[(2, ["a"]), (3, []), (4, ["a", "b"])], [(2, []), (3, ["a"]), (4, ["b"])]])
@pytest.mark.parametrize("goes_on", [True, False])
async def test_what_became_of_an_issue_is_told_of_the_candidate_that_is_kept(
    others: list[tuple[int, list[str]]], goes_on: bool
) -> None:
    for kept, said in others:
        after = candidates(2, kept, (5, ["a", "b"])) if goes_on else [left(kept)]
        found = await ledger(*candidates(1, 1, *others), *after[:1])
        expected = {name: (("raised" if name in said else "dropped"), None, 0) for name in ("a", "b")}
        assert found == expected


async def test_a_kept_candidate_without_an_issue_has_fixed_it() -> None:
    first = candidates(1, 1, (2, ["a"]), (3, []))
    second = candidates(2, 2, (4, ["a"]), (5, []), (6, ["a"]))
    assert await ledger(*first, *second, left(5)) == {"a": ("fixed", 5, 0)}
    assert await ledger(*first, *second, left(6)) == {"a": ("raised", None, 0)}


async def test_after_a_fall_an_issue_stands_as_in_the_draft_that_is_worked_on() -> None:
    fell = [listing("L[1]/judge", 1, "a"), refined("L[1]/r", 1, 2), listing("L[2]/judge", 2, "b")]
    assert await ledger(*fell) == {"a": ("fixed", 2, 0), "b": ("raised", None, 0)}
    again = [*fell, refined("L[2]/r", 1, 3)]
    assert await ledger(*again) == {"a": ("raised", None, 0), "b": ("dropped", None, 0)}
    later = [*again, listing("L[3]/judge", 3, "a"), refined("L[3]/r", 3, 4), listing("L[4]/judge", 4)]
    assert await ledger(*later[:-1]) == {"a": ("raised", None, 0), "b": ("dropped", None, 0)}
    assert (await ledger(*later))["a"] == ("fixed", 4, 0)


async def test_one_issue_is_one_over_a_persons_edit_and_entries_into_an_inner_loop() -> None:
    edit = DraftEdited(new_draft(2, "2"), new_draft(1, "1").ref, "ann")
    edited = [listing("L[1]/judge", 1, "a"), edit, listing("L[1]/judge[edit1]", 2)]
    assert await ledger(*edited) == {"a": ("fixed", 2, 0)}
    assert await ledger(*edited[:2], listing("L[1]/judge[edit1]", 2, "a")) == {"a": ("raised", None, 0)}
    entries = [
        *(listing("O[1]/L[1]/judge", 1, "a"), refined("O[1]/L[1]/r", 1, 2), listing("O[1]/L[closing]/judge", 2, "a")),
        *(listing("O[2]/L[1]/judge", 2, "a"), refined("O[2]/L[1]/r", 2, 3), listing("O[2]/L[closing]/judge", 3)),
    ]
    assert await ledger(*entries) == {"a": ("fixed", 3, 0)}


def rewriting(path: str, *critiques: int) -> StepRequested:
    return StepRequested(path, "generator", "write", 1, START, critiques=critiques)


async def test_a_draft_that_a_generator_writes_anew_follows_the_one_before() -> None:
    """The critique at version 4 is that of draft 1."""
    begun = [StepRequested("L[1]/write", "generator", "write", 1, START), listing("L[1]/judge", 1, "a")]
    alone = [*begun, rewriting("L[2]/write", 4), DraftGenerated("L[2]/write", 1, new_draft(2, "2"))]
    assert await ledger(*alone, listing("L[2]/judge", 2)) == {"a": ("fixed", 2, 0)}
    several: list[DomainEvent] = [rewriting(f"L[2]/Two/w{number}", 4) for number in (2, 3)]
    several += [DraftGenerated(f"L[2]/Two/w{number}", 1, new_draft(number, f"{number}")) for number in (2, 3)]
    picked = [*begun, *several, listing("L[2]/Two/pick[1]", 2), listing("L[2]/Two/pick[2]", 3)]
    judged = {number: [*picked, listing("L[2]/judge", number, *said)] for number, said in ((2, ["a"]), (3, []))}
    assert await ledger(*judged[2]) == {"a": ("raised", None, 0)}
    assert await ledger(*judged[3]) == {"a": ("fixed", 3, 0)}


async def test_what_an_inner_loop_finished_is_another_text_than_what_its_generator_writes_next() -> None:
    begun = [StepRequested("B[1]/write", "generator", "write", 1, START), listing("B[1]/C[1]/judge", 1, "a")]
    following = [rewriting("B[2]/write", 4), DraftGenerated("B[2]/write", 1, new_draft(2, "2"))]
    assert await ledger(*begun, *following, listing("B[2]/C[1]/judge", 2)) == {"a": ("raised", None, 0)}


async def test_of_dropped_issues_none_is_open() -> None:
    first = RunStarted(PLAN, Brief("x"), START), DraftGenerated("write", 1, new_draft(1, "1"))
    told = [*first, *candidates(1, 1, (2, ["a"]), (3, ["a", "b"])), left(2)]
    async with view_of(recorded("one", [("x", each) for each in told]), where=None) as views:
        (counted,) = await issue_counts(views)
        again = {each.text: each.open for each in await recurring_issues(views)}
    assert (counted.raised, counted.open, counted.fixed, again) == (2, 1, 0, {"a": 1, "b": 0})


async def test_a_long_run_is_followed_in_bounded_memory(anywhere: StorageLocation) -> None:
    told: list[DomainEvent] = [listing("L[1]/judge", 1, "a", "b")]
    for number in range(1, 2 * MAX_KEPT):
        told.append(refined(f"L[{number}]/r", number, number + 1))
        told.append(listing(f"L[{number + 1}]/judge", number + 1, "a"))
    assert await ledger(*told, where=anywhere) == {"a": ("raised", None, 0), "b": ("fixed", 2, 0)}


@given(st.data())
def test_what_is_told_step_by_step_is_what_all_that_was_said_comes_to(data: st.DataObject) -> None:
    lines = RunLines()
    follow_drafts(lines, DraftGenerated("write", 1, new_draft(1, "1")))
    made = 1
    for number in range(data.draw(st.integers(1, 12))):
        known = data.draw(st.integers(1, made))
        match data.draw(st.sampled_from(("refine", "candidate", "judge", "choose", "leave"))):
            case "refine" | "candidate" as how:
                made += 1
                path = "L[1]/r" if how == "refine" else "L[1]/Two/r"
                follow_drafts(lines, refined(path, known, made))
            case "leave":
                follow_drafts(lines, left(known))
            case how:
                path = "L[1]/judge" if how == "judge" else "L[1]/Two/judge[1]"
                said: set[str] = data.draw(st.sets(st.sampled_from("abc")))
                listed = tuple(("error", each) for each in sorted(said))
                source = f"{data.draw(st.sampled_from(('one', 'two')))} {text_of(lines, known)}"
                keep_verdict(lines, listing(path, known), Verdict(source, known, listed, number))
    assert {issue: lines.standings[issue] for issue in stand(lines)} == stand(lines)
    assert decode_lines(encode_lines(lines)) == lines
