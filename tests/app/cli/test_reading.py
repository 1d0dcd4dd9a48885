"""The verbs that look: list, show, diff, events, audit, rebuild, doctor, help."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from tests.app.cli_calls import call, document, one_line, spawn, start, until

from redraft.app.cli.verb_list import VERBS
from redraft.projections import SHIPPED

BEYOND = "99999999999999999999"

LOUD = """
from redraft.actors.workflow.roles import critic, generator, refiner
from redraft.actors.workflow.workflow import Workflow
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Critique, Revision

@generator
def write(brief): return brief.text + "\\n\\nThe end."

@critic
def judge(draft):
    loud = draft.text.count("!") / 2
    return Critique(min(1, loud), suggestions=() if loud >= 1 else ("shout",))

@refiner
def improve(draft): return Revision(draft.text.replace(".", "!.", 1), changes=("shouted",))

loud = Workflow("loud").start_with(write).repeat_until(score >= 1, max_iterations=5, body=[judge, improve])
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of three runs: accepted, exhausted, accepted."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "loud.py").write_text(LOUD)
        (folder / "tides.md").write_text("Tides rise \x1b[31mred\x1b[0m. Then they fall.\n")
        store = ("--store", "sqlite:///store.db", "--quiet")
        assert call("run", "loud.py:loud", "tides.md", *store).code == 0
        assert call("run", "loud.py:loud", "First.", "--max-iterations", "1", *store).code == 3
        assert call("run", "The sea is calm.", "--tag", "sea", "--tag", "calm/1", "--tag", "sea", *store).code == 0
    return folder


@pytest.fixture(autouse=True)
def at_the_runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(request.getfixturevalue("runs"))
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")


def ids() -> list[str]:
    return [each["run"] for each in reversed(document("list"))]


def test_list_is_a_table_of_the_newest_first():
    lines = call("list").out.splitlines()
    assert lines[0].split() == ["run", "workflow", "outcome", "iterations", "score", "started", "(UTC)", "brief"]
    assert [line.split()[1:5] for line in lines[1:]] == [
        ["prose", "accepted", "1", "1.00"],
        ["loud", "exhausted", "1", "0.50"],
        ["loud", "accepted", "3", "1.00"],
    ]
    assert lines[3].rstrip().endswith("tides.md: Tides rise [31mred [0m. Then they fall.")
    assert "\x1b" not in call("list").out


def test_list_is_filtered():
    assert [each["workflow"] for each in document("list", "--workflow", "loud")] == ["loud", "loud"]
    assert [each["outcome"] for each in document("list", "--outcome", "exhausted")] == ["exhausted"]
    assert len(document("list", "--limit", "1")) == 1
    assert call("list", "--workflow", "none").out == "no runs\n"
    assert [each["tags"] for each in document("list", "--tag", "calm/1")] == [["sea", "calm/1"]]
    assert "give at least 1" in one_line(call("list", "--limit", "0"))


def test_show_is_a_tree_with_scores_and_why_it_ended():
    out = call("show", ids()[0]).out
    lines = out.splitlines()
    assert lines[0].startswith(f"run {ids()[0]}, 20")
    assert lines[1] == "loud"
    assert lines[2].startswith("├── write  draft 1, ")
    assert lines[3].startswith("└── Refinement  accepted: ")
    iterations = [line.strip("│├└─ ").rpartition("  ") for line in lines if "─ iteration " in line][:3]
    assert [each[0] for each in iterations] == [f"iteration {n}" for n in (1, 2, 3)]
    assert all(re.fullmatch(r"[\d.]+ m?s", each[2]) for each in iterations)
    assert "judge  score 0.50, draft 2, " in out
    assert lines[-1].startswith("accepted: ")
    assert lines[-1].endswith("(3 iterations, score 1.00, draft 3)")


def test_show_at_an_earlier_event_shows_no_more_than_was_known():
    out = call("show", ids()[0], "--at", "6").out
    assert "score 0.00, draft 1" in out
    assert "iteration 2" not in out
    assert out.splitlines()[-1] == "after the first 6 events"
    assert document("show", ids()[0], "--at", "6")["version"] == 6
    for wrong in ("0", "999"):
        said = call("show", ids()[0], "--at", wrong)
        assert said.code == 2
        assert f"--at {wrong}: run {ids()[0]} has " in one_line(said)


