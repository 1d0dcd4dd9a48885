"""pytest, the real one, as the critic of Python drafts that pass, fail, hang, flood or break it."""

from __future__ import annotations

import os
import re
import sys
import venv
from pathlib import Path

import pytest
from msgspec.structs import replace

from redraft.actors.editing.issues import locate_issues
from redraft.actors.workflow.context import Context
from redraft.app.builtin.programs.pytest_critic import pytest_critic
from redraft.events.errors import PermanentError
from redraft.events.messages.content import Brief, Critique, new_draft
from redraft.events.messages.plan import Option

SAMPLES = Path(__file__).parents[2] / "samples"
BROKEN = (SAMPLES / "broken.py").read_text()
PY = Brief("x", source="module.py")
QUICK = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"

MEAN = "def mean(values):\n    return sum(values) / len(values)\n"
TESTS = """
import pytest
from module import mean


def test_one():
    assert mean([3]) == 3


def test_two():
    assert mean([1, 2]) == 1.5


def test_none():
    with pytest.raises(ZeroDivisionError):
        mean([])


@pytest.mark.skip
def test_later():
    raise AssertionError
"""


def step(timeout: float, options: dict[str, Option]) -> Context:
    return Context("run-1", "Refinement[1]/critique", 1, timeout, "key", options)


async def by_pytest(text: str, brief: Brief = PY, timeout: float = 60.0, **options: Option) -> Critique:
    options.setdefault("env_pass", [QUICK])
    critique = await pytest_critic(new_draft(1, text), brief, step(timeout, options))
    assert isinstance(critique, Critique)
    return replace(critique, measures={}, issues=())  # see test_measures.py and below


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module and its tests, in which the worker was started."""
    (tmp_path / "module.py").write_text("the original must not be tested\n")
    (tmp_path / "test_module.py").write_text(TESTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(QUICK, "1")
    return tmp_path


async def test_paths_may_begin_in_another_folder_than_the_workers(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("worker"))
    assert await by_pytest(MEAN, tests=["test_module.py"], folder=str(project)) == Critique(1.0)
    with pytest.raises(PermanentError, match=r"there is no folder nowhere, where the tests should be"):
        await by_pytest(MEAN, tests=["test_module.py"], folder="nowhere")


async def test_tests_that_pass_score_1_and_skipped_ones_do_not_count(project: Path) -> None:
    assert await by_pytest(MEAN, tests=["test_module.py"]) == Critique(1.0, approved=None)
    assert (project / "module.py").read_text() == "the original must not be tested\n"
    assert sorted(path.name for path in project.iterdir()) == ["module.py", "test_module.py"]


async def test_the_score_is_the_share_that_passes_and_failures_are_placed(project: Path) -> None:
    critique = await by_pytest("def mean(values):\n    return values[0] / 1\n", tests=["test_module.py"])

    assert critique.score == pytest.approx(1 / 3, abs=1e-6)
    assert [error.split(":")[0] for error in critique.errors] == ["test_two (test_module.py", "test_none (module.py"]
    assert critique.errors[0].startswith("test_two (test_module.py:11): assert 1.0 == 1.5")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BROKEN, r"test_module \(test_module.py:3\): SyntaxError: .*"),
        ("import nowhere_to_be_found\n", r"test_module \(module.py:1\): ModuleNotFoundError: .*"),
        ("raise RuntimeError('no')\n", r"test_module \(module.py:1\): RuntimeError: no"),
        ("import os\nos._exit(0)\n", r"pytest did not come to an end, exit code 0.*"),
        ("import os\nos.abort()\n", r"pytest did not come to an end, ended by SIGABRT.*"),
        ("while True: print('x' * 1000)\n", "the tests printed more than 8,388,608 bytes, and were ended"),
    ],
)
async def test_tests_that_cannot_be_run_score_0_with_the_reason(project: Path, text: str, said: str) -> None:
    critique = await by_pytest(text, tests=["test_module.py"], timeout=30.0)

    assert critique.score == 0.0
    assert re.fullmatch(said, critique.errors[0])
    assert "redraft-" not in critique.errors[0]


WRONG = "def mean(values):\n    return 0\n"
EVERY_PIPE = """
import os
for pipe in range(3, 64):
    for line in (b'["", "end", 0]', b'["collected", ["test_module.py::test_one"], []]', b"<testsuites/>"):
        try:
            os.write(pipe, line + b"\\n")
        except OSError:
            pass
