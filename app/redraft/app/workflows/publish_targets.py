"""The publisher `file` of the command line, which writes the file that `--out` names.

The shipped publisher `file` writes below one folder. Which one that is stands in no plan, and a run that is resumed has
to find it again: so `--out` puts it into the step's options as `folder`, which no plan that people write may name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TextIO

import msgspec

from redraft.actors.plans.paths import map_steps, steps_in
from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.context import Context
from redraft.actors.workflow.roles import publisher
from redraft.app.builtin.publishers.files import file_publisher
from redraft.app.builtin.publishers.in_place import Published
from redraft.app.builtin.support.options import RELEASE
from redraft.app.models.configuration import NO_MODEL, Models
from redraft.app.process.files import refuse_special
from redraft.events.errors import InputError, PlanError
from redraft.events.messages.content import Brief, Draft, Receipt
from redraft.events.messages.plan import Option, Plan, Step

FOLDER: Final = "folder"
_FILE: Final = ("publisher", "file")
_PLACEHOLDERS: Final = re.compile(r"\{(run|version)\}")


@dataclass(frozen=True, slots=True)
class ActorEnvironment:
    """The environment of shipped actors.

    Publishers write: `stdout` to `stream`, calling `before` each time, and `file` below `folder`. `models` says what
    those ask that ask a language model. `webhook_hosts` is the setting of this name.
    """

    stream: TextIO
    folder: Path
    before: Callable[[], None] = lambda: None
    models: Models = NO_MODEL
    webhook_hosts: Mapping[str, Collection[str]] = field(default_factory=dict)


def file_actor(folder: Path) -> Actor:
    """The publisher `file`, which writes below the folder that its step names (put there by `--out`), else `folder`."""
    published: Published = {}

    @publisher(name="file", version=RELEASE)
    def save(draft: Draft, brief: Brief, context: Context) -> Receipt | str:
        options = dict(context.options)
        named = options.pop(FOLDER, None)
        shipped = file_publisher(Path(str(named)) if named else folder, published)
        receipt: Receipt = shipped(draft=draft, brief=brief, context=replace(context, options=options))
        return receipt

    return save


def check_out(path: Path, *, several: bool = False) -> Path:
    """The path; raises InputError, before any work is done, when plainly no file can be written there.

    Where the draft has `several` files, it is that of a folder, which may be there.
    """
    path = path.absolute() if several else path  # `.` has a name then
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"--out {path}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise InputError(f"--out {path}: it may not be written; check the permissions, or name another file")
    if path.name.startswith("."):
        raise InputError(
            f"--out {path}: this file is hidden, and programs take their settings from hidden files; name another file"
        )
    if not several:
        refuse_special(path, "--out")
    elif os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
        raise InputError(f"--out {path}: the draft has several files, and this is no folder; name one, or a new one")
    if "{" in _PLACEHOLDERS.sub("", path.name) or "}" in _PLACEHOLDERS.sub("", path.name):
        raise InputError(f"--out {path}: in braces there may only be {{run}} or {{version}}; name another file")
    return path


def publish_to(plan: Plan, path: Path) -> Plan:
    """The plan with its publisher `file` writing to this path. Raises PlanError when it has no such step."""
    if not any((step.role, step.actor) == _FILE for _, step in steps_in(plan.steps)):
        raise PlanError(
            plan.name, "--out needs a step by the publisher file; add one to the plan: publish: {actor: file}"
        )
    options: dict[str, Option] = {"path": path.name, FOLDER: str(path.parent.resolve())}

    def redirect(path: str, step: Step) -> Step:
        return msgspec.structs.replace(step, options=options) if (step.role, step.actor) == _FILE else step

    return msgspec.structs.replace(plan, steps=map_steps(plan.steps, redirect))


def guard_source(plan: Plan, own: Collection[Actor], source: str) -> Plan:
    """The plan with the option `in_place` where its shipped publisher `file` writes to the `source` of the brief."""
    if not source or any((actor.role, actor.name) == _FILE for actor in own):
        return plan

    def guard(_: str, step: Step) -> Step:
        path = str(step.options.get("path", "")) if (step.role, step.actor) == _FILE else ""
        target = Path(str(step.options.get(FOLDER, ""))) / path
        if not path or not target.exists() or not target.samefile(source):
            return step
        return msgspec.structs.replace(step, options={**step.options, "in_place": True})

    return msgspec.structs.replace(plan, steps=map_steps(plan.steps, guard))


def refuse_folder(plan: Plan, own: Collection[Actor]) -> None:
    """Raises PlanError when a plan that somebody wrote names the folder of the shipped publisher `file` itself."""
    if any((actor.role, actor.name) == _FILE for actor in own):
        return
    for path, step in steps_in(plan.steps):
        if (step.role, step.actor) == _FILE and FOLDER in step.options:
            raise PlanError(
                path, f"with.{FOLDER} is for --out alone; give a path below the working folder, or --out PATH"
            )
