"""How far a run is, said while it goes on: a line for each step, and on a terminal what is going on now."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TextIO, TypeAlias, assert_never

import msgspec

from redraft.events.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    BudgetReached,
    ChoicesCredited,
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    DraftRejected,
    IterationStarted,
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
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.envelope import Recorded
from redraft.events.plan import loops_of
from redraft.projections.history import history
from redraft.projections.plain import plain, score_text, visible

if TYPE_CHECKING:
    from rich.status import Status

Try: TypeAlias = tuple[str, int]
"""A step's path and which attempt it is."""

_NUMBERS: Final = re.compile(r"\[\d+\]")


class Progress(msgspec.Struct):
    """What a run's events, noted in order, say of it. `open` are the attempts that have no answer yet."""

    limits: dict[str, int] = {}
    pass_of: str = ""
    score: float | None = None
    doing: str = ""
    open: set[Try] = set()

    def note(self, recorded: Recorded) -> str:
        """Takes in an event; the line that tells of it, or nothing where there is none to tell."""
        event = recorded.data
        sentence = history((recorded,))[0].sentence
        match event:
            case RunStarted():
                self.limits = {path: loop.max_iterations for path, loop in loops_of(event.plan.steps)}
                return ""
            case IterationStarted():
                self.pass_of = self._pass(event)
                return f"{self.pass_of}{_scored(self.score)}"
            case StepRequested():
                self.open.add((event.path, event.attempt))
                self.score = event.score if event.score is not None else self.score
                self.doing = f"{event.role} {plain(event.choice.arm if event.choice else event.actor)}"
                return ""
            case DraftCritiqued():
                self.score = event.critique.score
            case LoopEnded() | RunEnded():
                self.open.clear()
                return sentence if isinstance(event, LoopEnded) else ""
            case RunErased() | ChoicesCredited():
                return ""
            case LoopClosing() | RunCancelled() | RunQuarantined() | DraftEdited() | BudgetReached():
                self.open.clear()
                return sentence
            case RunGuided() | LimitsChanged() | RunPaused() | RunResumed():
                return sentence
            case PanelClosed() | VerdictLate():
                return f"{plain(event.path)}: {sentence}"
            case ApprovalRequested():
                self.doing = f"waiting for people: redraft approve {recorded.run}"
                return f"{plain(event.path)}: {sentence}; redraft approve {plain(recorded.run)}, or reject"
            case DraftApproved() | DraftRejected() | ApprovalExpired():
                return f"{plain(event.path)}: {sentence}"
            case DraftGenerated() | DraftRefined() | DraftPublished() | StepFailed():
                pass
            case _:
                assert_never(event)
        self.open.discard((event.path, event.attempt))
        return f"{plain(event.path)}: {sentence}"

    @property
    def status(self) -> str:
        """What is going on now, in a line: the pass, the last score, and who is at work."""
        return ", ".join(filter(None, (self.pass_of, _scored(self.score).lstrip(", "), self.doing)))

    def _pass(self, event: IterationStarted) -> str:
        most = self.limits.get(_NUMBERS.sub("", event.path))
        return f"{plain(event.path)}: iteration {event.iteration}" + (f" of {most}" if most else "")


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
        print(text, file=self._stream, end="", flush=True)

    def pause(self) -> None:
        """Takes the status line away, so that something else can be written to the terminal; `show` brings it back."""
        if self._status is not None:
            self._status.stop()

    def _print(self, line: str) -> None:
        if self._status is not None:
            self._status.console.print(line)
        else:
            print(line, file=self._stream, flush=True)


def _status(stream: TextIO) -> Status:
    from rich.console import Console
    from rich.status import Status

    console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
    return Status("starting", console=console)


def _scored(score: float | None) -> str:
    return "" if score is None else f", score {score_text(score)}"
