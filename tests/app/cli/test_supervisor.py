"""`redraft up` and processes that hang."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from pathlib import Path

import pytest

from redraft.app.cli.serving.supervisor import Child, Supervisor
from redraft.app.cli.shared.signals import interrupts
from redraft.app.process.logs import new_log

PROGRAM = """
import asyncio, ctypes, os, sys
from pathlib import Path
from redraft.app.process.health import health_file
from redraft.app.process.logs import new_log
from redraft.events.errors import BusError

async def ping():
    if "away" in sys.argv:
        raise BusError("away")

async def main():
    log = new_log(sys.stderr, "json", sys.argv[1])
    async with health_file(Path(sys.argv[-1]), ping, log, every=0.02):
        log.info("began", pid=os.getpid())
        await asyncio.sleep(0.1)
        if "hangs" in sys.argv:
            ctypes.PyDLL(None).sleep(600)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""


LEAVING = """
import os, subprocess, sys

sys.stderr.write(f"{os.getpid()}\\n{'[' * 5000}\\nthe last words")
sys.stderr.flush()
subprocess.Popen(["sh", "-c", "while [ -e held ]; do sleep 0.1; done"], start_new_session=True)
"""


class Stream(io.StringIO):
    """A log, and its lines."""

    def lines(self, event: str, process: str = "up") -> list[dict[str, object]]:
        lines = [json.loads(line) for line in self.getvalue().splitlines()]
        return [line for line in lines if (line["event"], line.get("process")) == (event, process)]


@pytest.mark.check
async def test_one_that_hangs_is_killed_and_started_again_and_one_whose_servers_are_away_is_not(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    stream = Stream()
    log = new_log(stream, "json", "up")
    children = [Child(name, (sys.executable, str(program), name)) for name in ("hangs", "away")]
    with interrupts() as signals:
        supervisor = Supervisor(children, os.environ, stream, log, tmp_path, as_json=True, looking=0.2)
        running = asyncio.create_task(supervisor.run(signals))
        async with asyncio.timeout(120):
            while len(stream.lines("began", "hangs")) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert not stream.lines("not touched", "away")
        signals.came(15)
        signals.came(15)
        await running
    hung = stream.lines("hangs, killed")
    assert [line["hung"] for line in hung[:2]] == ["hangs", "hangs"]
    assert hung[0]["pid"] != hung[1]["pid"]
    assert len(stream.lines("began", "away")) == len(stream.lines("not healthy", "away")) == 1
    assert {line["code"] for line in stream.lines("died, starts again")} == {-9}


async def test_one_that_ended_is_started_again_though_what_it_started_holds_its_pipes(tmp_path: Path) -> None:
    held, stream = tmp_path / "held", Stream()
    held.touch()
    (tmp_path / "program.py").write_text(LEAVING)
    child = Child("leaves", ("env", "-C", str(tmp_path), sys.executable, "program.py"))
    with interrupts() as signals:
        supervisor = Supervisor([child], os.environ, stream, new_log(stream, "json", "up"), tmp_path, as_json=True)
        running = asyncio.create_task(supervisor.run(signals))
        try:
            async with asyncio.timeout(60):
                while len(stream.lines("the last words", "leaves")) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
                signals.came(15)
                await running
        finally:
            held.unlink()
    assert {line["code"] for line in stream.lines("died, starts again")} == {0}
