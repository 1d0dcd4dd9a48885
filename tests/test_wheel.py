"""The wheel has every file of the packages, says who made it and where it is from, and its README has whole links."""

from __future__ import annotations

import re
import subprocess
import sys
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[1]
LAYERS = ("events", "actors", "projections", "app")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    [found] = folder.glob("redraft-*.whl")
    return ZipFile(found)


def test_it_has_every_file_of_the_packages_and_no_other(wheel: ZipFile) -> None:
    ours = {
        str(path.relative_to(ROOT / layer))
        for layer in LAYERS
        for path in (ROOT / layer / "redraft").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == ours
    assert "redraft/app/builtin/__init__.py" in held
    assert "redraft/__init__.py" not in held, "a namespace package has none"


def test_it_says_who_made_it_and_where_it_is_from(wheel: ZipFile) -> None:
    [name] = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
    told = Parser().parsestr(wheel.read(name).decode())
    assert told["Author"] == "The Redraft maintainers"
    assert told["License-Expression"] == "Apache-2.0"
    urls = dict(each.split(", ", 1) for each in told.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    readme = told.get_payload()
    assert isinstance(readme, str)
    links = re.findall(r"\]\(([^)]+)\)", readme)
    assert len(links) > 5
    for link in links:
        assert link.startswith(("https://", "#")), link
        place = link.removeprefix(urls["Source"]).partition("#")[0]
        assert link.startswith("#") or not link.startswith(urls["Source"]) or (ROOT / place).exists(), link
