"""One mutant is tried: in a process forked for it, where tests, or histories, are to say that something is wrong."""

from __future__ import annotations

import ast
import inspect
import math
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, NoReturn, TypeAlias

import msgspec
import pytest

from redraft.app.testing.history import history

LOOPS: Final = 20.0
"""Seconds of processor time in one history after which a mutant loops for ever."""

SECONDS: Final = 180
"""Time after which a mutant goes on for ever."""

IDLE: Final = 10
"""Seconds of which a mutant that waits for ever sleeps more than four fifths."""

ENDLESS: Final = "endless"
"""By whom a mutant is killed that loops, waits, or gathers for ever."""

BYTES: Final = 3 << 29
"""Memory beyond which a mutant gathers for ever."""

Around: TypeAlias = Callable[[pytest.Item], AbstractContextManager[None]]


class Fate(msgspec.Struct, frozen=True):
    """`killed` by a test or a seed, `survived`, `invalid` (no Python), or `untried`; by whom or why, after how long."""

    word: str
    by: str
    seconds: float


def forked(work: Callable[[], str], times: int = 1, *, may_wait: bool = False) -> Fate:
    """What becomes of a mutant that `work` tries: it returns who killed it, or nothing, in so many `times` the time.

    What does nothing for a while waits for ever, unless it `may_wait`.
    """
    began = time.monotonic()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _be_a_child(work, writer)
    os.close(writer)
    with suppress(OSError):
        os.setpgid(child, child)
    try:
        told = _read(reader, None if may_wait else child, began + times * SECONDS)
    finally:
        os.close(reader)
        _end(child)
    taken = round(time.monotonic() - began, 1)
    if told is None:
        return Fate("killed", ENDLESS, taken)
    word, _, by = told.partition(" ")
    return Fate(word, by, taken)


def failing_test(items: Sequence[pytest.Item], around: Around) -> str:
    """The first of these tests that fails now; `around` is entered for each."""
    failed: list[str] = []

    class Listener:
        @pytest.hookimpl
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

    if not items:
        return ""
    items[0].config.pluginmanager.register(Listener())
    for item, following in zip(items, [*items[1:], None], strict=True):
        with around(item):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failed:
            return failed[0]
    return ""


def allow(seconds: float) -> None:
    """Ends this process once it has used so much more processor time."""
    until = math.ceil(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def failing_seed(count: int) -> str:
    """The first of these histories that goes wrong now."""
    for seed in range(count):
        allow(LOOPS)
        try:
            wrong = bool(history(seed).wrong)
        except Exception:  # noqa: BLE001 - a history that cannot be made is wrong
            wrong = True
        if wrong:
            return f"seed {seed}"
    return ""


def put_in_place(module: str, name: str, text: str) -> None:
    """Whoever holds the function, it does from now on what this text of its module says."""
    home = import_module(f"redraft.{module}")
    function = function_of(home, name)
    (code,) = [each for each in codes(compile(text, str(home.__file__), "exec")) if each.co_qualname == name]
    function.__code__ = code
    was, becomes = _arguments(inspect.getsource(home), name), _arguments(text, name)
    values = list(function.__defaults__ or ())
    for number, (old, new) in enumerate(zip(was.defaults, becomes.defaults, strict=True)):
        values[number] = _changed(old, new, values[number])
    function.__defaults__ = tuple(values)
    held = function.__kwdefaults__ or {}
    for each, before, after in zip(becomes.kwonlyargs, was.kw_defaults, becomes.kw_defaults, strict=True):
        if before is not None and after is not None:
            held[each.arg] = _changed(before, after, held[each.arg])


def function_of(home: Any, name: str) -> FunctionType:
    *above, last = name.split(".")
    found = inspect.getattr_static(getattr(home, above[0]) if above else home, last)
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, staticmethod | classmethod):
        found = found.__func__
    found = inspect.unwrap(found)
    assert isinstance(found, FunctionType)
    return found


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes(each)


def _arguments(text: str, name: str) -> ast.arguments:
    found: Any = ast.parse(text)
    for part in name.split("."):
        (found,) = [each for each in found.body if getattr(each, "name", "") == part]
    arguments = found.args
    assert isinstance(arguments, ast.arguments)
    return arguments


def _changed(old: ast.expr, new: ast.expr, value: Any) -> Any:
    """A default is changed from one literal to another, or not at all."""
    return value if ast.dump(old) == ast.dump(new) else ast.literal_eval(new)


def _be_a_child(work: Callable[[], str], writer: int) -> NoReturn:
    """Says what became of the mutant, and nothing else, and ends without a word to whoever is to be told of ends."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    try:
        by = work()
        told = f"killed {by}" if by else "survived"
    except SyntaxError as error:
        told = f"invalid {error.msg}"
    except MemoryError:
        told = f"killed {ENDLESS}"
    except BaseException as error:  # noqa: BLE001 - it is told
        told = f"untried {type(error).__name__}: {error}"
    os.write(writer, told.encode())
    os._exit(0)


def _read(reader: int, child: int | None, until: float) -> str | None:
    """What the child said; None if it said nothing in time, did next to nothing for a while, or was ended."""
    while (now := time.monotonic()) < until:
        before = _busy(child)
        ready, _, _ = select.select([reader], [], [], min(IDLE, until - now))
        if ready:
            return os.read(reader, 1 << 16).decode() or None
        if _busy(child) < before + IDLE / 5:
            return None
    return None


def _busy(child: int | None) -> float:
    """The seconds in which a process ran, or waited for a processor; without end where nobody tells."""
    if child is None:
        return math.inf
    try:
        told = [each.read_text(encoding="ascii").split() for each in Path(f"/proc/{child}/task").glob("*/schedstat")]
    except OSError:
        told = []
    return sum(int(each) for lines in told for each in lines[:2]) / 1e9 if told else math.inf


def _end(child: int) -> None:
    """Ends the child and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
