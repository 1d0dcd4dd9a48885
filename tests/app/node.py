"""Programs in Node.js that tests run, with their packages installed in a folder of the test."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.services import missing

ROOT: Final = Path(__file__).parents[2]
CHECKERS: Final = "tests/node"
LIBRARIES: Final = "tests/node_libraries"


def installed(source: str, folder: Path) -> Path:
    """A copy of a folder of this repository, without what was installed there, with the packages of its lock file."""
    if not shutil.which("node") or not shutil.which("npm"):
        missing("node and npm are not found; install Node.js 20 or later (nodejs.org, or your system's packages)")
    copy = folder / Path(source).name
    shutil.copytree(ROOT / source, copy, ignore=shutil.ignore_patterns("node_modules"))
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    said = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=170, check=False)
    if said.returncode:
        missing(f"`{' '.join(command)}` in {source} failed; it needs a package registry: {said.stderr.strip()[-500:]}")
    return copy
