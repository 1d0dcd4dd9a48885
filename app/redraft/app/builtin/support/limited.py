"""A program that runs another Python program, given by its path, under limits that the kernel enforces.

Its arguments are the id of the process that started it, with which it ends, bytes of memory, seconds of processor time,
the program, and its arguments.
"""

from __future__ import annotations

import ctypes
import os
import resource
import runpy
import signal
import sys
from contextlib import suppress
from typing import Final

FILES: Final = 64 * 1024 * 1024
"""Bytes of the largest file that it may write."""

_SET_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of Linux's prctl(2)."""


def limit(memory: int, seconds: int) -> None:
    """Sets the limits of this process and of all that it starts; a system that has no such limit leaves it out."""
    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: FILES,
        resource.RLIMIT_CORE: 0,
    }
    for kind, maximum in limits.items():
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (maximum, maximum))


def end_with(parent: int) -> None:
    """Has this process killed when its parent dies, where the system is Linux; ends it at once if that is dead already.

    `parent` is the process id of the one that started this one.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    parent, memory, seconds, *sys.argv = sys.argv[1:]
    end_with(int(parent))
    limit(int(memory), int(seconds))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
