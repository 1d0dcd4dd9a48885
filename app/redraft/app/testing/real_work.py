"""What actors may not do in a simulation: reach for the network, start programs or threads, wait for real time.

Python tells its audit hooks of each such thing before it is done, and what a hook raises keeps it from being done.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Final
from unittest.mock import patch

_REAL: Final = {
    "socket.__new__": "opens a socket",
    "socket.getaddrinfo": "looks up an address",
    "socket.gethostbyname": "looks up an address",
    "redraft.wait_for_file": "waits for a socket or a pipe",
    "subprocess.Popen": "starts a program",
    "os.system": "starts a program",
    "os.posix_spawn": "starts a program",
    "os.fork": "starts a process",
    "time.sleep": "waits by the real clock (write await asyncio.sleep(...) instead, which takes no time here)",
    "_thread.start_new_thread": "starts a thread",
    "_thread.start_joinable_thread": "starts a thread",
}

_TELL: ContextVar[Callable[[str], None] | None] = ContextVar("tell", default=None)


class RealWork(Exception):
    """An actor did, or tried to do, what a simulation cannot: it would wait for what is outside of it."""


@contextmanager
def no_real_work(tell: Callable[[str], None]) -> Iterator[None]:
    """Raises RealWork in code within it that does real work, and tells what it is, in case that is swallowed."""
    token = _TELL.set(tell)
    try:
        yield
    finally:
        _TELL.reset(token)


@contextmanager
def guarded() -> Iterator[None]:
    """Where `no_real_work` holds. Hooks stay for as long as Python runs; this one looks at nothing else.

    Releases of Python before 3.13 do not tell them of sleeping, nor all of them of threads.
    """
    _listen()
    with patch.object(time, "sleep", _sleep), patch.object(threading.Thread, "start", _start):
        yield


@cache
def _listen() -> None:
    sys.addaudithook(_audited)


def _audited(event: str, arguments: tuple[object, ...]) -> None:
    if event in _REAL:
        _refuse(event)


def _refuse(event: str) -> None:
    if (tell := _TELL.get()) is not None:
        tell(_REAL[event])
        raise RealWork(f"in a simulation no actor {_REAL[event]}")


def _sleep(seconds: float) -> None:
    _refuse("time.sleep")
    _SLEEP(seconds)


def _start(thread: threading.Thread) -> None:
    _refuse("_thread.start_new_thread")
    _START(thread)


_SLEEP: Final = time.sleep
_START: Final = threading.Thread.start
