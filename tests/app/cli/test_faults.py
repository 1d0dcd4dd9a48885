"""What goes wrong through the command line: one clear line and its exit code, no traceback, nothing half-written."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from getpass import getuser
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.app.cli_calls import Said, call, environment, one_line, spawn, start
from tests.forked import Forked
from tests.processes import called

CRITICS = """
import asyncio
from redraft.actors.workflow.roles import critic, generator, refiner
from redraft.actors.workflow.workflow import Workflow, step
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Critique
from redraft.events.messages.plan import Retry

ONCE = Retry(attempts=1)

@generator
def write(brief): return brief.text

@critic
def raises(draft): raise ValueError("the tide is out")

@critic
def says_nonsense(draft): return ["very good indeed"]

@critic
def says_nan(draft): return Critique(float("nan"))

@critic(scale=(1, 10))
def says_eleven(draft): return Critique(11)

@critic
async def hangs(draft): await asyncio.Event().wait()

@critic
def dislikes(draft): return Critique(0.2)

@refiner
def same(draft): return draft.text

def flow(name, judge, timeout=30):
    body = [step(judge, retry=ONCE, timeout=timeout), same]
    return Workflow(name).start_with(write).repeat_until(score >= 0.9, max_iterations=3, body=body)

raising = flow("raising", raises)
nonsense = flow("nonsense", says_nonsense)
nan = flow("nan", says_nan)
eleven = flow("eleven", says_eleven)
hanging = flow("hanging", hangs, timeout=0.05)
stubborn = flow("stubborn", dislikes)
"""

COMMAND = """
name: {name}
steps:
  - generate: {{actor: source}}
  - repeat:
      until: score >= 0.9
      max_iterations: 2
      body:
        - critique: {{actor: command, timeout: {timeout}, retry: {{attempts: 1}}, with: {{run: {run}}}}}
        - refine: {{actor: prose-fix}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    (tmp_path / "critics.py").write_text(CRITICS)
    return tmp_path


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"critics.py", "__pycache__"}


def drafts(folder: Path, name: str, *, link: bool = False) -> str:
    (folder / "src").mkdir()
    (folder / "src" / name).write_text("x = 1\n")
    if link:
        (folder / "src" / "link").symlink_to("/etc/passwd")
    return str(folder / "src")


WRONG_INPUT: dict[str, Callable[[Path], tuple[str, ...]]] = {
    "there is no such file": lambda folder: ("missing.md",),
    "the text is empty": lambda folder: (written(folder / "empty.md", b" \n"),),
    "byte 2 is NUL": lambda folder: (written(folder / "image.png", b"\x89P\x00"),),
    "10,485,760 bytes, more than the limit": lambda folder: (written(folder / "big.md", b"x" * 10 * 1024**2),),
    "byte 1 (0xfc": lambda folder: (written(folder / "latin.txt", b"f\xfcr"),),
    "there is neither Python nor text in this folder": lambda folder: (drafts(folder, "notes.json"),),
    "this is a symbolic link; put the file itself there": lambda folder: (drafts(folder, "a.py", link=True),),
    "and this is no folder; name one": lambda folder: (
        *(drafts(folder, "a.py"), "--out", written(folder / "there.md", b"x")),
    ),
    "there is no source": lambda folder: (),
    "give one source, not 3 words": lambda folder: ("why", "tides", "exist"),
    "did you mean 'prose'?": lambda folder: ("prsoe", "Why tides exist"),
    "there is no 'artcle' in it": lambda folder: ("critics.py:artcle", "Tides"),
    "did you mean max_iterations": lambda folder: (plan(folder, "max_iterations", "max_iteration"), "Tides"),
    "there is no refiner 'prose-fxi'": lambda folder: (plan(folder, "prose-fix", "prose-fxi"), "Tides"),
    "column 7": lambda folder: (plan(folder, "score >= 0.9", "score => 0.9"), "Tides"),
    "--until: condition, column 1": lambda folder: ("prose", "Tides", "--until", "scor >= 1"),
    "Refinement: max_iterations is 0": lambda folder: ("prose", "Tides", "--max-iterations", "0"),
    "there is no folder nowhere": lambda folder: ("prose", "Tides", "--out", "nowhere/out.md"),
    "this is not a plain file": lambda folder: ("prose", "Tides", "--out", str(folder)),
    "--tests is for --workflow code": lambda folder: ("prose", "Tides", "--tests", "tests"),
    "no such option: --wrkflow": lambda folder: ("--wrkflow", "prose", "Tides"),
    "invalid value for '--max-iterations'": lambda folder: ("prose", "Tides", "--max-iterations", "many"),
    "tag 'two words' cannot be used": lambda folder: ("Tides", "--tag", "two words"),
    "--key is empty": lambda folder: ("Tides", "--key", ""),
    "see `redraft run --help`": lambda folder: ("--wrong", "Tides"),
    "has 65 characters; shorten it to 64": lambda folder: ("Tides", "--tag", "x" * 65),
    "11 tags are given; a run has at most 10": lambda folder: ("Tides", *(f"--tag=t{n}" for n in range(11))),
    "leave --tag out": lambda folder: ("--tag", "spring", "--resume", "last"),
    "leave SOURCE out": lambda folder: ("Tides", "--resume", "last"),
    "--resume is empty: give a run": lambda folder: ("--resume", "", "Tides"),
    "'--concurrency': it has to be greater than or equal to 1": lambda folder: ("Tides", "--concurrency", "0"),
    "x…: the name is too long for the file system": lambda folder: ("Tides", "--out", "x" * 300 + ".md"),
    "the name is too long for the file system; give": lambda folder: ("x" * 300 + ".py:loop", "Tides"),
    "plan.yaml: more than 262,144 bytes": lambda folder: (vast(folder / "plan.yaml"), "Tides"),
    "more than 536,870,912 bytes; split it": lambda folder: ("--batch", "/dev/zero"),
    "is not understood; give sqlite:///runs.db": lambda folder: ("Tides", "--store", "postgres"),
}


