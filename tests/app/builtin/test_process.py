"""Programs that end well, hang, flood, refuse to die, or leave children behind; all of them real."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from redraft.app.builtin.support import process
from redraft.app.builtin.support.process import Finished, run_process
from redraft.app.builtin.support.workspace import environment, workspace
from redraft.events.errors import PermanentError

PATIENCE = 20.0
ENV = {"PATH": os.environ["PATH"]}
PRINTS = "head -c 2000 /dev/zero"
"""More than the limit of who is to be ended once it is under way, however long it took to begin."""


async def sh(script: str, cwd: Path, *, timeout: float = PATIENCE, grace: float = 0.2, **more: object) -> Finished:
    return await run_process(("sh", "-c", script), timeout=timeout, grace=grace, cwd=cwd, env=ENV, **more)  # type: ignore[arg-type]


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in {"Z", "X"}


async def test_output_and_exit_code_are_given(tmp_path: Path) -> None:
    finished = await sh("cat; echo problem >&2; exit 3", tmp_path, stdin=b"text")

    assert finished == Finished(3, b"text", b"problem\n")


async def test_a_program_that_does_not_read_its_input_is_no_fault(tmp_path: Path) -> None:
    finished = await sh("exec 0<&-; echo done", tmp_path, stdin=b"x" * 5_000_000)

    assert finished == Finished(0, b"done\n", b"")


async def test_large_input_comes_back_whole(tmp_path: Path) -> None:
    text = os.urandom(1_500_000)

    finished = await sh("cat", tmp_path, stdin=text, output_limit=2_000_000)

    assert finished.stdout == text


async def test_the_environment_is_exactly_what_was_given(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "ONLY": "this"}

    finished = await run_process(("env",), timeout=PATIENCE, cwd=tmp_path, env=env)

    assert set(finished.stdout.decode().splitlines()) == {f"{name}={value}" for name, value in env.items()}


async def test_a_program_that_hangs_is_ended_at_its_deadline(tmp_path: Path) -> None:
    finished = await sh("sleep 300", tmp_path, timeout=1)

    assert finished.timed_out
    assert finished.code == -signal.SIGTERM


async def test_a_program_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    finished = await sh(f"trap '' TERM; {PRINTS}; sleep 300", tmp_path, output_limit=1000)

    assert finished.truncated
    assert finished.code == -signal.SIGKILL


async def test_a_program_may_clean_up_within_its_grace(tmp_path: Path) -> None:
    script = f"trap 'echo bye > {tmp_path}/note; exit 7' TERM; {PRINTS}; while :; do sleep 0.02; done"

    finished = await sh(script, tmp_path, output_limit=1000, grace=PATIENCE)

    assert (finished.code, (tmp_path / "note").read_text()) == (7, "bye\n")


async def test_a_hundred_megabytes_are_cut_off_and_memory_stays_bounded(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        finished = await sh(f"head -c 100000000 /dev/zero; touch {tmp_path}/reached", tmp_path, output_limit=1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert finished.truncated
    assert len(finished.stdout) == 1_000_000
    assert peak < 8_000_000
    assert not (tmp_path / "reached").exists()


@pytest.mark.parametrize(("printed", "truncated"), [(999, False), (1000, False), (1001, True), (70_000, True)])
async def test_the_limit_is_exact(tmp_path: Path, printed: int, truncated: bool) -> None:
    finished = await sh(f"head -c {printed} /dev/zero", tmp_path, output_limit=1000)

    assert finished.truncated is truncated
    assert len(finished.stdout) == min(printed, 1000)


async def test_both_streams_share_the_limit(tmp_path: Path) -> None:
    finished = await sh("head -c 600 /dev/zero; head -c 600 /dev/zero >&2", tmp_path, output_limit=1000)

    assert finished.truncated
    assert len(finished.stdout) + len(finished.stderr) == 1000


async def test_a_grandchild_that_keeps_the_pipe_open_neither_holds_us_up_nor_lives_on(tmp_path: Path) -> None:
    finished = await sh("sleep 300 & echo $!", tmp_path)

    assert (finished.code, finished.timed_out) == (0, False)
    await until(lambda: not is_running(int(finished.stdout)))


async def test_a_grandchild_in_a_session_of_its_own_does_not_hold_us_up(tmp_path: Path) -> None:
    spawn = "import subprocess; print(subprocess.Popen(['sleep', '300'], start_new_session=True).pid)"

    finished = await run_process((sys.executable, "-c", spawn), timeout=PATIENCE, cwd=tmp_path, env=ENV)

    os.kill(int(finished.stdout), signal.SIGKILL)
    assert (finished.code, finished.timed_out) == (0, False)


async def test_the_whole_group_is_ended(tmp_path: Path) -> None:
    script = f"trap '' TERM; (trap '' TERM; sleep 300) & echo $!; {PRINTS}; wait; sleep 300"
    finished = await sh(script, tmp_path, output_limit=1000)

    assert finished.truncated
    await until(lambda: not is_running(int(finished.stdout.splitlines()[0])))


async def test_cancelling_ends_the_group_first(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    task = asyncio.create_task(sh(f"sleep 300 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait", tmp_path))
    await until(pids.exists)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    leader, child = map(int, pids.read_text().split())
    assert not is_running(leader)
    await until(lambda: not is_running(child))


async def test_cancelling_twice_cuts_the_grace_short(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap 'touch {tmp_path}/asked' TERM; echo $$ > {ready}.new; mv {ready}.new {ready}; "
    task = asyncio.create_task(sh(script + "while :; do sleep 0.02; done", tmp_path, grace=300))
    await until(ready.exists)

    task.cancel()
    await until((tmp_path / "asked").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await until(lambda: not is_running(int(ready.read_text())))


@pytest.mark.parametrize("turns", range(4))
async def test_cancelled_while_starting_nothing_lives_on(tmp_path: Path, turns: int) -> None:
    marker = f"redraft-{tmp_path.name}-{os.getpid()}"
    task = asyncio.create_task(run_process(("sleep", "300"), timeout=300, cwd=tmp_path, env=ENV | {"MARKER": marker}))
    for _ in range(turns):
        await asyncio.sleep(0)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await until(lambda: not any(marker.encode() in environ for environ in environments()))


async def test_cancelled_twice_while_starting_nothing_lives_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, started = threading.Event(), []

    def slowly(*arguments: Any) -> subprocess.Popen[bytes]:
        assert go_on.wait(PATIENCE)
        started.append(start(*arguments))
        return started[0]

    start = process._start
    monkeypatch.setattr(process, "_start", slowly)
    task = asyncio.create_task(run_process(("sleep", "300"), timeout=300, cwd=tmp_path, env=ENV, grace=300))
    for _ in range(2):
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    go_on.set()
    await until(lambda: bool(started) and not is_running(started[0].pid))


async def test_cancelled_while_starting_a_program_has_its_grace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is under way before we know that it is."""
    begun, go_on = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> subprocess.Popen[bytes]:
        started = start(*arguments)
        begun.set()
        assert go_on.wait(PATIENCE)
        return started

    start = process._start
    monkeypatch.setattr(process, "_start", slowly)
    script = f"trap 'touch {tmp_path}/asked; exit' TERM; touch {tmp_path}/ready; while :; do sleep 0.02; done"
    task = asyncio.create_task(sh(script, tmp_path, grace=PATIENCE))
    await until(lambda: begun.is_set() and (tmp_path / "ready").exists())
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (tmp_path / "asked").exists()


