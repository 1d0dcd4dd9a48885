"""Programs as critics, generators and refiners: what they answer, and every way in which they can go wrong."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from redraft.actors.formats.yaml_reader import read_plan
from redraft.actors.workflow.context import Context
from redraft.app.builtin.programs.command import (
    CriticOptions,
    WriterOptions,
    command_critic,
    command_generator,
    command_options,
    command_refiner,
)
from redraft.events.errors import PermanentError, StepError
from redraft.events.messages.content import Brief, Critique, Draft, Revision, new_draft
from redraft.events.messages.plan import Option, Repeat, Step

DRAFT = new_draft(1, "first line\nsecond line\n")
BRIEF = Brief("first line\n", source="notes/essay.md")


def step(timeout: float = 30.0, **options: Option) -> Context:
    return Context("run-1", "Refinement[1]/judge", 1, timeout, "key", options)


async def judged(draft: Draft = DRAFT, brief: Brief = BRIEF, timeout: float = 30.0, **options: Option) -> Critique:
    critique = await command_critic(draft, brief, step(timeout, **options))
    assert isinstance(critique, Critique)
    return replace(critique, measures={})  # see test_measures.py


async def refined(draft: Draft = DRAFT, timeout: float = 30.0, **options: Option) -> Revision:
    said = Critique(0.4, errors=("too short",))
    revision = await command_refiner(draft, said, BRIEF, step(timeout, **options))
    assert isinstance(revision, Revision)
    return revision


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_the_three_roles_share_the_name() -> None:
    actors = (command_critic, command_generator, command_refiner)

    assert [(each.name, each.role) for each in actors] == [
        ("command", "critic"),
        ("command", "generator"),
        ("command", "refiner"),
    ]


async def test_a_program_that_is_content_scores_1_and_leaves_the_verdict() -> None:
    assert await judged(run=["grep", "-q", "second"]) == Critique(1.0, approved=None)


async def test_a_program_that_fails_scores_0_with_its_last_words() -> None:
    critique = await judged(run=["sh", "-c", "echo noise; echo one >&2; echo two >&2; exit 3"])

    assert critique == Critique(0.0, errors=("exit code 3: one | two",))


async def test_last_words_are_those_of_standard_output_when_there_are_no_others() -> None:
    critique = await judged(run=["sh", "-c", "seq 1 100; exit 1"])

    assert critique.errors == ("exit code 1: 96 | 97 | 98 | 99 | 100",)


async def test_a_program_that_crashes_is_said_to() -> None:
    critique = await judged(run=["sh", "-c", "kill -SEGV $$"])

    assert (critique.score, critique.errors) == (0.0, ("ended by SIGSEGV",))


async def test_other_exit_codes_may_be_good() -> None:
    assert (await judged(run=["sh", "-c", "exit 4"], ok_codes=["0", "4"])).score == 1.0
    assert (await judged(run=["true"], ok_codes=["4"])).score == 0.0


@pytest.mark.parametrize(("cost", "score"), [(0.1, 0.8), (0.25, 0.5), (0.9, 0.0), (0, 1.0)])
async def test_each_finding_costs(cost: float, score: float) -> None:
    script = "echo 'x.c:1: bad'; echo 'x.c:2:3: worse' >&2; exit 1"

    critique = await judged(run=["sh", "-c", script], parser="lines", cost_per_finding=cost)

    assert critique == Critique(score, errors=("line 1 bad", "2:3 worse"))


async def test_a_checker_that_fails_without_a_finding_scores_0() -> None:
    critique = await judged(run=["sh", "-c", "echo no config >&2; exit 2"], parser="mypy")

    assert critique == Critique(0.0, errors=("exit code 2: no config",))


async def test_findings_are_listed_up_to_a_bound() -> None:
    critique = await judged(run=["sh", "-c", "seq -f 'f.c:%g: bad' 1 250"], parser="lines", cost_per_finding=0.001)

    assert (critique.score, len(critique.errors)) == (0.75, 100)
    assert critique.weaknesses == ("150 more findings are not listed",)


@pytest.mark.check
async def test_ruff_and_mypy_judge_a_file_and_the_folder_is_taken_out() -> None:
    draft = new_draft(1, "import os\nx: int = 'a'\n")

    by_ruff = await judged(
        draft, run=["ruff", "check", "--isolated", "--select=F", "{file}"], input="file", suffix=".py", parser="ruff"
    )
    by_mypy = await judged(draft, run=["mypy", "{file}"], input="file", suffix=".py", parser="mypy", timeout=120.0)

    assert by_ruff.errors == ("1:8 F401 `os` imported but unused",)
    assert len(by_mypy.errors) == 1
    assert by_mypy.errors[0].startswith("line 2 assignment Incompatible types")


async def test_messages_do_not_name_the_temporary_folder() -> None:
    critique = await judged(run=["sh", "-c", "echo $1: wrong; pwd; exit 1", "sh", "{file}"], input="file")

    assert critique.errors == ("exit code 1: draft.md: wrong | .",)


async def test_output_that_is_not_utf8_and_colours_are_made_readable() -> None:
    critique = await judged(run=["sh", "-c", r"printf '\033[31mb\377d\033[0m\a\n'; exit 1"])

    assert critique.errors == ("exit code 1: b\N{REPLACEMENT CHARACTER}d",)


async def test_a_program_that_hangs_is_a_failure_that_may_be_retried() -> None:
    with pytest.raises(StepError, match=r"command sleep: it did not end within the step's 0.5 s") as raised:
        await judged(run=["sleep", "300"], timeout=0.5)
    assert not isinstance(raised.value, PermanentError)


@pytest.mark.parametrize("stream", ["", ">&2"])
async def test_a_hundred_megabytes_of_output_are_refused(stream: str) -> None:
    with pytest.raises(PermanentError, match=r"printed more than 1,048,576 bytes and was ended"):
        await judged(run=["sh", "-c", f"head -c 100000000 /dev/zero {stream}"])


async def test_a_missing_program_is_named() -> None:
    with pytest.raises(PermanentError, match="there is no program 'no-such-checker'; install it"):
        await judged(run=["no-such-checker"])


async def test_a_generator_is_given_the_brief() -> None:
    text = await command_generator(BRIEF, step(run=["tr", "a-z", "A-Z"]))

    assert text == "FIRST LINE\n"


async def test_a_refiner_reads_and_writes_the_standard_streams_byte_for_byte() -> None:
    draft = new_draft(1, "one\r\ntwo \N{SNOWMAN}\r\n\r\n")

    revision = await refined(draft, run=["sed", "s/one/eins/"])

    assert revision == Revision("eins\r\ntwo \N{SNOWMAN}\r\n\r\n", ("sed: 1 line added, 1 removed",))


async def test_a_refiner_may_change_the_file_in_place() -> None:
    revision = await refined(run=["sed", "-i", "1d", "{file}"], input="file", output="file", suffix=".txt")

    assert revision == Revision("second line\n", ("sed: 0 lines added, 1 removed",))


async def test_an_unchanged_text_has_no_changes() -> None:
    assert await refined(run=["cat"]) == Revision(DRAFT.text)


async def test_a_refiner_can_read_the_critique() -> None:
    revision = await refined(run=["cat", "{critique}"])

    assert json.loads(revision.text) == {"score": 0.4, "errors": ["too short"]}


async def test_a_draft_of_the_largest_size_passes_through() -> None:
    draft = new_draft(1, "x" * (2 * 1024 * 1024))

    assert (await refined(draft, run=["cat"])).text == draft.text


@pytest.mark.parametrize(
    ("script", "said", "permanent"),
    [
        ("cat; exit 3", "exit code 3: .*; the text is as it was", False),
        ("echo broken >&2; exit 1", "exit code 1: broken; the text is as it was", False),
        ("true", "it wrote nothing", False),
        ("echo; echo", "it wrote nothing", False),
        (r"printf 'ab\377'", "byte 3 of what it wrote is not UTF-8", True),
        ("head -c 100000000 /dev/zero", "printed more than 3,145,728 bytes", True),
    ],
)
async def test_a_refiner_that_goes_wrong_says_how(script: str, said: str, permanent: bool) -> None:
    with pytest.raises(StepError, match=f"^command sh: .*{said}") as raised:
        await refined(run=["sh", "-c", script])

    assert isinstance(raised.value, PermanentError) is permanent
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("rm $1", "cannot be read: No such file"),
        ("rm $1; ln -s /etc/passwd $1", "cannot be read"),
        ("rm $1; mkfifo $1", "not a plain file"),
        ("rm $1; mkdir $1", "not a plain file"),
        ("truncate -s 10M $1", "a file of more than 3,145,728 bytes"),
        (": > $1", "it wrote nothing"),
    ],
)
async def test_a_file_that_is_no_longer_a_text_is_refused(script: str, said: str) -> None:
    with pytest.raises(StepError, match=said):
        await refined(run=["sh", "-c", script, "sh", "{file}"], input="file", output="file")


async def test_placeholders_are_filled_anywhere_once_and_only_when_they_are_ours(tmp_path: Path) -> None:
    odd = ["--name={file}", "{file}{file}", "{FILE}", "{file", "{{file}}", "{}", "{other}", "$file", "*", "{here}"]

    revision = await refined(run=["printf", "%s\\n", *odd], input="file")

    lines = revision.text.splitlines()
    file = lines[0].removeprefix("--name=")
    assert Path(file).name == "draft.md"
    assert lines[1:] == [file * 2, "{FILE}", "{file", f"{{{file}}}", "{}", "{other}", "$file", "*", str(Path.cwd())]


async def test_a_folder_with_a_placeholders_name_is_not_filled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "{file}").mkdir()
    monkeypatch.chdir(tmp_path / "{file}")

    revision = await refined(run=["printf", "%s", "{here}"])

    assert revision.text == str(tmp_path / "{file}")


async def test_the_drafts_own_text_is_never_an_argument() -> None:
    draft = new_draft(1, "{file} $(touch pwned) `id`; {here}\n")

    assert (await refined(draft, run=["cat", "{file}"], input="file")).text == draft.text


async def test_a_program_named_by_a_relative_path_is_found_where_the_worker_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "check.sh").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "check.sh").chmod(0o755)
    monkeypatch.chdir(tmp_path)

    assert (await judged(run=["./check.sh"])).score == 1.0


async def test_a_program_sees_a_clean_environment_and_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "s3cret")
    show = "import os, json; print(json.dumps([dict(os.environ), os.getcwd(), os.listdir()]))"

    environ, folder, names = json.loads((await refined(run=python(show))).text)

    assert set(environ) - {"LC_CTYPE"} == {"PATH", "HOME", "TMPDIR", "LANG"}
    assert environ["HOME"] == environ["TMPDIR"] == folder
    assert folder != str(Path.cwd())
    assert names == ["critique.json"]
    assert not Path(folder).exists()


async def test_named_variables_are_passed_and_their_values_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "s3cret-value")
    checked = ["sh", "-c", 'test -n "$API_KEY" && echo "a.c:1: key $API_KEY is bad" && echo "x $API_KEY" >&2; exit 1']

    found = await judged(run=checked, env_pass=["API_KEY"], parser="lines")
    failed = await judged(run=checked, env_pass=["API_KEY"])

    assert found.errors == ("line 1 key *** is bad",)
    assert failed.errors == ("exit code 1: x ***",)
    with pytest.raises(PermanentError, match="wrote the value of API_KEY into the text") as raised:
        await refined(run=["sh", "-c", 'echo "$API_KEY"'], env_pass=["API_KEY"])
    assert "s3cret" not in str(raised.value)


async def test_no_temporary_folder_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    await judged(run=["sh", "-c", "touch $HOME/junk"])
    with pytest.raises(StepError):
        await judged(run=["sleep", "300"], timeout=0.2)
    with pytest.raises(PermanentError):
        await judged(run=["no-such-program"])

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "option run names no program"),
        ({"run": []}, "option run names no program"),
        ({"run": [" "]}, "option run names no program"),
        ({"run": "ruff check -"}, r'no shell reads it; write run: \["ruff", "check", "-"\]'),
        ({"run": "it's"}, r'write run: \["it\'s"\]'),
        ({"run": ["true"], "parsr": "ruff"}, "there is no option 'parsr'; did you mean 'parser'?"),
        ({"run": ["true"], "zzz": 1}, "there is no option 'zzz'; choose from run, input"),
        ({"run": ["true"], "parser": "rufff"}, "option parser cannot be 'rufff'; did you mean 'ruff'?"),
        ({"run": ["true"], "output": "file"}, "there is no option 'output'"),
        ({"run": ["true"], "cost_per_finding": -0.1}, "option cost_per_finding: expected `float` >= 0"),
        ({"run": ["true"], "cost_per_finding": float("nan")}, "option cost_per_finding: expected `float`"),
        ({"run": ["true"], "cost_per_finding": True}, "option cost_per_finding: expected `float`, got `bool`"),
        ({"run": ["true"], "output_limit": 0}, "option output_limit: expected `int` >= 1"),
        ({"run": ["true"], "ok_codes": ["0", "one"]}, "option ok_codes holds 'one'; write exit codes"),
        ({"run": ["true"], "ok_codes": ["-9"]}, "option ok_codes holds '-9'"),
        ({"run": ["true"], "ok_codes": "0"}, "option ok_codes: expected `array`"),
        ({"run": ["true"], "env_pass": ["NO_SUCH_VARIABLE"]}, "NO_SUCH_VARIABLE, not set here"),
        ({"run": ["true"], "input": "file"}, "no argument says {file}"),
        ({"run": ["cat", "{file}"]}, "add the option input: file"),
        ({"run": ["{file}"], "input": "file"}, "cannot be the program itself"),
        ({"run": ["./{file}", "x"], "input": "file"}, "cannot be the program itself"),
        ({"run": ["cat", "{file}"], "input": "file", "suffix": "/../x"}, "option suffix cannot be"),
        ({"run": ["cat", "{file}"], "input": "file", "suffix": "py"}, "option suffix cannot be 'py'"),
        ({"run": ["cat", "{critique}"]}, "{critique} has no meaning in this role"),
    ],
)
async def test_wrong_options_are_refused_in_one_line(options: dict[str, Option], said: str) -> None:
    with pytest.raises(PermanentError, match=said) as raised:
        await judged(**options)  # type: ignore[arg-type]

    assert str(raised.value).startswith("command: ")
    assert "\n" not in str(raised.value)


async def test_a_changed_file_needs_a_file() -> None:
    with pytest.raises(PermanentError, match="option output is file, but no file is given"):
        await refined(run=["cat"], output="file")


@pytest.mark.parametrize("source", ["", "-", "x.", "x.p/y", "x.\N{SNOWMAN}", "x." + "y" * 300, "a.b c"])
async def test_an_odd_source_gives_a_plain_file_name(source: str) -> None:
    critique = await judged(
        brief=Brief("t", source=source), run=["sh", "-c", 'echo "$1"; exit 1', "sh", "{file}"], input="file"
    )

    assert critique.errors == ("exit code 1: draft.txt",)


async def test_the_suffix_is_the_sources(tmp_path: Path) -> None:
    brief = Brief("t", source=os.fspath(tmp_path / "module.py"))

    critique = await judged(brief=brief, run=["sh", "-c", 'echo "$1"; exit 1', "sh", "{file}"], input="file")

    assert critique.errors == ("exit code 1: draft.py",)


def test_the_plan_in_the_documentation_can_be_run() -> None:
    page = (Path(__file__).parents[3] / "docs" / "actors.md").read_text()
    text, *_ = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)

    plan = read_plan(text)

    (_, loop, _) = plan.steps
    assert isinstance(loop, Repeat)
    judge, improve = loop.body
    assert isinstance(judge, Step)
    assert isinstance(improve, Step)
    assert command_options(CriticOptions, judge.options).parser == "mypy"
    assert command_options(WriterOptions, improve.options).run[-1] == "-"