def vast(path: Path) -> str:
    """A file that takes no room on the disk, and more memory than there is."""
    path.touch()
    os.truncate(path, 2**43)
    return path.name


def written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return path.name


def plan(folder: Path, right: str, wrong: str) -> str:
    text = COMMAND.format(name="plan", timeout=5, run="[cat]")
    assert right in text
    return written(folder / "plan.yaml", text.replace(right, wrong).encode())


@pytest.mark.parametrize("said", WRONG_INPUT)
def test_wrong_input_is_one_line_and_leaves_nothing(folder: Path, said: str):
    arguments = WRONG_INPUT[said](folder)
    before = left(folder)
    result = call("run", *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in one_line(result)
    assert left(folder) == before


@pytest.mark.parametrize(
    ("workflow", "said"),
    [
        ("raising", "raises raised ValueError: the tide is out"),
        ("nonsense", "says_nonsense returned a list, not a Critique"),
        ("nan", "says_nan gave a score of nan, outside its scale of 0 to 1"),
        ("eleven", "says_eleven gave a score of 11, outside its scale of 1 to 10"),
        ("hanging", "hangs took longer than 0.05 s"),
    ],
)
def test_a_critic_that_fails_ends_the_run_as_failed(workflow: str, said: str):
    result = call("run", f"critics.py:{workflow}", "Why tides exist", "--quiet")
    assert result.code == 1
    assert result.out == "", "a run that failed has no result"
    line = one_line(result)
    assert line.startswith("failed, no score, 1 iteration, run ")
    assert said in line
    assert call("audit", "last", "--verify").code == 0
    assert json.loads(call("run", "--resume", "last", "--json").out)["outcome"] == "failed"


def test_a_refiner_that_changes_nothing_ends_the_run_without_acceptance():
    result = call("run", "critics.py:stubborn", "Why tides exist", "--json")
    assert result.code == 3
    document = json.loads(result.out)
    assert document["outcome"] == "exhausted"
    assert len(document["attempts"]) == 3


def test_a_word_that_is_none_of_those_to_choose_from_is_told_with_them():
    result = call("list", "--outcome", "nope")
    assert result.code == 2
    assert one_line(result).startswith("invalid value for '--outcome': 'nope' is not one of 'accepted', ")


def test_a_command_that_prints_100_megabytes_is_ended(folder: Path):
    program = "import sys; [sys.stdout.write('tide' * 262144) for _ in range(100)]"
    text = COMMAND.format(name="loud", timeout=30, run=json.dumps([sys.executable, "-c", program]))
    (folder / "loud.yaml").write_text(text)
    result = call("run", "loud.yaml", "Why tides exist", "--quiet")
    assert result.code == 1
    assert "printed more than 1,048,576 bytes and was ended" in one_line(result)


def test_a_command_that_hangs_is_ended(folder: Path):
    run = json.dumps([sys.executable, "-c", "import time; time.sleep(600)"])
    (folder / "slow.yaml").write_text(COMMAND.format(name="slow", timeout=0.5, run=run))
    result = call("run", "slow.yaml", "Why tides exist", "--quiet")
    assert result.code == 1
    assert re.search(r"did not end within the step's 0\.5 s|took longer than 0\.5 s", one_line(result)), "who is first"


def stranger(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE guests (name TEXT)")
        database.commit()


def later(path: Path) -> None:
    assert call("run", "Why tides exist", "--store", f"sqlite:///{path}", "--quiet").code == 0
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
        database.commit()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (stranger, "is the database of another program"),
        (later, "was written by a later version of Redraft"),
        (lambda path: path.write_text("dear diary\n" * 100), "is not a database"),
        (lambda path: path.mkdir(), "is a folder"),
    ],
)
@pytest.mark.parametrize("verb", [("run", "Why tides exist"), ("list",), ("rebuild",), ("run", "--resume", "last")])
def test_a_store_that_is_not_ours_is_refused_and_stays_as_it_is(
    folder: Path, make: Callable[[Path], None], said: str, verb: tuple[str, ...]
):
    path = folder / "other.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    result = call(*verb, "--store", f"sqlite:///{path}")
    assert (result.code, result.out) == (2, "")
    assert said in one_line(result)
    assert not path.is_file() or path.read_bytes() == before
    doctor = call("doctor", "--store", f"sqlite:///{path}")
    assert doctor.code == 1
    assert said in doctor.out


