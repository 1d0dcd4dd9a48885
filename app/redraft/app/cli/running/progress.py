"""Shows the progress of a run: a line for each step, and on a terminal a live status line."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TextIO, TypeAlias, assert_never

import msgspec

from redraft.events.messages.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    BudgetReached,
    ChoicesCredited,
    CriticSkipped,
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    DraftRejected,
    IterationStarted,
    LessonStruck,
    LimitsChanged,
    LoopClosing,
    LoopEnded,
    PanelClosed,
    RunCancelled,
    RunEnded,
    RunErased,
    RunGuided,
    RunPaused,
    RunQuarantined,
    RunResumed,
    RunStarted,
    StateChanged,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import loops_of
from redraft.events.messages.scales import score_text
from redraft.projections.display import plain, visible
from redraft.projections.run_views.sentences import next_line

if TYPE_CHECKING:
    from rich.status import Status

Try: TypeAlias = tuple[str, int]
"""A step's path and which attempt it is."""

_NUMBERS: Final = re.compile(r"\[\d+\]")


class RunProgress(msgspec.Struct):
    """The progress of a run, from its events in order. `open` are the attempts without an answer.

    `asked` maps each step to whom it was requested of, as `next_line` keeps it.
    """

    limits: dict[str, int] = {}
    iteration: str = ""
    score: str = ""
    doing: str = ""
    open: set[Try] = set()
    asked: dict[str, str] = {}

    def note(self, recorded: Recorded) -> str:
        """Notes an event; returns the line about it, empty where there is nothing to report."""
        self._follow(recorded)
        event = recorded.data
        sentence = next_line(recorded, self.asked).sentence
        match event:
            case RunStarted() | StepRequested() | RunEnded() | RunErased() | ChoicesCredited():
                return ""
            case IterationStarted():
                return f"{self.iteration}{_format_score(self.score)}"
            case LoopEnded() | LoopClosing() | RunCancelled() | RunQuarantined() | DraftEdited() | BudgetReached():
                return sentence
            case LessonStruck() | RunGuided() | LimitsChanged() | RunPaused() | RunResumed():
                return sentence
            case ApprovalRequested():
                return f"{plain(event.path)}: {sentence}; redraft approve {plain(recorded.run)}, or reject"
            case (
                CriticSkipped()
                | PanelClosed()
                | VerdictLate()
                | DraftApproved()
                | DraftRejected()
                | ApprovalExpired()
                | StepFailed()
            ):
                return f"{plain(event.path)}: {sentence}"
            case DraftGenerated() | DraftRefined() | DraftCritiqued() | CriticSkipped() | DraftPublished():
                return f"{plain(event.path)}: {sentence}"
            case StateChanged(path=path):
                return f"{plain(path)}: {sentence}" if path else sentence
            case _:
                assert_never(event)

    def _follow(self, recorded: Recorded) -> None:
        """Takes in what changes the status, and which attempts are open."""
        match event := recorded.data:
            case RunStarted():
                self.limits = {path: loop.max_iterations for path, loop in loops_of(event.plan.steps)}
            case IterationStarted():
                self.iteration = self._iteration_of(event)
            case StepRequested():
                self.open.add((event.path, event.attempt))
                self.score = self.score if event.score is None else score_text(event.score, event.scale)
                self.doing = f"{event.role} {plain(event.choice.arm if event.choice else event.actor)}"
            case ApprovalRequested():
                self.doing = f"waiting for people: redraft approve {recorded.run}"
            case (
                DraftGenerated() | DraftRefined() | DraftCritiqued() | DraftPublished() | StateChanged() | StepFailed()
            ):
                self.open.discard((event.path, event.attempt))
                if isinstance(event, DraftCritiqued):
                    said = event.critique
                    self.score = score_text(said.score, said.scale) if said.scored else ""
            case LoopEnded() | RunEnded() | LoopClosing() | RunCancelled() | RunQuarantined():
                self.open.clear()
            case DraftEdited() | BudgetReached():
                self.open.clear()
            case _:
                pass

    @property
    def status(self) -> str:
        """Returns the status in a line: the iteration, the last score, and the actors at work."""
        return ", ".join(filter(None, (self.iteration, _format_score(self.score).lstrip(", "), self.doing)))

    def _iteration_of(self, event: IterationStarted) -> str:
        limit = self.limits.get(_NUMBERS.sub("", event.path))
        return f"{plain(event.path)}: iteration {event.iteration}" + (f" of {limit}" if limit else "")


class Screen:
    """Standard error as a run uses it. `quiet` shows nothing; a status line needs a terminal."""

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._stream = stream
        self._quiet = quiet
        self._status: Status | None = None
        self._writing = ""
        if not quiet and stream.isatty():
            self._status = _status(stream)

    def show(self, line: str, status: str) -> None:
        """A line that stays, if there is one, and what is going on now."""
        if self._quiet:
            return
        if self._writing and line:
            self._print_raw("\n")
            self._writing = ""
        if line:
            self._print(visible(line))
        if self._status is not None and not self._writing:
            self._status.update(plain(status))
            self._status.start()

    def write(self, path: str, text: str) -> None:
        """A piece of what a step's model writes, as it comes; which step it is stands before its first piece."""
        if self._quiet:
            return
        self.pause()
        if path != self._writing:
            self._print_raw(f"{chr(10) if self._writing else ''}{plain(path)}: ")
            self._writing = path
        self._print_raw(visible(text))

    def _print_raw(self, text: str) -> None:
        with suppress(OSError):  # a run goes on where its progress cannot be written
            print(text, file=self._stream, end="", flush=True)

    def pause(self) -> None:
        """Takes the status line away, so that something else can be written to the terminal; `show` brings it back."""
        if self._status is not None:
            self._status.stop()

    def _print(self, line: str) -> None:
        if self._status is not None:
            self._status.console.print(line)
        else:
            self._print_raw(f"{line}\n")


def _status(stream: TextIO) -> Status:
    from rich.console import Console
    from rich.status import Status

    console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
    return Status("starting", console=console)


def _format_score(score: str) -> str:
    return score and f", score {score}"
