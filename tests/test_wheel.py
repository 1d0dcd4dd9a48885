"""The wheel has all files of the packages, its maker, and no link that leads nowhere; the image has what it needs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
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


def test_it_says_who_made_it_and_has_no_link_that_leads_nowhere(wheel: ZipFile) -> None:
    [name] = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
    told = Parser().parsestr(wheel.read(name).decode())
    assert told["Author"] == "The Redraft maintainers"
    assert told["License-Expression"] == "Apache-2.0"
    urls = [each.split(", ", 1)[1] for each in told.get_all("Project-URL", [])]
    readme = told.get_payload()
    assert isinstance(readme, str)
    assert "language models" in readme, "what a link was on is still there"
    for link in [*urls, *re.findall(r"\]\(([^)]+)\)", readme)]:
        assert link.startswith(("https://", "#")), link
        assert not re.search(r"//[^/]*\.(example|invalid|test)(/|$)|//(www\.)?example\.", link), "nobody is there"


def test_the_image_is_built_from_every_file_that_the_wheel_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    let_in = (ROOT / ".dockerignore").read_text().splitlines()
    for name in ("pyproject.toml", "README.md", *project["license-files"]):
        assert name in " ".join(copied).split(), f"the Dockerfile does not copy {name}"
        assert f"!{name}" in let_in, f".dockerignore keeps {name} out"
