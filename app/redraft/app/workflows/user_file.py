"""Running a Python file that the user named on the command line: its workflows, actors and projections.

Only a path that a person typed is ever loaded, never a name that came in a plan, a message or an event.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.workflow import Workflow
from redraft.app.builtin.support.options import nearest
from redraft.app.process.user_output import user_output
from redraft.events.errors import ActorError, InputError, RedraftError
from redraft.projections.engine.projection import Projection

_LONGEST: Final = 300


def workflow_in(path: Path, name: str) -> tuple[Workflow, tuple[Actor, ...]]:
    """The workflow of this name in a file, and all actors of the file.

    Raises InputError when the file cannot be loaded, has no such name, or has something else of this name.
    """
    module = load_file(path)
    found = vars(module).get(name)
    workflows = [each for each, value in vars(module).items() if isinstance(value, Workflow)]
    if isinstance(found, Workflow):
        return found, _actors(module)
    if not workflows:
        raise InputError(f"{path}: there is no workflow in it; write {name} = Workflow({name!r}).start_with(...)")
    if name in vars(module):
        raise InputError(f"{path}: {name} is {_kind(found)}, not a Workflow; {nearest(name, workflows)}")
    raise InputError(f"{path}: there is no {name!r} in it; {nearest(name, workflows)}")


def workflows_in(path: Path) -> tuple[tuple[Workflow, ...], tuple[Actor, ...]]:
    """All workflows of a file, and all of its actors. Raises InputError when it cannot be loaded, or has no actor."""
    module = load_file(path)
    found = _actors(module)
    if not found:
        raise _no_actor(path)
    return tuple(dict.fromkeys(each for each in vars(module).values() if isinstance(each, Workflow))), found


def actors_in(path: Path) -> tuple[Actor, ...]:
    """All actors of a file. Raises InputError when it cannot be loaded, or has none."""
    found = _actors(load_file(path))
    if not found:
        raise _no_actor(path)
    return found


def _no_actor(path: Path) -> ActorError:
    return ActorError(f"{path}: there is no actor in it; decorate its functions with @generator, @critic, @refiner, …")


def projections_in(path: Path, name: str = "") -> tuple[Projection, ...]:
    """The projection of this name in a file, by its variable's name or its own; without a name all of them.

    Raises InputError when the file cannot be loaded, or has none such.
    """
    found = {each: value for each, value in vars(load_file(path)).items() if isinstance(value, Projection)}
    if not found:
        raise InputError(f"{path}: there is no projection in it; write words = Projection('words', 1, tables, apply)")
    if not name:
        return tuple({value.name: value for value in found.values()}.values())
    named = {**{value.name: value for value in found.values()}, **found}
    if name not in named:
        raise InputError(f"{path}: there is no projection {name!r} in it; {nearest(name, list(named))}")
    return (named[name],)


def function_in(target: str) -> Callable[..., Any]:
    """The function that `file.py:name` names. Raises InputError when there is none."""
    file, colon, name = target.rpartition(":")
    if not colon or not file.endswith(".py") or not name:
        raise InputError(f"{target}: give file.py:function")
    module = load_file(Path(file))
    found = vars(module).get(name)
    own = {each: value for each, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    functions = [each for each, value in own.items() if inspect.isfunction(value) and not each.startswith("_")]
    if not callable(found) or isinstance(found, type | Workflow | Actor):
        remedy = nearest(name, functions) if functions else f"write `async def {name}(event): ...`"
        raise InputError(f"{file}: there is no function {name!r} in it; {remedy}")
    return cast("Callable[..., Any]", found)


def load_file(path: Path) -> ModuleType:
    """The module that a Python file is. Its folder can be imported from, after all that is installed.

    What it prints goes to standard error. Raises InputError when there is no such file, or when running it fails,
    naming the file and line of the user's code.
    """
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; give the path of a Python file, such as article.py")
    name = f"redraft_user_{path.stem}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise InputError(f"{path}: this is not a Python file; give one that ends with .py")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        with user_output():
            specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a user's file raises is reported with its line
        raise InputError(f"{_place(path, error)}: {_error_message(error)}") from None
    return module


def _actors(module: ModuleType) -> tuple[Actor, ...]:
    """The actors of a module, each once, whatever names it has; those in its workflows are among them.

    Each says from which file it was loaded.
    """
    values = list(vars(module).values())
    within = [actor for value in values if isinstance(value, Workflow) for actor in value.actors.values()]
    found: list[Actor] = []
    for each in [*values, *within]:
        if isinstance(each, Actor) and each not in found:
            found.append(replace(each, file=str(module.__file__)))
    return tuple(found)


def _place(path: Path, error: BaseException) -> str:
    """The user's file and line that an error comes from: the last one in the folder of the file that was named."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{_short(path, error.filename)}, line {error.lineno}"
    folder = str(path.resolve().parent)
    frames = [each for each in traceback.extract_tb(error.__traceback__) if _is_within(each.filename, folder)]
    return f"{_short(path, frames[-1].filename)}, line {frames[-1].lineno}" if frames else str(path)


def _is_within(file: str, folder: str) -> bool:
    return Path(file).resolve().is_relative_to(folder) and "site-packages" not in file


def _short(path: Path, file: str) -> str:
    """The file as the user typed it, or one beside it by its path from the same place."""
    folder = path.resolve().parent
    return str(path.parent / Path(file).resolve().relative_to(folder)) if _is_within(file, str(folder)) else file


def _error_message(error: BaseException) -> str:
    match error:
        case RedraftError():
            return str(error)
        case SyntaxError():
            return f"this is not Python: {error.msg}"
        case SystemExit():
            return 'it ends the program when it is loaded; put that below `if __name__ == "__main__":`'
        case _:
            text = " ".join(str(error).split())
            return f"{type(error).__name__}: {text[:_LONGEST]}" if text else type(error).__name__


def _kind(value: object) -> str:
    return f"the {value.role} {value.name}" if isinstance(value, Actor) else f"of type {type(value).__name__}"