def test_show_at_a_time_is_the_run_as_it_stood_then():
    run = ids()[0]
    events = [json.loads(line) for line in call("events", "--run", run, "--json").out.splitlines()]
    for event in (events[0], events[5], events[-1]):
        shown = document("show", run, "--at", event["time"])
        assert shown["version"] == max(each["version"] for each in events if each["time"] <= event["time"])
        assert shown == document("show", run, "--at", str(shown["version"]))
    assert document("show", run, "--at", "0s") == document("show", run)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("0", "--at 0: run "),
        ("-2", "--at -2: run "),
        ("9999", "--at 9999: run "),
        ("9" * 5000, "is neither the number of an event nor a time"),
        (
            "noon",
            "--at 'noon' is neither the number of an event nor a time; write 7, 2026-01-03T10:00Z, or how long ago",
        ),
        ("2001-01-01", "--at 2001-01-01: run "),
        ("9w", "give a later time"),
    ],
)
def test_show_at_what_is_no_point_of_the_run_is_told(at: str, said: str):
    result = call("show", ids()[0], "--at", at)
    assert (result.code, result.out) == (2, "")
    assert said in one_line(result)


def test_show_step_is_what_its_worker_was_given():
    found = document("show", ids()[0], "--step", "Refinement[2]/improve")
    assert (found["name"], found["run"], found["command"]["request"]["attempt"]) == ("draft.refine.v1", ids()[0], 1)
    assert found["command"]["draft"]["version"] == 2
    assert found["command"]["critique"]["score"] == 0.5
    assert len(found["command"]["history"]["rounds"]) == 2
    first, *rest = call("show", ids()[0], "--step", "Refinement[2]/improve").out.splitlines()
    assert first.startswith(f"draft.refine.v1 for improve, attempt 1 (event {found['version']} of run {ids()[0]}, 2")
    assert json.loads("\n".join(rest)) == found["command"]
    for arguments, said in (
        (("--step", "Refinement[2]/imrpove"), "did you mean Refinement[2]/improve?"),
        (("--step", "Refinement[2]/improve", "--attempt", "2"), "was asked for in attempt 1; give one of these"),
        (("--step", "Refinement[2]/improve", "--at", "3"), "by then"),
        (("--attempt", "2"), "name it with --step PATH"),
    ):
        result = call("show", ids()[0], *arguments)
        assert (result.code, result.out) == (2, "")
        assert said in one_line(result)


def test_show_text_is_the_draft_byte_for_byte():
    said = spawn("show", ids()[0], "--text", folder=Path.cwd())
    assert said.out == "Tides rise \x1b[31mred\x1b[0m!!. Then they fall.\n\n\nThe end."
    sha256 = document("run", "--resume", ids()[0], "--quiet")["draft"]["sha256"]
    assert hashlib.sha256(said.out.encode()).hexdigest() == sha256
    assert "has no draft after 1 events" in one_line(call("show", ids()[0], "--at", "1", "--text"))


def test_a_run_is_found_by_its_end_and_by_last_and_told_when_it_is_none():
    first = ids()[0]
    assert document("show", first[-6:])["run"] == first
    assert document("show", "last")["run"] == ids()[2]
    for verb in (("show", "nope"), ("diff", "nope", "1", "2"), ("events", "--run", "nope"), ("audit", "nope")):
        said = call(*verb)
        assert said.code == 4
        assert one_line(said) == "no run 'nope'; `redraft list` shows the runs that there are"
    said = call("show", first[:2])
    assert said.code == 2
    assert "may be any of" in one_line(said)


def test_diff_marks_the_words_and_shows_control_characters():
    out = call("diff", ids()[0], "1", "3").out
    assert out.splitlines() == [
        "judge: score 0.00 → 1.00",
        "- Tides rise ␛[31mred␛[0m. Then they fall.",
        "+ Tides rise ␛[31mred␛[0m{+!!+}. Then they fall.",
        "  ",
        "  ",
        "  The end.",
    ]
    changed = document("diff", ids()[0], "1", "3")
    assert changed["before"]["version"] == 1
    assert [line["type"] for line in changed["lines"]] == ["removed", "added", "kept", "kept", "kept"]


