"""A loop that goes to and fro is found out, and what happens then is what its plan says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.properties.test_deciding_properties import NEVER, NOW, RUN, Run, examples, step

from redraft.actors.deciding.evolve import fold
from redraft.actors.plans.check import check_plan
from redraft.actors.runtime.relaying.request_builder import RequestBuilder
from redraft.events.messages.commands import Refine, Refined
from redraft.events.messages.domain_events import DraftGenerated, DraftRefined, LoopEnded, RunEnded, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import OnOscillation, Option, Parallel, Plan, Repeat, Step

WRITE, JUDGE = step("generator", "write"), step("critic", "judge")


def begun(policy: OnOscillation, most: int = 9, options: dict[str, Option] | None = None) -> Run:
    improve = Step("refiner", "improve", "improve", options=options or {})
    run = Run(check_plan(Plan("p", (WRITE, Repeat("L", NEVER, most, (JUDGE, improve), on_oscillation=policy)))))
    run.answer("write", value=0, text="a\nb\nc")
    return run


def refined(run: Run, *texts: str, value: float = 0.5) -> None:
    """Each of these texts as the next refinement, each draft scored the same."""
    for text in texts:
        if "judge" in next(iter(run.state.open)):
            run.answer(next(iter(run.state.open)), value=value, text="")
        run.answer(next(iter(run.state.open)), value=0, text=text)


def command(run: Run) -> Refine:
    """The command of the refiner that is asked now."""
    path = next(iter(run.state.open))
    if run.state.open[path].step.role == "critic":
        run.answer(path, value=0.5, text="")
    known = [Recorded("e", RUN, n, NOW, "", "", "", "", "", "", "", event) for n, event in enumerate(run.events, 1)]
    asked = run.events[-1]
    assert isinstance(asked, StepRequested)
    work = RequestBuilder(known).command(RUN, asked)
    assert isinstance(work, Refine)
    return work


def test_a_refiner_is_told_of_a_draft_that_was_seen_before() -> None:
    run = begun("tell")
    refined(run, "a\nB\nc", "a\nB\nC")
    assert command(run).history.oscillation == ()
    run.answer(next(iter(run.state.open)), value=0, text="a\nb\nc")
    assert command(run).history.oscillation == ("draft 4 has the text of draft 1 again",)
    assert command(run).request.options == {}


def test_a_change_that_is_undone_is_found_though_the_drafts_differ() -> None:
    run = begun("tell")
    refined(run, "a\nb\nc\nd", "a\nB\nc\nd", "a\nb\nc\nd\ne")
    assert command(run).history.oscillation == ("draft 4 undid a change of draft 3, back to draft 2",)


def test_a_draft_that_is_written_anew_repeats_nothing() -> None:
    inner = Repeat("Inner", NEVER, 1, (JUDGE, step("refiner", "improve")))
    run = Run(Plan("p", (WRITE, Repeat("L", NEVER, 2, (step("generator", "again"), inner), on_oscillation="stop"))))
    run.answer("write", value=0, text="a")
    run.answer("L[1]/again", value=0, text="a")
    assert list(run.state.open) == ["L[1]/Inner[1]/judge"], "nobody has judged it yet"


def test_what_is_unchanged_or_changed_further_is_no_oscillation() -> None:
    run = begun("tell")
    refined(run, "a\nB\nc", "a\nB\nc", "a\nBB\nc", "a\nBBB\nc")
    assert command(run).history.oscillation == ()


def test_the_loop_stops_and_its_last_draft_is_judged() -> None:
    run = begun("stop")
    refined(run, "x", "a\nb\nc")
    assert list(run.state.open) == ["L[closing]/judge"]
    run.answer("L[closing]/judge", value=0.5, text="")
    ended = next(event for event in run.events if isinstance(event, LoopEnded))
    assert (ended.outcome, ended.reason) == ("oscillating", "draft 3 has the text of draft 1 again")
    assert isinstance(run.events[-1], RunEnded)
    assert run.events[-1].outcome == "oscillating"


def test_the_temperature_rises_with_each_oscillation_and_not_above_what_models_take() -> None:
    run = begun("raise_temperature", 40, {"temperature": 0.4, "model": "m"})
    seen = []
    for number in range(1, 25):
        refined(run, "x" if number % 2 else "a\nb\nc")
        seen.append(command(run).request.options["temperature"])
    assert seen[:4] == [0.4, 0.6, 0.8, 1.0], "the first x is new"
    assert seen[-1] == 2.0
    assert command(run).request.options["model"] == "m"
    assert len(command(run).history.oscillation) == 5


def test_without_a_temperature_it_rises_from_what_is_usual() -> None:
    run = begun("raise_temperature")
    refined(run, "x", "a\nb\nc")
    assert command(run).request.options == {"temperature": 0.9}


def test_nothing_is_kept_or_told_where_the_plan_ignores_it() -> None:
    run = begun("ignore")
    refined(run, "x", "a\nb\nc", "x")
    assert run.state.frames[-1].made == ()
    assert command(run).history.oscillation == ()


def test_the_best_of_several_refinements_is_compared_by_its_text() -> None:
    better = Parallel("Best", (step("refiner", "one"), step("refiner", "two")), judge=step("critic", "rate"))
    run = Run(Plan("p", (WRITE, Repeat("L", NEVER, 9, (better,), on_oscillation="stop"))))
    run.answer("write", value=0, text="a")
    for text in ("b", "a"):
        for path in sorted(run.state.open):
            run.answer(path, value=0, text=text)
        while run.state.open and "rate" in next(iter(run.state.open)):
            run.answer(next(iter(run.state.open)), value=0.5, text="")
    assert isinstance(run.events[-1], RunEnded)
    assert run.events[-1].outcome == "oscillating"


def test_what_a_refiner_would_not_change_is_told_to_the_next() -> None:
    run = begun("ignore")
    run.answer("L[1]/judge", value=0.5, text="")
    run.send(Refined(RUN, "L[1]/improve", 1, "x", declined=("the title stays: it is a quotation",)))
    assert command(run).history.disputed == ("the title stays: it is a quotation",)


@examples
@given(st.lists(st.sampled_from(["a\nb", "a\nB", "c", "a\nb\nc"]), min_size=1, max_size=6))
def test_a_draft_that_stops_a_loop_repeats_or_undoes_one(texts: list[str]) -> None:
    run = begun("stop")
    for text in texts:
        if run.state.status == "ended":
            break
        run.answer(next(iter(run.state.open)), value=0.5, text="")
        if run.state.status == "running" and "improve" in next(iter(run.state.open), ""):
            run.answer(next(iter(run.state.open)), value=0, text=text)
    assert fold(run.events) == run.state
    made = [event.draft for event in run.events if isinstance(event, DraftGenerated | DraftRefined)]
    changed = [one for one, before in zip(made[1:], made, strict=False) if one.sha256 != before.sha256]
    seen = {draft.sha256 for draft in made}
    stopped = any(isinstance(event, LoopEnded) and event.outcome == "oscillating" for event in run.events)
    if stopped and "again" in _reason(run):
        assert len(seen) <= len(changed)
    if not stopped and run.state.status == "running" and "closing" not in next(iter(run.state.open)):
        assert len(seen) == len(changed) + 1, "no text came twice with another between"


def _reason(run: Run) -> str:
    return next(event.reason for event in run.events if isinstance(event, LoopEnded))


def test_the_best_of_several_new_drafts_is_made_from_none() -> None:
    first = Parallel("First", (step("generator", "one"), step("generator", "two")), judge=step("critic", "rate"))
    again = Parallel("Best", (step("refiner", "a"), step("refiner", "b")), judge=step("critic", "rate"))
    run = Run(Plan("p", (Repeat("L", NEVER, 9, (first, again), on_oscillation="tell"),)))
    for _ in range(2):
        for path in sorted(run.state.open):
            run.answer(path, value=0, text=f"by {path}")
        while "rate" in next(iter(run.state.open)):
            run.answer(next(iter(run.state.open)), value=0.5, text="")
    versions = [(made.version, made.before) for made in run.state.frames[-1].made]
    assert versions == [(2, 0), (4, 2)]
