"""What the end of a run says of the arms that took part in it. Pure.

An arm takes part when an answer of it was taken, and is credited once for each run, however often it was asked:

- a success when the run ends `accepted`; a failure when it ends otherwise;
- a failure when its own step failed for good, however the run ends;
- nothing when the run was cancelled, or failed by another step: that says nothing of it;
- nothing when a critic alone accepted what it judged: else the most lenient critic would look the best. A run counts
  for a critic where somebody else spoke of the accepted draft: another critic or arm, a gate, people who approved it.

It is the run that counts, and not each score, as it means the same for every role, and as scores of one critic are not
those of another. So all arms of a run share its end, which evens out over runs.
"""

from __future__ import annotations

from msgspec.structs import replace

from redraft.actors.plan_paths import step_key
from redraft.actors.run_state import Candidate, OpenStep, Pick, RunState
from redraft.events.content import DraftRef
from redraft.events.domain_events import ChoicesCredited, Credit, RunEnded

_SAYS_NOTHING = frozenset({"cancelled", "failed"})


def took_part(state: RunState, asked: OpenStep, *, failed: bool = False) -> RunState:
    """The state after an arm answered, or failed for good; what a fork repeats is its parent's to credit.

    A critic's answer is the event that has just happened.
    """
    choice = asked.request.choice
    if choice is None or state.version <= state.inherited:
        return state
    step, arm = step_key(asked.request.path), choice.arm
    known = next((each for each in state.picks if (each.step, each.arm) == (step, arm)), Pick(step, arm))
    spoke = state.version if asked.step.role == "critic" and not failed else known.spoke
    pick = replace(known, spoke=spoke, failed=known.failed or failed)
    others = tuple(each for each in state.picks if (each.step, each.arm) != (step, arm))
    return replace(state, picks=(*others, pick))


def accepted(state: RunState, draft: Candidate | None) -> RunState:
    """The state after a draft was accepted: an arm that alone spoke for it is not credited with that.

    The end of the run looks at it again: others may have spoken of the draft since it left its loop.
    """
    if draft is None:
        return state
    alone, sha256 = _sole_voice(state, draft), draft.ref.sha256

    def looked_at(pick: Pick) -> Pick:
        if pick.spoke and pick.spoke == alone:
            return replace(pick, alone=sha256)
        return replace(pick, alone="") if pick.alone == sha256 else pick

    return replace(state, picks=tuple(map(looked_at, state.picks)))


def credited(state: RunState, end: RunEnded) -> ChoicesCredited | RunEnded:
    """What is to be recorded next as a run ends: the credits, if there are any, and then its end."""
    if end.outcome == "accepted":
        state = accepted(state, _candidate(state, end.draft))
    says_nothing = end.outcome in _SAYS_NOTHING or (state.failure is not None and state.failure.outcome == "failed")
    given = tuple(
        Credit(each.step, each.arm, success)
        for each in sorted(state.picks, key=lambda pick: (pick.step, pick.arm))
        if (success := _success(each, end, says_nothing=says_nothing)) is not None
    )
    return ChoicesCredited(state.plan.name, given) if given else end


def _success(pick: Pick, end: RunEnded, *, says_nothing: bool) -> bool | None:
    if pick.failed:
        return False
    if says_nothing or (end.outcome == "accepted" and pick.alone):
        return None
    return end.outcome == "accepted"


def _sole_voice(state: RunState, draft: Candidate) -> int:
    """The version of the only critique of a draft; 0 where several spoke of it, people included, or nobody."""
    if draft.judgement is None or state.approved == draft.ref:
        return 0
    critiques = draft.judgement.critiques
    return critiques[0] if len(critiques) == 1 else 0


def _candidate(state: RunState, draft: DraftRef | None) -> Candidate | None:
    return next((each for each in (state.current, state.best) if each and each.ref == draft), None)
