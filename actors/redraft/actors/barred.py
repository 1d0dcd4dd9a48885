"""Which drafts may not be published, by rules 2: not passed by a gate, vetoed by a critic, rejected by people. Pure.

A draft is meant by its hash: the same text stays barred. People's approval of that very hash overrules a veto, whenever
it was said; it never overrules a gate. By rules 1 nothing is barred here.
"""

from __future__ import annotations

from msgspec.structs import replace

from redraft.actors.judgement import Judgement
from redraft.actors.plan_paths import step_key
from redraft.actors.run_state import Candidate, RunState
from redraft.events.content import DraftRef
from redraft.events.domain_events import DraftCritiqued


def barring(state: RunState, event: DraftCritiqued, judgement: Judgement) -> RunState:
    """The state after a critic has spoken: a gate's no and a veto bar the draft, in a loop, a panel or neither."""
    if state.rules < 2 or judgement.approved is not False:
        return state
    who = step_key(event.path).rpartition("/")[2]
    bars, sha256, number = state.bars, event.draft.sha256, event.draft.version
    if judgement.gate == "failed":
        told = f"gate {who} did not pass draft {number}"
        return replace(state, bars=replace(bars, gates={sha256: told, **bars.gates}))
    told = f"critic {who} vetoed draft {number}"
    return replace(state, bars=replace(bars, vetoes={sha256: told, **bars.vetoes}))


def overruled(state: RunState, draft: DraftRef) -> RunState:
    """The state after people have approved a draft: no veto of it counts."""
    if state.rules < 2:
        return state
    return replace(state, bars=replace(state.bars, overruled=state.bars.overruled | {draft.sha256}))


def bars_any(state: RunState) -> bool:
    """Whether any draft may be barred."""
    return bool(state.bars.gates or state.bars.vetoes or state.rejected) and state.rules >= 2


def barred(state: RunState, draft: Candidate | None) -> str:
    """Why a draft may not be published, in a few words; empty when nothing bars it."""
    if draft is None or not bars_any(state):
        return ""
    bars, sha256 = state.bars, draft.ref.sha256
    return beyond_people(state, draft) or (bars.vetoes.get(sha256, "") if sha256 not in bars.overruled else "")


def beyond_people(state: RunState, draft: Candidate) -> str:
    """Why a draft may not be published even if people who are asked now approved it; empty when then it may be."""
    if state.rules < 2:
        return "a critic said no" if draft.judgement and draft.judgement.approved is False else ""
    if draft.ref.sha256 in state.rejected:
        return f"people rejected draft {draft.ref.version}"
    return state.bars.gates.get(draft.ref.sha256, "")
