"""How long the tutorial takes: a walk through it in an empty folder and virtual environment, minutes for each step.

    .venv/bin/python benchmarks/tutorial.py --bus amqp://guest:guest@localhost/ --store postgresql://postgres@localhost/new

A step takes as long as its words take to be read (150 a minute), its commands to be typed (30 seconds each; files are
copied) and to end. The last is measured: the commands are done as the page has them. Without `--bus` and `--store`, the
address of an empty database, the deployment is left out.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
WORDS_A_MINUTE: Final = 150
SECONDS_A_COMMAND: Final = 30

_FENCE: Final = re.compile(r'^```(\w*)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_PASSED_OVER: Final = ("docker ", "cd ", "mkdir ", ". ")
"""Commands that need another machine, or that are done by the folder and the environment of the walk."""


class Took(NamedTuple):
    """The instruction of a step of the tutorial."""

    title: str
    words: int
    commands: int
    seconds: float

    @property
    def minutes(self) -> float:
        return self.words / WORDS_A_MINUTE + (self.commands * SECONDS_A_COMMAND + self.seconds) / 60


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a row for each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bus", default="", help="the URL of a RabbitMQ server")
    parser.add_argument("--store", default="", help="the URL of an empty database of a PostgreSQL server")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        rows = list(walk((ROOT / "docs/tutorial.md").read_text(encoding="utf-8"), Path(folder), given.bus, given.store))
    sys.stdout.write("| step | words | commands | seconds that they take | minutes |\n|---|---|---|---|---|\n")
    for row in rows:
        sys.stdout.write(f"| {row.title} | {row.words} | {row.commands} | {row.seconds:.1f} | {row.minutes:.1f} |\n")
    sys.stdout.write(f"{sum(row.minutes for row in rows):.0f} minutes\n")


def walk(page: str, folder: Path, bus: str, store: str) -> Iterator[Took]:
    """Does what each step of a page says, in this folder. Raises CalledProcessError where a command cannot be found."""
    environment = os.environ | {
        "PATH": f"{folder / '.venv/bin'}{os.pathsep}{os.environ['PATH']}",
        "REDRAFT_STORE": f"sqlite:///{folder / 'store.db'}",
    }
    environment.pop("VIRTUAL_ENV", None)
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        if not title[:1].isdigit() or ("REDRAFT_BUS" in text and not (bus and store)):
            continue
        if "REDRAFT_BUS" in text:
            environment |= {"REDRAFT_BUS": bus, "REDRAFT_STORE": store}
        words = len(text.split())  # with its files, and with what the commands show
        commands, seconds = follow(text, folder, environment)
        yield Took(title, words, commands, seconds)


def follow(text: str, folder: Path, environment: dict[str, str]) -> tuple[int, float]:
    """Writes the files of a step and does its commands; returns their number, and the seconds until all had ended."""
    count, begun, others = 0, time.perf_counter(), []
    try:
        for language, title, fence in _FENCE.findall(text):
            if language != "console":
                (folder / title).write_text(fence, encoding="utf-8")
                continue
            for command in re.findall(r"^\$ (.*)$", fence, re.MULTILINE):
                count += 1
                if not command.startswith((*_PASSED_OVER, "export ")):
                    others += do(command, folder, environment, waits=not title)
        return count, time.perf_counter() - begun
    finally:
        for each in others:
            each.terminate()
            each.wait()


def do(command: str, folder: Path, environment: dict[str, str], *, waits: bool) -> list[subprocess.Popen[bytes]]:
    """Does a command; returns the process of one that goes on in a terminal of its own."""
    line = command.replace("~/redraft", str(ROOT))
    process = subprocess.Popen(
        ["/bin/bash", "-c", f"exec {line}" if not waits else line],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if not waits:
        return [process]
    if process.wait() == 127:
        raise subprocess.CalledProcessError(127, command)
    return []


if __name__ == "__main__":
    main()
