"""A run of a workflow on recorded answers, and what can be asserted of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from redraft.actors.workflow.workflow import Workflow, pin_versions
from redraft.app.client.result import Result, as_brief
from redraft.app.models.configuration import models_of
from redraft.app.settings.settings import LOCAL, Settings, read_settings
from redraft.app.testing.recorded.answers import Player, Recorder, read_answers, write_answers
from redraft.app.wiring.local import open_local
from redraft.app.workflows.actor_registry import build_actor_registry
from redraft.app.workflows.publish_targets import ActorEnvironment
from redraft.app.workflows.sources import prepare
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import Outcome
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.scales import score_text
from redraft.projections.display import counted, outcome_text, usage_text
from redraft.projections.run_views.sentences import history

_VARIES: Final = re.compile(r"\b\d[\d.,]*\s?(?:ms|s|min)\b|(?:\d{4}-\d\d-\d\d )?\b\d\d:\d\d:\d\d UTC\b")
"""Durations and times, which differ from run to run."""


class NotRecorded(AssertionError):
    """A step of the run has no recorded answer: the workflow asks something else than when they were recorded."""


class Story(msgspec.Struct, frozen=True):
    """A run that has ended: its result, and its events in order."""

    result: Result
    events: tuple[Recorded, ...]

    def check(
        self,
        *,
        outcome: Outcome = "accepted",
        min_score: float | None = None,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        max_iterations: int | None = None,
    ) -> None:
        """Raises AssertionError, which says all that is wrong, unless the run ended so; `min_score` is 0..1."""
        found, wrong = self.result, []
        if found.outcome != outcome:
            wrong.append(f"it ended as {outcome_text(found.outcome)}, not {outcome_text(outcome)}: {found.reason}")
        if min_score is not None and (found.score is None or found.score < min_score):
            score = "none" if found.score is None else score_text(found.score, found.scale, beside=True)
            wrong.append(f"its score is {score}, below {min_score:g}")
        if max_cost is not None and found.usage.cost > max_cost:
            wrong.append(f"it cost {found.usage.cost:g}, more than {max_cost:g}")
        if max_cost is not None and found.usage.unpriced:
            wrong.append(f"{counted(found.usage.unpriced, 'call')} of models without a known price are not in its cost")
        if max_tokens is not None and found.usage.tokens > max_tokens:
            wrong.append(f"it used {found.usage.tokens:,} tokens, more than {max_tokens:,}")
        if max_iterations is not None and found.iterations > max_iterations:
            wrong.append(f"it took {counted(found.iterations, 'iteration')}, more than {max_iterations}")
        if wrong:
            raise AssertionError("; ".join(wrong) + f"\n\n{self.text()}")

    def text(self) -> str:
        """Returns the history in sentences, without what differs from run to run; the usage and the draft below it."""
        lines = [f"{line.version:>3}  {self._plain(line.sentence)}" for line in history(self.events)]
        used = [] if self.result.usage.is_nothing else [self._plain(usage_text(self.result.usage))]
        return "\n".join([*lines, *used, "", self.result.text.rstrip("\n"), ""])

    def _plain(self, sentence: str) -> str:
        return _VARIES.sub("…", sentence.replace(self.result.run, "RUN"))


async def run_recorded(
    workflow: Workflow,
    brief: Brief | str,
    answers: Path,
    *,
    record: bool = False,
    live: Iterable[str] = (),
    settings: Settings | None = None,
) -> Story:
    """Runs a workflow on the answers of a file, by the shipped coordinator and worker, in memory; nobody is asked.

    With `record` the actors are asked, and the file is written. `live` names actors that are called each time, such as
    a critic of yours that is to judge recorded drafts. An answer is found by what the actor was given: brief, draft,
    critique, history, options, the run's state. Failed attempts are answers too, and so is what was used. Raises
    NotRecorded for a step without an answer, InputError for a file that cannot be read, and what `refine` raises.
    """
    chosen = (settings or read_settings()).model_copy(update={"store": "memory:", "bus": LOCAL})
    models = models_of(chosen)
    environment = ActorEnvironment(sys.stdout, Path.cwd(), models=models, webhook_hosts=chosen.webhook_hosts)
    actors = build_actor_registry(workflow.plan, workflow.actors.values(), environment)
    own = frozenset((actor.role, actor.name) for actor in workflow.actors.values())
    plan = pin_versions(prepare(workflow.plan, as_brief(brief), models, own), actors)
    acting = Recorder(actors) if record else Player(actors, read_answers(answers), frozenset(live))
    async with open_local(chosen, acting.actors) as runtime:
        run = await runtime.client.submit(plan, brief, by="test")
        result = await runtime.client.wait(run)
        events = await runtime.client.history(run)
    if isinstance(acting, Recorder):
        write_answers(answers, acting.answers)
    elif acting.missing:
        raise NotRecorded(f"{acting.missing[0]}; record the answers again ({answers})")
    return Story(result, events)
