"""Which critics vetoed which draft: what people overrule when they approve it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from redraft.events.domain_events import DomainEvent, DraftApproved, DraftCritiqued, RunStarted
from redraft.events.plan import Node, Parallel, Repeat, Step
from redraft.projections.plain import NAME_LENGTH, plain


class Vetoes:
    """The vetoes of a run so far, by the draft's hash. A gate's no is none: nobody overrules it."""

    def __init__(self) -> None:
        self._gates: frozenset[str] = frozenset()
        self._counts = False
        self._said: dict[str, dict[str, None]] = {}

    def note(self, event: DomainEvent) -> None:
        match event:
            case RunStarted(plan=plan, rules=rules):
                self._gates, self._counts = frozenset(_gates(plan.steps)), rules >= 2
            case DraftCritiqued(path=path, draft=draft, critique=said) if self._counts and said.approved is False:
                name = path.rpartition("/")[2].partition("[")[0]
                if name not in self._gates:
                    self._said.setdefault(draft.sha256, {})[plain(name, NAME_LENGTH)] = None
            case _:
                pass

    def overruled_by(self, event: DomainEvent) -> str:
        """Returns whose veto people overrule with this event, in a few words; empty when it overrules none."""
        if not isinstance(event, DraftApproved) or not event.granted:
            return ""
        critics = self._said.get(event.draft.sha256, {})
        return f"overrules the veto of critic {', '.join(critics)}" if critics else ""


def _gates(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        match node:
            case Step(name=name, gate=True):
                yield name
            case Parallel(steps=steps):
                yield from _gates(steps)
            case Repeat(body=body):
                yield from _gates(body)
            case _:
                pass
