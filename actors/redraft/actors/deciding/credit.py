"""Credits the arms that took part in a run when it ends. Pure.

An arm takes part when an answer of it is accepted, and is credited once for each run, however often it was asked:

- a success when the run ends `accepted`, or, by its step's `success`, when that holds for the draft that the run ends
with; a failure when it ends otherwise;
- a failure when its own step failed for good, however the run ends;
- nothing when the run was cancelled, or failed by another step: that is no evidence about the arm;
- nothing when a critic alone accepted what it judged: otherwise the most lenient critic would look the best. A run
counts for a critic if somebody else judged the accepted draft too: another critic or arm, a gate, people who approved
it.

The run counts, and not each score, since it means the same for every role, and scores of different critics cannot be
compared. So all arms of a run share its end, which evens out over runs.
"""

from __future__ import annotations

from msgspec.structs import replace

from redraft.actors.conditions.reading import critics_of
from redraft.actors.deciding.facts import holds_for_draft
from redraft.actors.deciding.state import Candidate, OpenStep, Pick, RunState
from redraft.actors.plans.paths import step_key
from redraft.events.messages.domain_events import ChoicesCredited, Credit, RunEnded
from redraft.events.messages.plan import steps_of

_SAYS_NOTHING = frozenset({"cancelled", "failed"})


def record_pick(state: RunState, open_step: OpenStep, *, failed: bool = False) -> RunState:
    """Returns the state after an arm answered, or failed for good. A fork's repeated events are its parent's to credit.

    A critic's answer is the event that has just happened.
    """
    choice = open_step.request.choice
    if choice is None or state.version <= state.inherited:
        return state
    step, arm = step_key(open_step.request.path), choice.arm
    known = next((each for each in state.picks if (each.step, each.arm) == (step, arm)), Pick(step, arm))
    spoke = state.version if open_step.step.role == "critic" and not failed else known.spoke
    pick = replace(known, spoke=spoke, failed=known.failed or failed)
    others = tuple(each for each in state.picks if (each.step, each.arm) != (step, arm))
    return replace(state, picks=(*others, pick))


def review_acceptance(state: RunState, draft: Candidate | None) -> RunState:
    """Returns the state after a draft was accepted: an arm that alone judged it is not credited with that.

    This is repeated at the end of the run: others may have judged the draft since it left its loop.
    """
    if draft is None:
        return state
    alone, sha256 = _sole_voice(state, draft), draft.ref.sha256

    def looked_at(pick: Pick) -> Pick:
        if pick.spoke and pick.spoke == alone:
            return replace(pick, alone=sha256)
        return replace(pick, alone="") if pick.alone == sha256 else pick

    return replace(state, picks=tuple(map(looked_at, state.picks)))


def credits_or_end(state: RunState, end: RunEnded) -> ChoicesCredited | RunEnded:
    """Returns the event to record next as a run ends: the credits, if there are any, and then its end."""
    if end.outcome == "accepted":
        accepted = (each for each in (state.current, state.best) if each and each.ref == end.draft)
        state = review_acceptance(state, next(accepted, None))
    says_nothing = end.outcome in _SAYS_NOTHING or (state.failure is not None and state.failure.outcome == "failed")
    given = tuple(
        Credit(each.step, each.arm, success)
        for each in sorted(state.picks, key=lambda pick: (pick.step, pick.arm))
        if (success := _success(state, each, end, says_nothing=says_nothing)) is not None
    )
    return ChoicesCredited(state.plan.name, given) if given else end


def _success(state: RunState, pick: Pick, end: RunEnded, *, says_nothing: bool) -> bool | None:
    if pick.failed:
        return False
    if says_nothing or (end.outcome == "accepted" and pick.alone):
        return None
    wanted = next((step.success for path, step in steps_of(state.plan.steps) if path == pick.step), None)
    if wanted is None:
        return end.outcome == "accepted"
    ended_with = (each for each in (state.current, state.best) if each and each.judgement and each.ref == end.draft)
    judged = next((each.judgement for each in ended_with), None)
    return None if judged is None else holds_for_draft(wanted, judged, critics_of(state.plan.steps))


def _sole_voice(state: RunState, draft: Candidate) -> int:
    """Returns the version of a draft's only critique; 0 if several critics or people judged it, or none did."""
    if draft.judgement is None or state.approved == draft.ref:
        return 0
    critiques = draft.judgement.critiques
    return critiques[0] if len(critiques) == 1 else 0