@pytest.mark.parametrize("verb", ["list", "show last", "events", "audit last", "rebuild", "diff last 1 2"])
def test_looking_at_a_store_that_is_not_there_makes_none(folder: Path, verb: str):
    result = call(*verb.split())
    assert result.code == 5
    assert f"there is no store {folder / 'store.db'} yet; `redraft run` makes it" in one_line(result)
    assert left(folder) == set()
    assert call("doctor").code == 0


def test_a_store_that_cannot_be_reached_ends_with_5(folder: Path):
    (folder / "file").write_text("in the way")
    result = call("run", "Why tides exist", "--store", "sqlite:///file/store.db")
    assert result.code == 5
    assert "file" in one_line(result)
    assert call("doctor", "--store", "sqlite:///file/store.db").code == 5


def test_a_damaged_store_cannot_be_reached(folder: Path):
    assert call("run", "The tide comes in.", "--quiet").code == 0
    path = folder / "store.db"
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 20_000)
    for name in ("store.db-wal", "store.db-shm"):
        (folder / name).unlink(missing_ok=True)
    for verb in ("list", "run again", "audit --all --verify", "rebuild"):
        result = call(*verb.split())
        assert result.code == 5
        assert "store.db: it is damaged; restore it from a copy" in one_line(result)
    doctor = call("doctor")
    assert doctor.code == 5
    assert "it is damaged" in doctor.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("diff", "last", "x", "2"), "invalid value for 'A': 'x' is not the number of a draft; name two drafts"),
        (("list", "--limit", "x"), "invalid value for '--limit': it has to be a whole number; see"),
        (("worker", "x.py", "--concurrency", "0"), "or redraft.toml): it has to be greater than or equal to 1"),
    ],
)
def test_a_wrong_number_is_told_in_our_words(words: tuple[str, ...], said: str):
    result = call(*words)
    assert result.code == 2
    assert said in one_line(result)


@pytest.mark.parametrize("words", [("run", "Tides."), ("run", "Tides.", "--out", "tides.md")])
def test_a_working_directory_that_is_no_more_is_told(folder: Path, words: tuple[str, ...]):
    gone = folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    result = call(*words)
    assert (result.code, result.out) == (2, "")
    assert one_line(result) == "the working directory has been deleted; change to one that is there"


