"""Every kind of model string, each in its provider's own protocol, against a real server: no URL of Redraft's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest
from model_server import Json, ModelServer, read_script
from tests.app.cli_calls import Said, call, one_line

KEY = "sk-scripted-0123456789abcdef"
TIDES = Path(__file__).parents[3] / "examples" / "answers" / "tides.jsonl"
ARTICLE = ("run", "Why tides exist", "--workflow", "article")


class Provider(NamedTuple):
    """A model string, where its library finds its server and its key, and how that is asked."""

    model: str
    place: str
    key: str
    path: str
    is_priced: bool = True

    def environment(self, server: ModelServer) -> dict[str, str]:
        root = self.place.startswith(("ANTHROPIC", "GOOGLE"))
        return {self.place: server.root if root else server.url, self.key: KEY}


PROVIDERS = {
    each.model.partition(":")[0]: each
    for each in (
        Provider("openai:gpt-5", "OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1/responses"),
        Provider("openai-chat:gpt-4o", "OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1/chat/completions"),
        Provider("anthropic:claude-haiku-4-5", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "/v1/messages"),
        Provider(
            "google:gemini-2.5-pro",
            "GOOGLE_GEMINI_BASE_URL",
            "GOOGLE_API_KEY",
            "/v1beta/models/gemini-2.5-pro:",
        ),
        Provider("ollama:llama3.3", "OLLAMA_BASE_URL", "OLLAMA_API_KEY", "/v1/chat/completions", False),
        Provider("vllm:qwen3", "VLLM_BASE_URL", "VLLM_API_KEY", "/v1/chat/completions", False),
    )
}
Asked: TypeAlias = Callable[..., Said]
every_provider = pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    for each in PROVIDERS.values():
        monkeypatch.delenv(each.place, raising=False)
        monkeypatch.delenv(each.key, raising=False)
    for name in ("REDRAFT_MODEL", "REDRAFT_MODEL_URL", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Runs `article` with a provider's model, which is found by the provider's own settings."""

    def call_it(provider: Provider, server: ModelServer, *more: str) -> Said:
        for name, value in provider.environment(server).items():
            monkeypatch.setenv(name, value)
        return call(*ARTICLE, "--model", provider.model, *more)

    return call_it


@every_provider
@pytest.mark.parametrize("watch", [False, True], ids=["whole", "streamed"])
def test_an_article_is_written_judged_and_improved(provider: Provider, watch: bool, asked: Asked, tmp_path: Path):
    with ModelServer(read_script(TIDES)) as server:
        said = asked(provider, server, "--json", *(("--watch",) if watch else ()))
        assert server.left == [], said.err
        assert {each["path"].startswith(provider.path) for each in server.asked} == {True}, server.asked[0]["path"]
        assert all(any(KEY in value for value in each["headers"].values()) for each in server.asked)
    end = json.loads(said.out)
    assert (said.code, end["outcome"], end["iterations"]) == (0, "accepted", 2), said.err
    used = end["usage"]
    assert (used["calls"], used["model"]) == (4, provider.model)
    assert used["input_tokens"] > 400
    assert used["output_tokens"] > 100
    assert (used["cost"] > 0, used.get("unpriced", 0)) == ((True, 0) if provider.is_priced else (False, 4))
    assert ("Moon" in said.err) == watch
    assert not [path.name for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


WRONG: dict[str, Json] = {
    "wrong schema": {"for": "You judge", "reply": {"verdict": "excellent"}},
    "praise": {"for": "You judge", "text": "Excellent! 10/10."},
}


@every_provider
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_an_invalid_reply_is_asked_again(provider: Provider, wrong: Json, asked: Asked):
    with ModelServer([wrong, *read_script(TIDES)]) as server:
        said = asked(provider, server, "--json")
    end = json.loads(said.out)
    assert (end["outcome"], end["usage"]["calls"]) == ("accepted", 5), said.err


@every_provider
def test_a_server_that_is_busy_or_broken_is_asked_again(provider: Provider, asked: Asked):
    faults: list[Json] = [
        {"status": 429, "headers": {"retry-after": "1"}, "error": f"slow down, {KEY}"},
        {"status": 500, "headers": {"retry-after": "1"}, "error": "oops"},
    ]
    with ModelServer([*faults, *read_script(TIDES)]) as server:
        said = asked(provider, server, "--json")
        assert server.left == []
    assert json.loads(said.out)["outcome"] == "accepted", said.err
    assert KEY not in said.out + said.err


FAULTS: dict[str, tuple[Json, str]] = {
    "wrong key": ({"status": 401, "error": f"bad key {KEY}", "always": True}, "bad key ***"),
    "refusal": ({"refusal": "I will not", "always": True}, "refused"),
}


@every_provider
@pytest.mark.parametrize("fault", FAULTS)
def test_a_refusal_fails_the_run_and_shows_no_key(provider: Provider, fault: str, asked: Asked):
    answer, told = FAULTS[fault]
    with ModelServer([answer]) as server:
        said = asked(provider, server)
        assert len(server.asked) == 1, "asking again would not help"
    assert said.code == 1
    assert told in said.err
    assert KEY not in said.out + said.err


@every_provider
def test_without_its_key_or_place_one_line_says_what_to_set(provider: Provider, monkeypatch: pytest.MonkeyPatch):
    own = provider.model.startswith(("ollama", "vllm"))
    said = call(*ARTICLE, "--model", provider.model)
    assert said.code == 2
    assert (provider.place if own else provider.key) in one_line(said)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("google-gla:gemini-2.5-pro", "write google:gemini-2.5-pro"),
        ("google-vertex:gemini-2.5-pro", "write google-cloud:gemini-2.5-pro"),
        ("groq:llama-3.3-70b-versatile", "pip install"),
    ],
)
def test_other_names_are_refused_in_one_line_with_the_remedy(model: str, told: str):
    said = call(*ARTICLE, "--model", model)
    assert said.code == 2
    assert told in one_line(said)