"""
CHEATS = {
    "own report": EVERY_PIPE + "from pathlib import Path\nfor each in (Path(), Path('..'), Path.home()):\n"
    "    (each / 'report.xml').write_text('<testsuites><testsuite><testcase name=\"a\"/></testsuite></testsuites>')\n"
    "os._exit(0)\n",
    "own report as it is asked": WRONG.replace("return 0", "exec(REPORT)")
    + f"REPORT = {EVERY_PIPE + 'os._exit(1)'!r}\n",
    "key": WRONG + EVERY_PIPE + "os.lseek(0, 0, 0) if os.path.exists(os.readlink('/proc/self/fd/0')) is False else 0\n"
    "assert not os.read(0, 100)\n",
    "exit 0": WRONG.replace("return 0", "__import__('os')._exit(0)"),
    "exit 1": WRONG.replace("return 0", "__import__('os')._exit(1)"),
    "exit at the end": WRONG + "import atexit, os\natexit.register(os._exit, 0)\n",
    "pytest.exit 0": WRONG.replace("return 0", "__import__('pytest').exit('ok', returncode=0)"),
    "pytest.exit 1": WRONG.replace("return 0", "__import__('pytest').exit('ok', returncode=1)"),
    "skip": WRONG.replace("return 0", "return 3 if values == [3] else __import__('pytest').skip('later')"),
    "SkipTest": WRONG.replace("return 0", "import unittest; raise unittest.SkipTest"),
    "xfail": WRONG.replace("return 0", "__import__('pytest').xfail('later')"),
    "skip from nowhere": WRONG.replace("return 0", "exec('import pytest; pytest.skip()')"),
    "skip all": "import pytest\npytest.skip('later', allow_module_level=True)\n",
    "no test runs": WRONG + "import _pytest.python as p\np.Function.runtest = lambda self: None\n",
    "no error is seen": WRONG + "import _pytest.runner as r\nold = r.CallInfo.from_call.__func__\n"
    "def seen(cls, func, when, reraise=None, **more):\n    info = old(cls, func, when, reraise, **more)\n"
    "    info.excinfo = None\n    info._result = []\n    return info\nr.CallInfo.from_call = classmethod(seen)\n",
    "all is well": WRONG + "import _pytest.reports as r\nold = r.TestReport.__init__\n"
    "def made(self, nodeid, location, keywords, outcome, *rest, **more):\n"
    "    old(self, nodeid, location, keywords, 'passed', *rest, **more)\nr.TestReport.__init__ = made\n",
    "a hook": WRONG + "import gc, pytest\nclass P:\n    @pytest.hookimpl(hookwrapper=True, tryfirst=True)\n"
    "    def pytest_runtest_makereport(self):\n        got = yield\n        got.get_result().outcome = 'passed'\n"
    "for each in gc.get_objects():\n    if type(each).__name__ == 'PytestPluginManager': each.register(P())\n",
    "no tests are left": WRONG.replace("return 0", "return cheat()")
    + "import gc\nfrom pytest import Function\ndef cheat():\n"
    "    for each in gc.get_objects():\n        if isinstance(each, Function): each.obj = dict\n    return 3\n",
    "other tests": WRONG + "from pathlib import Path\n"
    "(Path(__file__).parent / 'tests' / 'test_other.py').write_text('def test_other(): pass')\n",
}


@pytest.fixture
def two(project: Path) -> None:
    """Two files of tests, in a folder."""
    tests = project / "tests"
    tests.mkdir()
    (tests / "test_module.py").write_text(TESTS)
    (tests / "test_other.py").write_text("from module import mean\ndef test_other(): assert mean([5]) == 5\n")


@pytest.mark.usefixtures("two")
async def test_a_draft_that_does_not_cheat_passes() -> None:
    assert (await by_pytest(MEAN, tests=["tests"])).score == 1


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("cheat", CHEATS)
async def test_a_draft_that_cheats_does_not_pass(cheat: str) -> None:
    critique = await by_pytest(CHEATS[cheat], tests=["tests"])

    assert critique.score < 1
    assert critique.errors
    assert "were skipped" not in critique.errors[0]


@pytest.mark.check
async def test_tests_that_hang_are_the_drafts_fault(project: Path) -> None:
    critique = await by_pytest("while True: pass\n", tests=["test_module.py"], timeout=3.0)

    assert critique == Critique(0.0, errors=("the tests did not end within the step's 3 s, and were ended",))


async def test_only_skipped_tests_prove_nothing(project: Path) -> None:
    (project / "test_module.py").write_text("import pytest\n@pytest.mark.skip\ndef test_a(): pass\n")

    assert await by_pytest(MEAN, tests=["test_module.py"]) == Critique(
        0.0, errors=("none of the tests ran, 1 were skipped",)
    )


@pytest.mark.check
async def test_a_folder_of_tests_comes_with_its_fixtures_and_data(project: Path) -> None:
    tests = project / "tests" / "unit"
    tests.mkdir(parents=True)
    (project / "tests" / "conftest.py").write_text("import pytest\n@pytest.fixture\ndef three(): return 3\n")
    (tests / "data.txt").write_text("3")
    (tests / "test_it.py").write_text(
        "from pathlib import Path\nfrom module import mean\n"
        "def test_it(three): assert mean([three]) == int(Path(__file__).with_name('data.txt').read_text())\n"
    )

    assert await by_pytest(MEAN, tests=["tests/unit"]) == Critique(1.0)
    assert await by_pytest(MEAN, tests=["tests/unit/test_it.py"]) == Critique(1.0)
    (tests / "test_it.py").write_text("from pathlib import Path\ndef test_it(): Path('nowhere').read_text()\n")
    assert (await by_pytest(MEAN, tests=["tests"])).errors[0].startswith("test_it (tests/unit/test_it.py:2): ")


async def test_no_configuration_is_read_without_a_project(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\naddopts = --no-such-flag\n")

    assert await by_pytest(MEAN, tests=["test_module.py"]) == Critique(1.0)


@pytest.mark.check
async def test_a_project_is_copied_with_its_configuration_and_the_draft_takes_its_place(project: Path) -> None:
    package = project / "src" / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "other.py").write_text("FACTOR = 2\n")
    (package / "mod.py").write_text("raise RuntimeError('the original')\n")
    (project / "pytest.ini").write_text("[pytest]\naddopts = -q -q\n")
    (project / "tests").mkdir()
    (project / "tests" / "test_mod.py").write_text("from pkg.mod import double\ndef test(): assert double(2) == 4\n")
    draft = "from pkg.other import FACTOR\n\n\ndef double(n):\n    return n * FACTOR\n"

    by_source = await by_pytest(draft, Brief("x", source="src/pkg/mod.py"), tests=["tests"], project=".")
    by_module = await by_pytest(draft, Brief("x"), tests=["tests"], project=".", module="pkg.mod")

    assert (by_source, by_module) == (Critique(1.0), Critique(1.0))


async def test_an_installed_package_of_the_same_name_is_not_tested_in_its_stead(project: Path) -> None:
    (project / "test_module.py").write_text("import msgspec.json\ndef test(): assert msgspec.json.HERE\n")

    assert await by_pytest("HERE = True\n", tests=["test_module.py"], module="msgspec.json") == Critique(1.0)


async def test_a_link_out_of_the_project_is_not_written_through(
    tmp_path: Path, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "mod.py").write_text("untouched\n")
    (project / "pkg").symlink_to(outside)
    (project / "linked.py").symlink_to(outside / "mod.py")
    (project / "test_module.py").write_text("from linked import mean\ndef test(): assert mean([1]) == 1\n")

    with pytest.raises(PermanentError, match="by a link that leads out of the project"):
        await by_pytest(MEAN, Brief("x"), tests=["test_module.py"], project=".", module="pkg.mod")
    assert await by_pytest(MEAN, Brief("x"), tests=["test_module.py"], project=".", module="linked") == Critique(1.0)
    assert (outside / "mod.py").read_text() == "untouched\n"


@pytest.mark.check
async def test_values_that_are_passed_are_not_recorded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_URL", "db://s3cret")
    (project / "test_module.py").write_text("import os\ndef test(): raise ValueError(os.environ['DB_URL'])\n")

    critique = await by_pytest(MEAN, tests=["test_module.py"], env_pass=["DB_URL"])

    assert critique.errors == ("test (test_module.py:2): ValueError: ***",)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "option tests is missing; name files or folders"),
        ({"tests": []}, "option tests is missing"),
        ({"tests": ["nowhere.py"]}, "option tests names 'nowhere.py', which is not in"),
        ({"tests": ["-p"]}, "option tests names '-p', which is not in"),
        ({"tests": ["module.py"], "module": "other"}, "there are no tests"),
        ({"tests": ["test_module.py"], "module": "../evil"}, "option module cannot be '../evil'"),
        ({"tests": ["test_module.py"], "project": "nowhere"}, "option project names 'nowhere'"),
        ({"tests": ["/etc/passwd"], "project": "."}, "outside the project"),
        ({"test": ["test_module.py"]}, "there is no option 'test'; did you mean 'tests'?"),
        ({"tests": "test_module.py"}, "option tests: expected `array`, got `str`"),
        ({"tests": ["test_module.py"], "python": "no-such-python"}, "there is no program 'no-such-python'"),
    ],
)
async def test_wrong_options_of_pytest_are_refused(project: Path, options: dict[str, Option], said: str) -> None:
    (project / "module.py").write_text("")
    with pytest.raises(PermanentError, match=said) as raised:
        await by_pytest(MEAN, **options)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


async def test_a_draft_without_a_module_name_is_refused(project: Path) -> None:
    with pytest.raises(PermanentError, match="the draft has no module's name; say how the tests import it"):
        await by_pytest(MEAN, Brief("x"), tests=["test_module.py"])


async def test_too_much_to_copy_is_refused(project: Path) -> None:
    with (project / "huge").open("wb") as file:
        os.truncate(file.fileno(), 300 * 1024 * 1024)

    with pytest.raises(PermanentError, match=r"more than 10,000 files or .* name a smaller folder"):
        await by_pytest(MEAN, tests=["test_module.py"], project=".")


async def test_a_python_without_pytest_is_said_so(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    bare = tmp_path_factory.mktemp("bare")
    venv.create(bare, with_pip=False)

    with pytest.raises(
        PermanentError, match=r"pytest is not installed for this Python; install it \(pip install pytest\)"
    ):
        await by_pytest(MEAN, tests=["test_module.py"], python=str(bare / "bin" / "python"))


async def test_another_python_can_be_named(project: Path) -> None:
    relative = os.path.relpath(sys.executable, project)

    assert await by_pytest(MEAN, tests=["test_module.py"], python=relative) == Critique(1.0)


@pytest.mark.check
async def test_what_passed_with_the_brief_has_to_pass_with_the_draft(project: Path) -> None:
    """A draft may score higher than its brief and still break a test that passed."""
    half = "def mean(values):\n    return values[0]\n"  # passes test_one alone
    other = "def mean(values):\n    return 1.5 if len(values) == 2 else values[0] / len(values) + 1\n"
    brief = Brief(half, source="module.py")

    kept = await by_pytest(other, brief, tests=["test_module.py"], kept=True)

    assert kept.score == 0.0
    assert kept.errors == ("test_module.py::test_one: it passed before",)
    assert (await by_pytest(MEAN, brief, tests=["test_module.py"], kept=True)) == Critique(1.0)
    assert (await by_pytest(half, brief, tests=["test_module.py"], kept=True)) == Critique(1.0)
    assert (await by_pytest(half, Brief(BROKEN, source="module.py"), tests=["test_module.py"], kept=True)).score == 1.0


@pytest.mark.check
async def test_a_failure_that_came_from_a_line_of_the_draft_is_an_issue_there(project: Path) -> None:
    Path("test_lines.py").write_text(
        "from module import f\n\n\ndef test_raises():\n    f(0)\n\n\ndef test_fails():\n    assert f(1) == 2\n"
    )
    text = "def g(x):\n    return 1 / x\n\n\ndef f(x):\n    return g(x)\n"
    said = await pytest_critic(new_draft(1, text), PY, step(60.0, {"tests": ["test_lines.py"]}))
    assert len(said.errors) == 2
    (found,) = locate_issues(said, text, ()).issues
    assert (found.quote, found.severity) == ("return 1 / x", "error")
    assert found.text == "test_raises (module.py:2): ZeroDivisionError: division by zero"
    assert locate_issues(said, text, ()).errors == said.errors
    lower = replace(found, id="", span=None, text=found.text.replace(":2", ":4"))
    moved = locate_issues(replace(said, issues=(lower,)), text, ())
    assert moved.issues[0].id == found.id