def limited(size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def spawn_limited(folder: Path, size: int, *arguments: str, **settings: str) -> Said:
    """A process that cannot make a file larger than `size` bytes, as on a full disk."""
    return called(*arguments, folder=folder, environment=environment(folder, settings), preexec_fn=limited(size))


@pytest.mark.check
def test_a_full_disk_under_the_store_is_told_and_nothing_is_lost(folder: Path):
    assert spawn("run", "The tide comes in.", "--quiet", folder=folder).code == 0
    text = "The tide comes in again and again. " * 10_000
    (folder / "long.txt").write_text(text)
    result = spawn_limited(folder, 300_000, "run", "long.txt", "--quiet")
    assert result.code == 5
    assert "redraft: store" in result.err
    assert len(result.err.splitlines()) == 1
    assert "Traceback" not in result.err
    assert spawn("audit", "--all", "--verify", folder=folder).code == 0
    assert json.loads(call("list", "--json").out)[-1]["outcome"] == "accepted"


@pytest.mark.check
def test_a_full_disk_under_the_output_ends_the_run_as_failed_with_nothing_half_written(folder: Path):
    (folder / "long.txt").write_text("The tide comes in again and again. " * 10_000)
    result = spawn_limited(folder, 100_000, "run", "long.txt", "--out", "out.txt", "--quiet", REDRAFT_STORE="memory:")
    assert result.code == 1
    assert "out.txt" in one_line(result)
    assert left(folder) == {"long.txt"}


@pytest.mark.check
def test_an_output_that_nobody_takes_is_quiet_and_one_that_is_full_is_told(folder: Path):
    (folder / "long.txt").write_text("The tide comes in again and again. " * 10_000)
    assert call("run", "long.txt", "--out", "out.txt", "--quiet").code in (0, 3)
    with start("show", "last", "--text", folder=folder) as process:
        assert process.stdout
        assert process.stdout.read(10) == "The tide c"
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr
        assert process.stderr.read() == ""
    full = Path("/dev/full")
    if full.exists():
        with full.open("w") as nowhere:
            done = subprocess.run(
                [sys.executable, "-m", "redraft", "list"],
                cwd=folder,
                env=environment(folder, {}),
                stdout=nowhere,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
            )
        assert done.returncode == 1
        assert done.stderr == "redraft: the output cannot be written: No space left on device; free some space\n"


WAITING = """
import os
from pathlib import Path
from redraft.actors.workflow.roles import critic, generator, refiner
from redraft.actors.workflow.workflow import Workflow
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Critique
import asyncio

@generator
def write(brief): return brief.text

@critic
async def judge(draft):
    with open("judged.txt", "a") as file:
        file.write(f"{draft.version}\\n")
    while not Path("go.txt").exists():
        await asyncio.sleep(0.01)
    return Critique(min(1, draft.version / 3))

@refiner
def improve(draft): return draft.text + "!"

flow = Workflow("waiting").start_with(write).repeat_until(score >= 1, max_iterations=5, body=[judge, improve])
"""


@contextmanager
def at_work(folder: Path, *options: str, text: str = WAITING) -> Iterator[Forked]:
    """A process with a run, while its first critic is at work."""
    (folder / "waiting.py").write_text(text)
    with start("run", "waiting.py:flow", "Tides", *options, folder=folder) as process:
        assert process.stderr
        while "iteration 1" not in process.stderr.readline():
            assert process.poll() is None
        yield process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_lets_the_step_end_and_says_how_to_go_on(folder: Path, number: signal.Signals, code: int):
    with at_work(folder) as process:
        process.send_signal(number)
        assert "stopping when the step under way has ended" in process.stderr.readline()
        (folder / "go.txt").touch()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    lines = err.splitlines()
    assert lines[0].startswith("Refinement[1]/judge: critic judge scored draft 1")
    run = json.loads(call("list", "--json").out)[0]["run"]
    assert lines[-1] == f"redraft: interrupted; go on with: redraft run --resume {run}"
    again = spawn("run", "--resume", run, "--json", folder=folder)
    document = json.loads(again.out)
    assert (again.code, document["outcome"], document["draft"]["text"]) == (0, "accepted", "Tides!!")
    assert (folder / "judged.txt").read_text().split() == ["1", "2", "3"]


def test_how_to_go_on_is_said_without_the_password_of_the_store(folder: Path, postgres_url: str):
    parts = urlsplit(postgres_url)
    url = parts._replace(netloc=f"{getuser()}:hunter2@{parts.hostname}:{parts.port}").geturl()
    with at_work(folder, "--store", url) as process:
        process.send_signal(signal.SIGTERM)
        (folder / "go.txt").touch()
        _, err = process.communicate(timeout=60)
    assert f"--store 'postgresql://{getuser()}:***@" in err
    assert "hunter2" not in err


def test_a_second_signal_stops_at_once(folder: Path):
    with at_work(folder) as process:
        process.send_signal(signal.SIGINT)
        assert "press Ctrl-C again" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "interrupted; go on with" in process.stderr.read()
    (folder / "go.txt").touch()
    again = spawn("run", "--resume", "last", "--workflow", "waiting.py:flow", "--quiet", folder=folder)
    assert (again.code, again.out) == (0, "Tides!!")


def test_going_on_finds_the_functions_that_the_run_began_with(folder: Path, monkeypatch: pytest.MonkeyPatch):
    with at_work(folder) as process:
        process.kill()
    (folder / "waiting.py").rename(folder / "moved.py")
    result = call("run", "--resume", "last")
    assert result.code == 2
    missing = f"{folder / 'waiting.py'}, which the run began with, is not there; name the file with --workflow"
    assert missing in one_line(result)
    (folder / "moved.py").rename(folder / "waiting.py")
    (folder / "go.txt").touch()
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "go.txt").touch()
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{folder / 'store.db'}")
    monkeypatch.chdir(folder / "elsewhere")
    assert call("run", "--resume", "last", "--quiet").out == "Tides!!"


