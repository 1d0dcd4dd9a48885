"""Python processes without the time that importing takes: a program that has imported Redraft and forks itself.

`python -W error fork_server.py FD`: on the socket FD it is asked for processes, and how they ended; see `forked`.

At its end Python takes apart all that was imported, which costs a forked process, whose memory that is not, several
times what a command does. So it ends without; but with REDRAFT_HYPOTHESIS=thorough, as in `make check`, as Python does.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import sys
import threading
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from typing import Any, Final

from redraft.app.cli.verb_list import VERBS

IMPORTED: Final = (
    "anyio._backends._asyncio",
    "httpcore",
    "litestar.middleware.csrf",
    "litestar.middleware.response_cache",
    "litestar.plugins.attrs",
    "litestar.plugins.pydantic.plugins.init",
    "pydantic.v1",
    "redraft.app.cli",
    *sorted({f"redraft.app.cli.{verb.module}" for verb in VERBS.values()}),
    "redraft.app.cli.running.batch_run",
    "redraft.app.cli.running.run_locally",
    "redraft.app.cli.serving.serve",
    "redraft.app.cli.serving.supervisor",
    "redraft.app.wiring.deployment",
    "pydantic_ai.models.openai",
    "redraft.app.builtin.programs.command",
    "redraft.app.builtin.llm.ask",
    "redraft.app.builtin.plans",
    "redraft.app.builtin.prose.actors",
    "redraft.app.builtin.prose.running",
    "redraft.app.builtin.prose.structure",
    "redraft.app.cli.auditing.whole_log",
    "redraft.app.cli.views.record",
    "redraft.app.builtin.publishers.files",
    "redraft.app.dashboard.routes",
    "redraft.app.record.auditing.audit",
    "redraft.app.server.application",
    "redraft.app.server.serving",
    "redraft.events.postgres.lease",
    "redraft.events.postgres.recorder",
    "redraft.events.rabbit.bus",
    "redraft.projections.postgres.storage",
    "redraft.app.wiring.coordinating",
    "redraft.app.wiring.http_bus",
    "redraft.app.wiring.subscription_process",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.h11_impl",
    "uvloop",
)


def serve(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """In this process, answers until nobody asks any more. In each that it forks, what that is to become.

    Asked for the id of a process, it answers with the exit code, or with null while the process runs; for a process to
    be, with its id. Each question has a number, which its answer repeats.
    """
    while True:
        message, files, _, _ = socket.recv_fds(control, 2**16, 3)
        if not message:
            return None
        while not message.endswith(b"\n"):
            message += control.recv(2**16)
        number, asked = json.loads(message)
        if isinstance(asked, int):
            ended, status = os.waitpid(asked, os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if ended else None
        elif answer := os.fork():
            for file in files:
                os.close(file)
        else:
            return asked, files
        control.sendall(json.dumps([number, answer]).encode() + b"\n")


def become(asked: dict[str, Any], files: list[int]) -> None:
    """Does what `python -m redraft ARGUMENTS`, or `python SCRIPT ARGUMENTS`, does."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has jobs in the background ignore it
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.executable = asked["python"] or sys.executable
    for name, times in asked["quicker"].items():
        module, _, constant = name.rpartition(".")
        found = import_module(module)
        setattr(found, constant, getattr(found, constant) / times)
    script, *arguments = asked["command"]
    sys.argv = [script, *arguments]
    if script == "redraft":
        sys.path[0] = asked["folder"]
        runpy.run_module("redraft", run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(script)  # noqa: PTH120  as Python does it
        runpy.run_path(script, run_name="__main__")


def end(code: object) -> None:
    """Does what Python does at the end of a program, except for taking apart what was imported.

    Returns where Python has something to say, which is then left to it.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # what nobody closed is told
    if not isinstance(code, int | None):
        return
    with suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit((code or 0) & 0xFF)


def main() -> None:
    as_python_does = os.environ.get("REDRAFT_HYPOTHESIS") == "thorough"
    for module in IMPORTED:
        import_module(module)
    with redirect_stdout(StringIO()):
        import_module("redraft.app.cli").main(["--version"])  # makes what every command needs
    gc.freeze()
    asked = None
    with suppress(KeyboardInterrupt), socket.socket(fileno=int(sys.argv[1])) as control:
        asked = serve(control)
    if asked is None:
        return
    try:
        become(*asked)
    except SystemExit as asked_to_end:
        if not as_python_does:
            end(asked_to_end.code)
        raise
    if not as_python_does:
        end(0)


if __name__ == "__main__":
    main()
