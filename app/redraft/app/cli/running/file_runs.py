"""Refines files in place: finds them, runs a workflow for each, and judges the text that is in each file afterwards."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from redraft.actors.workflow.actor import Actor
from redraft.app.cli.running.run_locally import UNFIT
from redraft.app.cli.running.run_request import prepare_batch
from redraft.app.cli.shared.options import RunOptions
from redraft.app.client.result import Result
from redraft.app.models.configuration import models_of
from redraft.app.process.files import read_plain, refuse_special, write_whole
from redraft.app.runs.refine import Ended, Item, run_batch
from redraft.app.settings.settings import Settings
from redraft.app.wiring.local import LocalRuntime, open_local
from redraft.app.workflows.briefs import read_brief, workflow_for
from redraft.app.workflows.publish_targets import ActorEnvironment
from redraft.events.errors import EmptyText, InputError
from redraft.events.messages.content import Brief, Critique
from redraft.events.messages.domain_events import DraftCritiqued, Outcome
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Plan, Step
from redraft.events.messages.scales import Scale
from redraft.projections.run_views.chart import scores

CONCURRENCY: Final = 4
"""The number of files that are refined at the same time."""

GIT_PATIENCE: Final = 60.0
"""Seconds that git may take to say which files were changed."""

_BOM: Final = b"\xef\xbb\xbf"
_NOTHING: Final = io.BytesIO()
_OPTION: Final = "file"
_CHANGED: Final = "it was changed while it was refined; call the command again"


class Wanted(msgspec.Struct, frozen=True):
    """The least score (0..1) that a file must reach, and whether a better text is written into it."""

    min_score: float
    write: bool


class JudgedFile(msgspec.Struct, frozen=True):
    """A file and its run. `before` is the score (0..1) of its text, `after` that of the refined one; None: no score.

    `changed`: the refined text differs and may be used. `written`: it was written into the file. `is_below`: the text
    in the file is not good enough. `remarks` are those of the last critique of that text. Scores are shown on `scale`.
    `fault` is why the refined text could not be written, empty otherwise: the file is left as it is, and what the run
    says of its text is about the one that it began with.
    """

    file: str
    run: str
    outcome: Outcome
    reason: str
    before: float | None
    after: float | None
    changed: bool
    written: bool
    is_below: bool
    remarks: tuple[str, ...] = ()
    scale: Scale | None = None
    fault: str = ""


def changed_since(ref: str) -> list[str]:
    """Returns the files below this folder that were added or changed since the branch left `ref`. Raises InputError."""
    if not ref.strip() or ref.startswith("-"):
        raise InputError(f"--since {ref!r} is no name of a commit; give one such as origin/main")
    command = ["git", "diff", "--name-only", "-z", "--relative", "--diff-filter=ACMR", f"{ref}...HEAD", "--"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=GIT_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"--since {ref}: git cannot be asked: {error}; name the files instead") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise InputError(f"--since {ref}: {said}; fetch it first (in an action: fetch-depth: 0)")
    named = [os.fsdecode(each) for each in done.stdout.split(b"\0") if each]
    return [each for each in named if Path(each).is_file() and not Path(each).is_symlink()]


def without_links(files: Sequence[str], pass_over: Callable[[str], None]) -> list[str]:
    """Returns the files that may be written; `pass_over` is told of each link, which a new file would replace."""
    for file in files:
        if Path(file).is_symlink():
            pass_over(f"{file}: this is a symbolic link, and only plain files are written; name the file it points to")
    return [file for file in files if not Path(file).is_symlink()]


def group_by_workflow(
    files: Sequence[str], workflow: str, limit: int, pass_over: Callable[[str], None], *, named: bool
) -> dict[str, list[Item]]:
    """Returns the files as briefs, by the workflow that each gets: the one that is named, or that its name asks for.

    `pass_over` is told of a file that is empty, for which there is none, or that cannot be read. For the last two
    InputError is raised where a person `named` the files.
    """
    found: dict[str, list[Item]] = {}
    for number, file in enumerate(dict.fromkeys(files), 1):
        try:
            brief = _brief_of(file, limit)
            found.setdefault(workflow or workflow_for(brief), []).append(Item(number, file, brief))
        except InputError as error:
            if named and not isinstance(error, EmptyText):
                raise
            pass_over(str(error))
    return found


def _brief_of(file: str, limit: int) -> Brief:
    if not Path(file).is_file():
        raise InputError(f"{file}: there is no such file; correct the path")
    return read_brief(file, _NOTHING, limit=limit)


async def refine_files(
    settings: Settings,
    given: RunOptions,
    groups: dict[str, list[Item]],
    wanted: Wanted,
    tell: Callable[[JudgedFile], None],
) -> None:
    """Refines the files of each workflow, and tells of each as it ends. Raises InputError, StoreError."""
    models = models_of(settings)
    environment = ActorEnvironment(io.StringIO(), Path.cwd(), models=models, webhook_hosts=settings.webhook_hosts)
    prepared: list[tuple[list[Item], Plan, tuple[Actor, ...]]] = []
    for name, items in groups.items():  # all of them, before the first file is written
        longest = max((item.brief for item in items), key=lambda brief: len(brief.text))
        plan, actors, *_ = prepare_batch(given, name, environment, longest)
        _require_source(name, plan)
        prepared.append((items, plan, actors))
    for items, plan, actors in prepared:
        async with open_local(settings, actors) as runtime:
            ended: list[Ended] = []
            await run_batch(runtime, plan, items, [""] * len(items), CONCURRENCY, ended.append)
            briefs = {item.line: item.brief for item in items}
            for each in sorted(ended, key=lambda end: end.line):
                tell(await _judge(runtime, each, briefs[each.line], wanted))


def _require_source(name: str, plan: Plan) -> None:
    """Raises InputError for a workflow whose first draft is not the file itself."""
    first = plan.steps[0]
    if not isinstance(first, Step) or (first.role, first.actor) != ("generator", "source"):
        raise InputError(
            f"{name} writes its own first draft, so it cannot refine a file in place; give a workflow that starts with "
            "the generator source, such as prose"
        )


async def _judge(runtime: LocalRuntime, ended: Ended, brief: Brief, wanted: Wanted) -> JudgedFile:
    result = ended.end
    if not isinstance(result, Result):
        return JudgedFile(ended.id, ended.run, "failed", str(result), None, None, False, False, True)
    events = await runtime.client.history(result.run)
    known = {point.draft: point.score for point in scores(events)}
    before = known.get(1)
    fit = result.outcome not in UNFIT and result.draft is not None
    changed = fit and result.text != brief.text
    written, fault = changed and wanted.write and (result.outcome == "accepted" or _is_more(result.score, before)), ""
    if written:
        fault = _write(Path(ended.id), brief.text, result.text)
        written = not fault
    kept = result.draft.version if written and result.draft else 1
    there = known.get(kept)
    is_below = not fit or (there < wanted.min_score if there is not None else result.outcome != "accepted")
    remarks = _remarks(events, kept)
    return JudgedFile(
        *(ended.id, result.run, result.outcome, result.reason, before, result.score),
        *(changed, written, is_below, remarks, result.scale, fault),
    )


def _is_more(now: float | None, before: float | None) -> bool:
    return now is not None and (before is None or now > before)


def _remarks(events: Sequence[Recorded], draft: int) -> tuple[str, ...]:
    """Returns what the critics said last of a draft: the errors, or else what they suggest."""
    said: list[Critique] = [
        each.data.critique
        for each in events
        if isinstance(each.data, DraftCritiqued) and each.data.draft.version == draft
    ]
    errors = [text for each in said for text in each.errors]
    return tuple(dict.fromkeys(errors or [text for each in said for text in (*each.weaknesses, *each.suggestions)]))


def _write(path: Path, before: str, after: str) -> str:
    """Writes the refined text where the file still holds the one `before`; returns why it could not, or nothing."""
    try:
        refuse_special(path, _OPTION)
        mode = path.stat().st_mode & 0o777
        there = read_plain(path, max(len(before.encode()), len(after.encode())) + len(_BOM))
        if there.removeprefix(_BOM) not in (before.encode(), after.encode()):
            return _CHANGED
        if not mode & 0o222 or not os.access(path, os.W_OK):
            return "it is read-only; make it writable, and call the command again"
        write_whole(path, (_BOM if there.startswith(_BOM) else b"") + after.encode(), _OPTION, mode)
    except FileNotFoundError:
        return "it was removed while it was refined"
    except OSError as error:
        return f"{error.strerror}; check its permissions"
    except InputError as error:
        return str(error).removeprefix(f"{_OPTION} {path}: ")
    except ValueError:  # it is larger now
        return _CHANGED
    return ""