def test_a_plan_that_changed_since_the_run_began_is_named(folder: Path):
    with at_work(folder) as process:
        process.kill()
    (folder / "waiting.py").write_text(WAITING.replace("max_iterations=5", "max_iterations=1"))
    (folder / "go.txt").touch()
    for named in ((), ("--workflow", "waiting.py:flow")):
        again = spawn("run", "--resume", "last", *named, folder=folder)
        assert again.out == "Tides!!"
        if named:
            assert "the plan was changed" not in again.err  # the run has ended
        else:
            changed = "waiting.py:flow: the plan was changed since the run began; the run goes on with the plan that"
            assert changed in again.err


@pytest.mark.parametrize("scale", [(0, 10), (1, 10)])
def test_a_run_that_began_without_a_scale_goes_on_when_its_critic_declares_one(folder: Path, scale: tuple[int, int]):
    with at_work(folder) as process:
        process.kill()
    low, high = scale
    declared = WAITING.replace("@critic", f"@critic(scale={scale})")
    declared = declared.replace("min(1, draft.version / 3)", f"{low} + {high - low} * min(1, draft.version / 3)")
    (folder / "waiting.py").write_text(declared)
    (folder / "go.txt").touch()
    fresh = spawn("run", "waiting.py:flow", "Tides", "--quiet", folder=folder)
    assert fresh.code == 2
    assert "could be meant on two scales" in one_line(fresh)
    again = spawn("run", "--resume", "last", folder=folder)
    assert (again.code, again.out) == (0, "Tides!!"), again.err
    assert "waiting.py:flow: the plan was changed since the run began" in again.err


def test_going_on_with_other_code_than_the_run_began_with_is_said_in_one_line(folder: Path):
    with at_work(folder) as process:
        process.kill()
    (folder / "waiting.py").write_text(WAITING.replace("version / 3", "version / 1"))
    (folder / "go.txt").touch()
    resumed = call("run", "--resume", "last", "--actors", "waiting.py")
    assert (resumed.code, resumed.out) == (0, "Tides")
    [line] = [each for each in resumed.err.splitlines() if "version" in each]
    assert re.fullmatch(
        "redraft: critic judge: the run began with version [0-9a-f]{12} of its code, and this is [0-9a-f]{12}", line
    )


def test_going_on_publishes_where_out_said_at_the_start(folder: Path):
    text = WAITING.replace("[judge, improve])", '[judge, improve]).finally_(step("file", role="publisher"))')
    text = text.replace("import Workflow", "import Workflow, step")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    target = elsewhere / "out.txt"
    with at_work(folder, "--out", str(target), text=text) as process:
        process.kill()
    (folder / "go.txt").touch()
    assert call("run", "--resume", "last", "-w", "waiting.py:flow", "--quiet").code == 0
    assert target.read_text() == "Tides!!"


def test_a_flipped_byte_is_named_and_a_good_copy_verifies(folder: Path):
    assert call("run", "The tide comes in.", "--quiet").code == 0
    assert call("audit", "last", "--verify").code == 0
    store = folder / "store.db"
    with closing(sqlite3.connect(store)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw = store.read_bytes()
    at = raw.index(b"The tide comes in.")
    store.write_bytes(raw[:at] + b"X" + raw[at + 1 :])
    result = call("audit", "last", "--verify")
    assert result.code == 1
    first, *_ = result.err.splitlines()
    assert "event " in first
    assert "is not what was recorded" in first
    everything = call("audit", "--all", "--verify")
    assert everything.code == 1
    assert everything.out == "1 run with 12 events looked at, 2 faults\n"
    assert call("doctor").code == 1
