"""A wrong setting in the environment is told by the name of its variable."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.cli_calls import call, document, one_line


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("MODEL_LIMITS", "x", "it has to be an object in JSON"),
        ("HTTP", "x", "it has to be an object in JSON"),
        ("USERS", "x", "it has to be an object in JSON"),
        ("USERS", "[1]", "it has to be an object"),
        ("MODEL_PRICES", '{"a":1}', "a: it has to be an object"),
        ("HTTP", '{"a":1}', "a: there is no such setting"),
        ("HTTP", '{"port":"x"}', "port: it has to be a whole number"),
        ("WEBHOOK_HOSTS", '{"a.example":1}', "a.example: it has to be a list"),
    ],
)
def test_a_wrong_variable_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, fault: str
) -> None:
    monkeypatch.setenv(f"REDRAFT_{name}", value)
    said = call("list")
    assert (said.code, said.out) == (2, "")
    line, told, remedy = one_line(said).partition(f"; write it such as REDRAFT_{name}='")
    assert line == f"REDRAFT_{name}: {fault}"
    monkeypatch.setenv(f"REDRAFT_{name}", remedy.removesuffix("'"))
    assert told
    assert call("run", "--text", "The tide.", "--quiet").code == 0


def test_a_wrong_part_of_a_setting_in_a_file_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "redraft.toml").write_text("[model_prices.a]\ninput = 'x'\n")
    assert one_line(call("list")) == (
        "setting 'model_prices.a.input' (REDRAFT_MODEL_PRICES or redraft.toml): it has to be a number"
    )


def test_doctor_warns_of_a_variable_that_is_no_setting(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REDRAFT_MODELL", "REDRAFT_SERVICE_HOST", "REDRAFT_PORT_8420_TCP_ADDR", "REDRAFT_HEALTH_FILE"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("REDRAFT_XYZZY", "secret")
    found = document("doctor")
    told = {each["message"].partition("; ")[::2] for each in found["checks"] if each["name"] == "environment"}
    assert ("REDRAFT_MODELL is no setting", "did you mean REDRAFT_MODEL?") in told
    assert any(what == "REDRAFT_XYZZY is no setting" and "REDRAFT_STORE" in remedy for what, remedy in told)
    assert not any("REDRAFT_SERVICE" in what or "TCP" in what or "HEALTH" in what for what, _ in told)
    assert "secret" not in str(found)
    assert {each["level"] for each in found["checks"] if each["name"] == "environment"} == {"warn"}
