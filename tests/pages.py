"""The examples of README and docs, as the tests run them: `walk` does what a page tells its reader to do.

A fence with a `title` is a file. One of `python` without a title is a program, which has to end well. One of `console`
is a terminal: each line that begins with `$` is done, and has to say what follows it, but for ids, times and hashes;
`…` stands for anything within a line, and for any lines where it is all of a line. A console with a `title` is another
terminal: it goes on until the page ends, and what is shown of it is waited for. A fence after a comment
`<!-- not run: REASON -->` is passed over.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from tests.forked import Forked, fork

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_FENCE: Final = re.compile(
    r'(?P<kept>^<!-- not run: [^\n]* -->\n+)?^```(?P<language>\w*)(?: title="(?P<title>[^"]*)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)

_DURATION: Final = r"[\d.,]+\ (?:ms|s|min)"
_VARIES: Final = {
    r"\b01[0-9a-z]{24}\b": r"[0-9a-z]{26}",
    r"\b[0-9a-f]{64}\b": r"[0-9a-f]{64}",
    r"\d{4}\\-\d\d\\-\d\d\\ \d\d:\d\d(:\d\d)?": r"\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?",
    r"\b[\d.\\]+\\ (ms|s)\b": _DURATION,
}
"""What differs from run to run, as it stands in a pattern: ids, hashes, times, durations."""


class Fence(NamedTuple):
    """A fence of a page. `line` is where its text begins; `run` is false for one that the page says is not run."""

    language: str
    title: str
    text: str
    line: int
    run: bool


def fences(page: Path) -> list[Fence]:
    text = page.read_text(encoding="utf-8")
    return [
        Fence(
            found["language"],
            found["title"] or "",
            found["text"],
            text.count("\n", 0, found.start("text")) + 1,
            not found["kept"],
        )
        for found in _FENCE.finditer(text)
    ]


def blocks(page: Path, language: str) -> list[str]:
    """The texts of the fences of a language, in order."""
    return [fence.text for fence in fences(page) if fence.language == language]


def walk(page: Path, folder: Path, environment: Mapping[str, str], places: Mapping[str, str]) -> None:
    """Does all that a page says. `places` are what the page's URLs of servers stand for here."""
    with ExitStack() as open_here:
        reader = _Reader(page, folder, dict(environment), dict(places), open_here)
        for fence in fences(page):
            if fence.run:
                reader.read(fence)


class _Reader:
    """Somebody who does what a page says, in a folder."""

    def __init__(
        self, page: Path, folder: Path, environment: dict[str, str], places: dict[str, str], open_here: ExitStack
    ) -> None:
        self._page = page
        self._folder = folder
        self._environment = environment
        self._places = places
        self._open = open_here

    def read(self, fence: Fence) -> None:
        where = f"{self._page.name}:{fence.line}"
        match fence.language, fence.title:
            case "console", "":
                for command, shown in _commands(fence.text):
                    self._try(where, command, shown)
            case "console", _:
                self._open_terminal(where, fence)
            case "python", "":
                program = self._folder / f"line_{fence.line}.py"
                program.write_text(fence.text, encoding="utf-8")
                self._try(where, f"python {program.name}", [])
            case "mermaid" | "text" | "json", "":
                pass  # pictures, and what is quoted
            case _, "":
                raise AssertionError(f"{where}: a fence of {fence.language!r} has to be a file (title=…), or not run")
            case _, title:
                (self._folder / title).parent.mkdir(parents=True, exist_ok=True)
                (self._folder / title).write_text(fence.text, encoding="utf-8")

    def _try(self, where: str, command: str, shown: list[str]) -> None:
        if command.startswith("export "):
            for setting in shlex.split(command)[1:]:
                name, _, value = setting.partition("=")
                self._environment[name] = self._places.get(value, value)
            return
        said = self._folder / "said.txt"
        with said.open("wb") as file:
            process = self._start(command, file.fileno())
            code = process.wait(120)
        lines = [line.rstrip() for line in said.read_text(encoding="utf-8").splitlines()]
        said.unlink()
        told = f"{where}: {command} ended with {code}\n" + "\n".join(lines)
        assert shown or code == 0, told
        assert fits(shown, lines), told

    def _open_terminal(self, where: str, fence: Fence) -> None:
        ((command, shown),) = _commands(fence.text)
        log = self._folder / f"line_{fence.line}.log"
        with log.open("wb") as file:
            process = self._start(command, file.fileno())
        self._open.callback(_end, process, log)
        wanted = [line for line in shown if line != "…"]
        end = time.monotonic() + 60
        while not all(any(re.fullmatch(_pattern(line), each) for each in _lines(log)) for line in wanted):
            assert time.monotonic() < end, f"{where}: {command} did not say all of that:\n{log.read_text()}"
            time.sleep(0.05)

    def _start(self, command: str, output: int) -> Forked | subprocess.Popen[bytes]:
        """A command; those of Redraft and programs begin at once, see `forked`."""
        arguments = shlex.split(command, comments=True)
        if not set(command) & set("|<>;&*"):
            if arguments[0] == "redraft":
                return self._fork("redraft", *arguments[1:], output=output)
            if arguments[0] == "python" and arguments[1].endswith(".py"):
                return self._fork(str(self._folder / arguments[1]), *arguments[2:], output=output)
        path = f"{Path(sys.executable).parent}{os.pathsep}{self._environment['PATH']}"
        environment = self._environment | {"PATH": path}
        return subprocess.Popen(
            ["bash", "-c", command], cwd=self._folder, env=environment, stdout=output, stderr=output
        )

    def _fork(self, *command: str, output: int) -> Forked:
        return fork(*command, folder=self._folder, environment=self._environment, stdout=output, stderr=output)


def _end(process: Forked | subprocess.Popen[bytes], log: Path) -> None:
    process.terminate()
    assert process.wait(60) == 0, log.read_text()


def _lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines()


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a terminal, each with the lines that are shown after it."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"a terminal begins with a command: {parts[0]!r}"
    for part in parts[1:]:
        command, *shown = part.replace("\\\n", "").rstrip("\n").split("\n")
        yield command, [line.rstrip() for line in shown if line.strip()]


def fits(shown: list[str], said: list[str]) -> bool:
    """Whether lines are as they are shown; where nothing is shown, anything may be said."""
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else f"{_pattern(line)}\n" for line in shown)
    return not shown or re.fullmatch(pattern, "".join(f"{line}\n" for line in said if line)) is not None


def _pattern(line: str) -> str:
    pattern = re.escape(line).replace("…", ".*")
    for shown, there in _VARIES.items():
        pattern = re.sub(shown, lambda found, there=there: there, pattern)
    return rf"{pattern}(?:[ ,]+{_DURATION})?"
