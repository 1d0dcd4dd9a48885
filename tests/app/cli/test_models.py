"""`redraft run` with a model, as people type it, against a server that speaks OpenAI's protocol."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from model_server import Json, ModelServer, read_script
from tests.app.cli_calls import Said, begin, call, one_line, spawn

KEY = "sk-scripted-0123456789abcdef"
ROOT = Path(__file__).parents[3]
TIDES = ROOT / "examples" / "answers" / "tides.jsonl"
ARTICLE = ("run", "Why tides exist", "--workflow", "article")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    for name in ("OPENAI_API_KEY", "REDRAFT_MODEL", "REDRAFT_MODEL_URL", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def asked(server: ModelServer, folder: Path, *arguments: str, **settings: str) -> Said:
    given = {"OPENAI_API_KEY": KEY, "REDRAFT_MODEL_URL": server.url, **settings}
    return spawn(*(arguments or (*ARTICLE, "--model", "openai:gpt-4o")), folder=folder, **given)


def test_an_article_is_written_judged_improved_and_published(tmp_path: Path):
    with ModelServer(read_script(TIDES)) as server:
        said = asked(server, tmp_path)
        assert server.left == []
    assert (said.code, said.out) == (0, read_script(TIDES)[2]["reply"]["text"])
    assert "accepted, score 0.889, 2 iterations, 4 calls," in said.err
    assert "USD, run" in said.err


def test_the_result_holds_what_it_cost_and_every_critique(tmp_path: Path):
    with ModelServer(read_script(TIDES)) as server:
        said = asked(server, tmp_path, *ARTICLE, "--json", REDRAFT_MODEL="openai:gpt-4o")
    end = json.loads(said.out)
    assert (end["outcome"], end["iterations"], len(end["critiques"])) == ("accepted", 2, 2)
    assert (end["usage"]["calls"], end["usage"]["model"], end["usage"]["currency"]) == (4, "openai:gpt-4o", "USD")
    assert end["critiques"][0]["critique"]["errors"] == ["“once a day”: Most coasts have two high tides a day."]


def test_what_models_write_is_shown_while_they_write(tmp_path: Path):
    script = read_script(TIDES)
    script[0]["text"] = "Tides \x1b[31mexist\x1b[0m because the Moon pulls the sea. They come once a day."
    with ModelServer(script) as server:
        said = asked(server, tmp_path, *ARTICLE, "--model", "openai:gpt-4o", "--watch")
    assert said.code == 0
    assert (
        "generate: Tides \u241b[31mexist\u241b[0m because the Moon pulls the sea. They come once a day.\n" in said.err
    )
    assert "\nRefinement[1]/critique: \nscore: 5\nstrengths: " in said.err
    assert "\x1b" not in said.err
    assert said.out == script[2]["reply"]["text"]


def test_without_a_model_one_line_says_how_to_configure_one(tmp_path: Path):
    said = call(*ARTICLE)
    assert said.code == 2
    assert one_line(said).startswith("no model is configured: give --model openai:gpt-5, or set REDRAFT_MODEL")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("openai:gpt-5", "model 'openai:gpt-5': set the OPENAI_API_KEY environment variable"),
        ("gpt-5", "name the provider too, such as openai:gpt-5"),
        ("anthropc:claude", "unknown model: anthropc:claude"),
    ],
)
def test_a_model_that_cannot_be_asked_is_told_before_anything_is_recorded(model: str, told: str, tmp_path: Path):
    said = call(*ARTICLE, "--model", model)
    assert said.code == 2
    assert told in one_line(said)
    assert not list(tmp_path.iterdir())


def test_a_worker_that_cannot_ask_its_model_does_not_begin(tmp_path: Path):
    settings = {"REDRAFT_BUS": "amqp://127.0.0.1:9/", "REDRAFT_MODEL": "openai:gpt-5"}
    said = spawn("worker", "llm", folder=tmp_path, **settings)
    assert said.code == 2
    assert "set the OPENAI_API_KEY environment variable" in one_line(said)


@pytest.mark.check
def test_doctor_says_whether_the_model_can_be_asked(monkeypatch: pytest.MonkeyPatch):
    assert call("run", "The sea is calm.").code == 0
    assert "model" not in [line.split()[1] for line in call("doctor").out.splitlines()]
    monkeypatch.setenv("REDRAFT_MODEL", "openai:gpt-5")
    assert "set the OPENAI_API_KEY environment variable" in call("doctor").out
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    said = call("doctor").out
    assert "openai:gpt-5 is known, and its key is set" in said
    assert KEY not in said


def test_a_file_in_the_folder_may_not_say_where_the_key_goes(tmp_path: Path):
    (tmp_path / "redraft.toml").write_text('model = "openai:gpt-4o"\nmodel_url = "http://127.0.0.1:9/v1"\n')
    said = call(*ARTICLE)
    assert said.code == 2
    assert "set REDRAFT_MODEL_URL instead" in one_line(said)
    assert call("trust").code == 0
    assert "set REDRAFT_MODEL_URL instead" in one_line(call(*ARTICLE)), "it may not, whoever trusts the file"


@pytest.mark.check
def test_without_the_extra_one_line_says_what_to_install(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Away:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'pydantic_ai':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Away())\n"
    )
    said = begin(*ARTICLE, "--model", "openai:gpt-5", folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert said.code == 2
    assert "pip install 'redraft[llm]'" in one_line(said)
    other = begin("run", "The sea is calm.", folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert other.code == 0, other.err


def test_a_run_keeps_the_model_that_it_was_given(tmp_path: Path):
    with ModelServer(read_script(TIDES)) as server:
        asked(server, tmp_path)
    call("audit", "last", "--export", "run.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    started = next(line for line in lines if "plan" in json.dumps(line))
    assert '"openai:gpt-4o"' in json.dumps(started).replace("\\", "")


LEAKS: dict[str, Json] = {
    "wrong key": {"status": 401, "error": f"Incorrect API key provided: {KEY}"},
    "busy": {"status": 429, "headers": {"retry-after-ms": "1"}, "error": f"{KEY} is busy"},
    "broken": {"status": 500, "headers": {"retry-after-ms": "1"}, "error": f"at {KEY}"},
    "cut": {"text": f"The key is {KEY}", "cut": 40},
    "no json": {"raw": f"<html>{KEY}</html>"},
    "wrong schema": {"reply": {"key": KEY}},
    "told": {"text": f"The key is {KEY}"},
    "told in a reply": {"reply": {"score": 9, "strengths": [KEY]}},
    "refusal": {"refusal": f"I will not, {KEY}"},
}


@pytest.mark.parametrize(("fault", "watch"), [*((fault, False) for fault in LEAKS), ("cut", True), ("busy", True)])
def test_the_key_is_in_no_file_and_no_output_whatever_goes_wrong(fault: str, watch: bool, tmp_path: Path):
    """Only `--watch` shows what a model writes as it is; what it tells of the key is not recorded even then."""
    answer = LEAKS[fault]
    plan = (
        "name: p\nsteps: [{generate: {actor: llm, retry: {attempts: 1}}}, {repeat: {until: score >= 1, "
        "max_iterations: 1, body: [{critique: {actor: llm, retry: {attempts: 1}}}]}}]"
    )
    (tmp_path / "plan.yaml").write_text(plan)
    first = [] if "text" in answer or "refusal" in answer else [{"for": "You write", "text": "The sea."}]
    with ModelServer([*first, {**answer, "always": True}]) as server:
        watching = ("--watch",) if watch else ()
        said = asked(server, tmp_path, "run", "plan.yaml", "Tides", "--model", "openai:gpt-4o", *watching)
        assert any(f"Bearer {KEY}" in each["headers"].values() for each in server.asked)
    assert said.code == 1, said.err
    shown = [said.out, *(line for line in said.err.splitlines() if not watch or line.startswith("redraft: "))]
    assert not [text for text in shown if KEY in text]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in files)
    assert not [path.name for path in files if KEY.encode() in path.read_bytes()]