def test_diff_of_a_draft_with_itself_and_of_one_that_is_not_there():
    assert call("diff", ids()[0], "2", "2").out == "drafts 2 and 2 are the same text\n"
    said = call("diff", ids()[0], "1", "9")
    assert said.code == 2
    assert "has no draft 9; it has 3 drafts" in one_line(said)
    assert "invalid value for 'A'" in one_line(call("diff", "last", "one", "2"))


def test_events_are_lines_in_the_order_of_the_log():
    lines = [json.loads(line) for line in call("events", "--json").out.splitlines()]
    assert [line["position"] for line in lines] == list(range(1, len(lines) + 1))
    assert {line["run"] for line in lines} == set(ids())
    shown = call("events", "--from", "3", "--limit", "2").out.splitlines()
    assert [line.split()[0] for line in shown] == ["3", "4"]
    assert ids()[0] in shown[0]


def test_events_of_one_run_and_of_one_type():
    lines = [json.loads(line) for line in call("events", "--run", ids()[1], "--json").out.splitlines()]
    assert {line["run"] for line in lines} == {ids()[1]}
    assert [line["version"] for line in lines] == list(range(1, len(lines) + 1))
    for kind in ("draft.critiqued", "draft.critiqued.v1"):
        found = call("events", "--type", kind, "--json").out.splitlines()
        assert {json.loads(line)["name"] for line in found} == {"draft.critiqued.v1"}
    said = call("events", "--type", "draft.critqued")
    assert said.code == 2
    assert "did you mean draft.critiqued?" in one_line(said)
    assert "give at least 1" in one_line(call("events", "--limit", "0"))


def positions(*arguments: str) -> list[int]:
    said = call("events", "--json", *arguments)
    assert (said.code, said.err) == (0, "")
    return [json.loads(line)["position"] for line in said.out.splitlines()]


def test_events_by_workflow_tag_outcome_and_time():
    log = [json.loads(line) for line in call("events", "--json").out.splitlines()]
    first, second, third = ([each["position"] for each in log if each["run"] == run] for run in ids())
    assert (
        positions("--workflow", "prose") == positions("--tag", "sea") == positions("--tag=calm/1", "--from=1") == third
    )
    assert positions("--workflow", "loud", "--workflow", "prose") == [*first, *second, *third]
    assert positions("--run", ids()[0], "--run", "last") == [*first, *third]
    assert positions("--run", ids()[0], "--tag", "sea") == []
    assert positions("--run", "last", "--from", str(third[1])) == third[1:]
    assert positions("--tag", "sea", "--from", str(third[2]), "--limit", "2") == third[2:4]
    assert positions("--outcome", "exhausted", "--type", "run.ended") == second[-1:]
    assert positions("--outcome", "exhausted", "--outcome", "accepted", "--type", "run.ended") == [
        each[-1] for each in (first, second, third)
    ]
    assert positions("--since", "1h") == [*first, *second, *third]
    assert positions("--until", "1h") == []
    time = log[third[0] - 1]["time"]
    assert positions("--since", time) == third
    assert positions("--since", time, "--run", ids()[0]) == []
    assert positions("--until", time) == [*first, *second]
    assert positions("--since", "2999-01-01") == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--from", "-3"), "--from is -3; positions in the log begin at 1"),
        (("--from", "0"), "--from is 0"),
        (("--from", "99999999999"), "--from is 99999999999; the last event of this log is at position "),
        (("--from", "99999999999", "--follow"), "--from is 99999999999; the last event of this log is at position "),
        (("--from", BEYOND), f"--from is {BEYOND}; give at most 9223372036854775807"),
        (("--limit", BEYOND), f"--limit is {BEYOND}; give at most"),
        (("--since", "soon"), "--since 'soon' is not a time; write 2026-01-03"),
        (("--until", "7"), "--until '7' is not a time"),
        (("--since", "1h", "--until", "2h"), "nothing was recorded from"),
        (("--outcome", "good"), "no run ends as 'good'; it is one of accepted, "),
        (("--run", "nobody"), "no run 'nobody'"),
    ],
)
def test_a_wrong_filter_of_events_is_told(arguments: tuple[str, ...], said: str):
    result = call("events", *arguments)
    assert (result.code, result.out) == (4 if "nobody" in said else 2, "")
    assert said in one_line(result)


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("stats", "publications"),
        ("projections", "show", "runs"),
        ("whatif", "--workflow", "loud", "--until", "score >= 0.5"),
    ],
)
def test_a_limit_beyond_what_databases_hold_is_told(arguments: tuple[str, ...]):
    result = call(*arguments, "--limit", BEYOND)
    assert (result.code, result.out) == (2, "")
    assert f"--limit is {BEYOND}; give at most 9223372036854775807" in one_line(result)
    assert call(*arguments, "--limit", "9223372036854775807").code == 0


