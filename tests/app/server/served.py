"""`redraft serve` as a process of its own, and a client that calls it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.app.cli_calls import environment, until
from tests.forked import Forked, fork
from tests.processes import logged

LOOP = """
import asyncio
from pathlib import Path
from redraft.actors import Critique, Workflow, critic, generator, publisher, refiner, score

HERE = Path(__file__).parent

@generator
def write(brief):
    return brief.text

@critic
async def judge(draft):
    (HERE / "at-judge").touch()
    while (HERE / "hold").exists():
        await asyncio.sleep(0.01)
    return Critique(min(1, draft.version / 3), suggestions=("say more",))

@refiner
def improve(draft, history):
    return draft.text + " more" + "".join(history.advice)

@publisher
def save(draft):
    with (HERE / "published.txt").open("a") as file:
        file.write(draft.text + "\\n")
    return "published.txt"

loop = Workflow("loop").start_with(write)
loop = loop.repeat_until(score >= 1, max_iterations=9, name="Loop", body=[judge, improve]).finally_(save)
"""


class Served:
    """A server that answers at `url`; its log is `log`."""

    def __init__(self, process: Forked, log: Path, url: str) -> None:
        self.process = process
        self.log = log
        self.url = url
        self.client = httpx.Client(base_url=f"{url}/api/v1", timeout=30)

    def get(self, path: str, answers: int = 200, **parameters: Any) -> Any:
        """The JSON that a path answers with."""
        answered = self.client.get(path, params=parameters)
        assert answered.status_code == answers, answered.text
        return answered.json()

    def stop(self) -> int:
        """Ends it as a user does; returns its exit code."""
        self.process.terminate()
        return self.process.wait(30)


@contextmanager
def served(folder: Path, *arguments: str, **settings: str) -> Iterator[Served]:
    """Runs `redraft serve` on a free port until the block ends."""
    log = folder / "serve.log"
    log.unlink(missing_ok=True)
    given = environment(folder, {"REDRAFT_LOG_FORMAT": "json", **settings})
    with log.open("ab") as file:
        command = ("redraft", "serve", "--port", "0", *arguments)
        process = fork(*command, folder=folder, environment=given, stderr=file.fileno())
    try:
        until(lambda: bool(_listening(log)) or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        running = Served(process, log, _listening(log))
        with running.client:
            yield running
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(30)


def _listening(log: Path) -> str:
    return next((str(line["url"]) for line in logged(log) if line["event"] == "listening"), "")