async def test_a_program_that_closes_its_output_does_not_keep_the_loop_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[int] = []

    def counted(handle: int, size: int) -> bytes:
        chunk = read(handle, size)
        ends.extend([handle] * (not chunk))
        return chunk

    read = os.read
    monkeypatch.setattr("redraft.app.builtin.support.process.os.read", counted)

    await sh("exec >&- 2>&-; sleep 0.2", tmp_path)

    assert len([end for end in ends if ends.count(end) > 1]) == 0


def environments() -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return found


async def test_no_file_handle_is_left_open(tmp_path: Path) -> None:
    await sh("echo warm", tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))

    await asyncio.gather(*(sh("echo x; echo y >&2", tmp_path) for _ in range(20)))
    with pytest.raises(PermanentError):
        await run_process(("no-such-program",), timeout=PATIENCE, cwd=tmp_path, env=ENV)

    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_a_missing_program_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match=r"there is no program 'no-such-program'; install it"):
        await run_process(("no-such-program",), timeout=PATIENCE, cwd=tmp_path, env=ENV)


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("#!/bin/sh\n", 0o600, "make it executable"),
        ("#!/no/such/sh\n", 0o700, "No such file"),
        ("\0\1", 0o700, "cannot be started"),
    ],
)
async def test_a_program_that_cannot_be_started_is_named(tmp_path: Path, content: str, mode: int, said: str) -> None:
    program = tmp_path / "program"
    program.write_text(content)
    program.chmod(mode)

    with pytest.raises(PermanentError, match=f"program' .*{said}"):
        await run_process((str(program),), timeout=PATIENCE, cwd=tmp_path, env=ENV)


@pytest.mark.parametrize("argv", [(), ("",), ("sh", "a\0b"), ("sh", "\ud800")])
async def test_arguments_that_no_program_can_be_given_are_refused(tmp_path: Path, argv: tuple[str, ...]) -> None:
    with pytest.raises(PermanentError):
        await run_process(argv, timeout=PATIENCE, cwd=tmp_path, env=ENV)


async def test_a_workspace_is_removed_with_all_that_is_in_it() -> None:
    async with workspace() as folder:
        locked = folder / "locked"
        locked.mkdir()
        (locked / "file").write_text("x")
        locked.chmod(0o000)

    assert not folder.exists()


async def test_a_workspace_is_removed_when_its_owner_is_cancelled() -> None:
    made: asyncio.Future[Path] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        async with workspace() as folder:
            made.set_result(folder)
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    folder = await made
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not folder.exists()


def test_the_clean_environment_passes_only_what_is_named(tmp_path: Path) -> None:
    outer = {"PATH": "/bin", "API_KEY": "s3cret", "OTHER": "no"}

    clean = environment(tmp_path, ("API_KEY",), outer, "command")

    assert clean.pop("PATH").startswith("/bin:")
    assert clean == {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LANG": "C.UTF-8", "API_KEY": "s3cret"}


def test_a_variable_that_is_not_set_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match=r"env_pass names API_KEY, not set here"):
        environment(tmp_path, ("API_KEY", "SET"), {"SET": "value"}, "command")
