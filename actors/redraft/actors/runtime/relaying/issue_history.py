"""Sorts the suggestions and errors of a run's critics into raised, fixed and returned, for the history of a request."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import chain
from typing import TypeAlias

from redraft.actors.plans.paths import step_key
from redraft.events.messages.content import History, Round
from redraft.events.messages.domain_events import DraftCritiqued, DraftGenerated, StepRequested

_Said: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""The errors and the suggestions of a critique."""


@lru_cache(maxsize=4096)
def loop_around(path: str) -> str:
    """Returns how the paths of all begin that is done in the innermost loop around a step; empty outside of loops."""
    return "".join(path.rpartition("[")[:2])


class IssueHistory:
    """Collects the critiques of a run, and from which draft each draft was made.

    What became of a suggestion or error is told of the draft that an actor works on, by what its critic said of that
    draft and of those that it was made from: it is fixed once its critic was asked again and no longer names it. What a
    critic says that was not asked, or not waited for, is unknown; what was said of a draft that the loop went back
    from, or did not keep, is of no account.
    """

    def __init__(self) -> None:
        self._before: dict[int, int] = {}
        self._said: dict[int, dict[str, _Said]] = {}
        """By draft, and then by the path of the critic's step, its latest critique."""
        self._drafts: dict[int, tuple[int, str]] = {}
        """For each critique its draft, and the loop around its step."""
        self._rewrites: dict[str, int] = {}

    def add_draft(self, draft: int, before: int) -> None:
        """Adds a draft that was made from another."""
        self._before[draft] = before

    def add_critique(self, event: DraftCritiqued, version: int) -> None:
        """Adds what a critic said."""
        said = event.critique.errors, event.critique.suggestions
        self._said.setdefault(event.draft.version, {})[step_key(event.path)] = said
        self._drafts[version] = event.draft.version, _loop_of(event.path)

    def add_request(self, request: StepRequested) -> None:
        """Adds that a generator is to write a draft anew: that of the critiques that it is given, of its own loop."""
        if request.role == "generator" and request.critiques:
            draft, loop = self._drafts.get(request.critiques[0], (0, ""))
            self._rewrites[request.path] = draft if loop == _loop_of(request.path) else 0

    def add_generated(self, event: DraftGenerated) -> None:
        """Adds a draft that a generator wrote, which follows the one that it was to write anew, if any."""
        if before := self._rewrites.pop(event.path, 0):
            self._before[event.draft.version] = before

    def told(self, rounds: tuple[Round, ...], requested: StepRequested) -> History:
        """Returns the history of these rounds, oldest first, for the draft that a request is about."""
        versions = {each.draft.version for each in rounds}
        judged = sorted(versions & self._line_to(self._draft_of(rounds, requested), min(versions, default=0)))
        if not judged:
            return History(rounds)
        now = self._said.get(judged[-1], {})
        raised = _named(now.values())
        of_critics = self._by_critic(judged)
        still = {text for said in of_critics.values() for text in said[-1]}
        earlier = dict.fromkeys(text for said in of_critics.values() for each in said for text in each)
        back = {text for critic in now for text in _returned(of_critics[critic])}
        return History(
            rounds,
            raised,
            tuple(text for text in earlier if text not in still),
            tuple(text for text in raised if text in back),
        )

    def _draft_of(self, rounds: tuple[Round, ...], requested: StepRequested) -> int:
        """Returns the draft that a request is about: of a generator that which it writes anew, or else the latest."""
        if requested.draft is not None:
            return requested.draft.version
        latest = rounds[-1].draft.version if rounds else 0
        return self._drafts.get(requested.critiques[0], (latest, ""))[0] if requested.critiques else latest

    def _line_to(self, draft: int, oldest: int) -> set[int]:
        """Returns a draft and those that it was made from, as far as they are no older than this one."""
        line = set[int]()
        while draft and draft >= oldest:
            line.add(draft)
            draft = self._before.get(draft, 0)
        return line

    def _by_critic(self, drafts: Sequence[int]) -> dict[str, list[tuple[str, ...]]]:
        """Returns what each critic named in these drafts, one after the other."""
        found: dict[str, list[tuple[str, ...]]] = {}
        for draft in drafts:
            for critic, said in self._said.get(draft, {}).items():
                found.setdefault(critic, []).append(tuple(dict.fromkeys(chain(*said))))
        return found


def _named(said: Collection[_Said]) -> tuple[str, ...]:
    """Returns the errors and then the suggestions of these critiques, each once."""
    errors, suggestions = zip(*said, strict=True) if said else ((), ())
    return tuple(dict.fromkeys(chain(*errors, *suggestions)))


def _returned(said: Sequence[tuple[str, ...]]) -> set[str]:
    """Returns what a critic names again that it did not name the last time, but before."""
    before = said[-2] if len(said) > 1 else ()
    return {text for text in said[-1] if text not in before and any(text in each for each in said[:-2])}


def _loop_of(path: str) -> str:
    return path.rpartition("/")[0].rpartition("[")[0]


def history_of(rounds: tuple[Round, ...]) -> History:
    """Returns which suggestions and errors of these rounds, oldest first, are open, fixed, or raised again."""
    if not rounds:
        return History()
    named = [dict.fromkeys((*each.errors, *each.suggestions)) for each in rounds]
    raised, earlier = named[-1], dict.fromkeys(line for lines in named[:-1] for line in lines)
    before = named[-2] if len(named) > 1 else {}
    return History(
        rounds,
        tuple(raised),
        tuple(line for line in earlier if line not in raised),
        tuple(line for line in raised if line in earlier and line not in before),
    )