def test_events_are_followed_with_a_filter(tmp_path: Path):
    run = ("run", "The sea is calm.", "--quiet", "--tag")
    assert spawn(*run, "one", folder=tmp_path).code == 0
    with start("events", "-f", "--json", "--tag=one", "--since=1h", "--outcome=accepted", folder=tmp_path) as process:
        assert process.stdout
        json.loads(process.stdout.readline())
        before = json.loads(process.stdout.readline())
        assert spawn(*run, "two", folder=tmp_path).code == 0
        assert spawn(*run, "one", folder=tmp_path).code == 0
        after = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert [each["name"] for each in after] == ["loop.ended.v1", "run.ended.v1"]
        assert after[0]["position"] > 2 * before["position"]
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "")


def test_events_are_followed_until_a_signal(tmp_path: Path):
    assert spawn("run", "The sea is calm.", "--quiet", folder=tmp_path).code == 0
    with start("events", "--follow", "--from=1", "--json", "--type", "run.ended", folder=tmp_path) as process:
        assert process.stdout
        first = json.loads(process.stdout.readline())
        assert spawn("run", "The sea is calm.", "--quiet", folder=tmp_path).code == 0
        second = json.loads(process.stdout.readline())
        assert second["position"] > first["position"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")


def test_events_are_followed_from_now_on(tmp_path: Path):
    """What the run before told is not printed, and of the run that is begun again and again all that follows is."""
    run = ("run", "The sea is calm.", "--quiet")
    assert spawn(*run, folder=tmp_path).code == 0
    before = len(spawn("events", folder=tmp_path).out.splitlines())
    with start("events", "--follow", "--json", folder=tmp_path) as process:
        assert process.stdout
        reading = threading.Thread(target=lambda: found.append(process.stdout.readline()))
        found: list[str] = []
        reading.start()
        until(lambda: bool(found) or spawn(*run, folder=tmp_path).code != 0)
        assert json.loads(found[0])["position"] > before
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


SLOW = """
import time
from pathlib import Path
from redraft.actors import Critique, Workflow, critic, generator, refiner, score

HERE = Path(__file__).parent

@generator
def write(brief): return brief.text

@critic
def judge(draft):
    (HERE / "judging").touch()
    while draft.version == 1 and not (HERE / "go").exists():
        time.sleep(0.01)
    return Critique(draft.version / 2)

@refiner
def improve(draft): return draft.text + "!"

slow = Workflow("slow").start_with(write).repeat_until(score >= 1, max_iterations=3, body=[judge, improve])
"""


def test_a_run_is_followed_until_it_ends_and_the_list_says_where_it_is(tmp_path: Path):
    (tmp_path / "slow.py").write_text(SLOW)
    with start("run", "slow.py:slow", "Tides", folder=tmp_path) as run:
        until((tmp_path / "judging").exists)
        assert "running at Refinement[1]/judge" in spawn("list", folder=tmp_path).out
        [line] = json.loads(spawn("list", "--json", folder=tmp_path).out)
        assert line["step"] == "Refinement[1]/judge"
        with start("show", "last", "--follow", folder=tmp_path) as following:
            assert following.stdout
            shown = [following.stdout.readline()]
            while not shown[-1].startswith("not ended"):
                shown.append(following.stdout.readline())
            (tmp_path / "go").touch()
            out, err = following.communicate(timeout=60)
        assert (following.returncode, err) == (0, "")
        run.communicate(timeout=60)
    assert "Refinement[1]/judge: critic judge scored draft 1 at 0.50" in out.splitlines()
    assert out.splitlines()[-1].startswith("accepted: ")
    assert re.search(r"iteration 1  [\d.]+ m?s$", out, re.MULTILINE), "each iteration has its duration"
    assert json.loads(spawn("list", "--json", folder=tmp_path).out)[0]["step"] == ""
    both = spawn("show", "last", "--follow", "--json", folder=tmp_path)
    assert (both.code, "leave --json out" in both.err) == (2, True)
    assert spawn("show", "last", "--follow", folder=tmp_path).out.splitlines()[-1].startswith("accepted: ")


def test_audit_tells_verifies_and_exports(tmp_path: Path):
    first = ids()[0]
    told = [line for line in call("audit", first).out.splitlines() if line[:4].strip()]
    assert told[5].endswith("[critic judge, because of 5]")
    assert "a run of the workflow loud began" in told[0]
    verified = call("audit", first, "--verify").out
    assert verified.startswith(f"run {first}: {len(told)} events verified; the last hash is ")
    page = tmp_path / "run.html"
    assert call("audit", first, "--export", str(page)).out == f"{page}: {len(told)} events, verified\n"
    assert page.read_text().startswith("<!doctype html>")
    assert "Verified" in page.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["run.html"]
    found = document("audit", first, "--verify")
    assert (found["verified"], len(found["events"])) == (True, len(told))


def test_an_exported_chain_can_be_checked_without_redraft(tmp_path: Path):
    target = tmp_path / "run.jsonl"
    assert call("audit", ids()[0], "--verify", "--export", str(target)).code == 0
    previous = "0" * 64
    for number, line in enumerate(target.read_bytes().splitlines(), start=1):
        event, rest = json.loads(line), line.split(b'"hash":"', 1)[1][66:]
        place = f"{event['run']}\n{event['version']}\n{event['name']}\n{{".encode()
        assert hashlib.sha256(place + rest).hexdigest() == event["hash"]
        assert (event["previous"], event["version"]) == (previous, number)
        previous = event["hash"]


def test_audit_of_all_runs():
    assert call("audit", "--all", "--verify").out.startswith("3 runs with ")
    assert document("audit", "--all", "--verify")["faults"] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name one run, or --all"),
        (("last", "--all", "--verify"), "name one run, or --all"),
        (("--all",), "--all goes with --verify, --checkpoint or --against"),
        (("last", "--export", "run.txt"), "must end with .jsonl or .html"),
        (("last", "--export", "nowhere/run.html"), "there is no folder nowhere"),
    ],
)
def test_a_wrong_audit_is_told(arguments: tuple[str, ...], said: str):
    result = call("audit", *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in one_line(result)


def test_rebuild_proves_that_the_rows_are_the_same_and_tells_when_they_were_not():
    events = len(call("events", "--json").out.splitlines())
    done = document("rebuild")
    assert (done["projections"], done["events"], done["same"]) == ([each.name for each in SHIPPED], events, True)
    with closing(sqlite3.connect("store.views.db")) as views:
        views.execute("UPDATE runs SET outcome = 'accepted'")
        views.commit()
    assert "they differ from the rows that were there before" in call("rebuild", "runs").out
    assert "they are equal to the rows" in call("rebuild", "runs").out
    assert [each["outcome"] for each in document("list")] == ["accepted", "exhausted", "accepted"]


def test_rebuild_makes_dropped_and_damaged_read_models_anew():
    before = call("list").out
    views = Path("store.views.db")
    for damage in (views.unlink, lambda: views.write_bytes(views.read_bytes()[:100] + b"\xff" * 20_000)):
        damage()
        for name in ("store.views.db-wal", "store.views.db-shm"):
            Path(name).unlink(missing_ok=True)
        said = call("rebuild")
        assert said.code == 0, said.err
        assert call("list").out == before


def test_rebuild_of_what_is_no_projection():
    said = call("rebuild", "rusn")
    assert said.code == 2
    assert "rusn" in one_line(said)


def test_doctor_looks_at_everything():
    for deep in ((), ("--deep",)):
        found = document("doctor", *deep)
        assert found["ok"] is True
        levels = {each["name"]: each["level"] for each in found["checks"]}
        levels.pop("environment", "")  # those that the tests themselves are told by
        assert levels.pop("disk") in ("ok", "warn")
        assert set(levels) == {
            "python",
            "packages",
            "sqlite",
            "store",
            "read models",
            "runs",
            "steps",
            "actors",
            "hashes",
            "requests",
            *(("records",) if deep else ()),
        }
        assert set(levels.values()) == {"ok"}
    lines = call("doctor").out.splitlines()
    assert all(line.startswith(("ok ", "warn ")) for line in lines)
    assert any("store.db" in line and "last position" in line for line in lines)


@pytest.mark.parametrize(
    ("what", "columns", "keys"),
    [
        ("actors", ["role", "actor", "asked", "done"], {"role", "actor", "asked", "done", "failed", "seconds", "cost"}),
        ("critics", ["critic", "critiques", "runs", "mean"], {"critic", "critiques", "runs", "mean", "approved"}),
        ("scores", ["draft", "runs", "mean", "lowest"], {"draft", "runs", "mean", "lowest", "highest"}),
        ("publications", ["published", "(UTC)", "run", "draft"], {"run", "draft", "location", "note", "time"}),
        ("issues", ["critic", "kind", "raised", "fixed"], {"critic", "kind", "raised", "fixed", "open", "returned"}),
        ("tree", ["run", "path", "kind", "status"], {"run", "path", "parent", "kind", "status", "score", "outcome"}),
    ],
)
def test_stats_tell_what_runs_add_up_to(what: str, columns: list[str], keys: set[str]):
    found = document("stats", what)
    assert found
    assert keys <= set(found[0])
    lines = call("stats", what).out.splitlines()
    assert lines[0].split()[:4] == columns
    assert len(lines) == 1 + len(found)
    assert document("stats", what, "--since", "2099-01-01") == []
    assert call("stats", what, "--since", "2099-01-01").out == "nothing yet\n"
    assert call("stats", what, "nobody").code == 4
    assert "--since 'soon' is not a time" in one_line(call("stats", what, "--since", "soon"))
    of_one = document("stats", what, ids()[0])
    assert len(call("stats", what, ids()[0]).out.splitlines()) == 1 + (len(of_one) or 0)


@pytest.mark.parametrize("what", ["actors", "critics", "scores", "tree"])
def test_stats_of_one_workflow(what: str):
    loud = document("stats", what, "--workflow", "loud")
    assert document("stats", what) != loud != document("stats", what, "--workflow", "prose") != []
    assert len(call("stats", what, "--workflow", "loud").out.splitlines()) == 1 + len(loud)
    assert document("stats", what, "--workflow", "none") == []
    assert call("stats", what, "--workflow", "none").out == "nothing yet\n"
    said = call("stats", what, ids()[0], "--workflow", "loud")
    assert said.code == 2
    assert "--workflow selects all runs of loud" in one_line(said)


@pytest.mark.parametrize("what", ["critics", "scores", "issues"])
def test_stats_that_tell_a_run_in_full_refuse_since_beside_it(what: str):
    run = ids()[0]
    said = call("stats", what, run, "--since", "2099-01-01")
    assert (said.code, one_line(said)) == (
        2,
        f"--since selects among many runs, but one run was named, {run}; leave one out",
    )


def test_stats_of_what_one_workflow_published_chose_and_mended():
    assert document("stats", "issues", "--workflow", "prose") == []
    assert document("stats", "issues", "--workflow", "loud") == document("stats", "issues") != []
    assert document("stats", "publications", "--workflow", "loud") == []
    assert document("stats", "publications", "--workflow", "prose") == document("stats", "publications") != []
    assert document("stats", "choices", "--workflow", "loud") == []


def test_no_verb_is_a_wrong_usage_and_shows_the_verbs():
    said = call()
    assert said.code == 2
    for verb in VERBS:
        assert verb in said.out
    assert call("--help").code == 0
    assert call("--version").out.startswith("redraft 0.")


def test_colours_are_for_terminals_and_not_where_no_color_is_set(monkeypatch: pytest.MonkeyPatch):
    assert "\x1b[" not in call("diff", ids()[0], "1", "3").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in call("diff", ids()[0], "1", "3").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in call("diff", ids()[0], "1", "3").out
