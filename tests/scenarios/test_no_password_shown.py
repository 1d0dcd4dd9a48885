"""Passwords with odd characters in the URLs of settings: no part of them is ever shown."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from tests.app.cli_calls import call, one_line

from redraft.app.process.logs import without_secrets

ODD = "@:/?#%[] &=+;'\"\\"
PIECES = ("Wq7x", "83921", "kZ0p", "5544", "vJ3m")
"""What passwords are made of; an odd character is between two of them."""

TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")

SEEN = 3
"""So many characters of a password in a row are a part of it."""


def passwords() -> list[str]:
    every = [f"Wq7x{one}83921{one}kZ0p" for one in ODD] + [f"83921{one}kZ0p" for one in ODD]
    chance = random.Random(7)
    mixed = ["".join(piece + chance.choice(ODD) for piece in chance.sample(PIECES, 3)) for _ in range(60)]
    return [*every, *mixed, "83921?user=kZ0p", "83921/kZ0p?cafile=Wq7x", "%5D83921%", "8392\u2100kZ0p"]


def parts(password: str) -> set[str]:
    return (
        {password[at : at + SEEN] for at in range(len(password) - SEEN + 1)}
        - {"?us", "use", "ser", "er="}
        - {"?ca", "caf", "afi", "fil", "ile", "le="}
    )


@pytest.fixture(autouse=True)
def anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_LOG_FORMAT", "json")


def refuse_parts(password: str, *words: str) -> None:
    said = call(*words)
    told = TIME.sub("", said.out + said.err)
    assert said.code in (1, 2, 5), told
    assert told
    assert "Traceback" not in told
    assert [part for part in sorted(parts(password)) if part in told] == [], told


@pytest.mark.parametrize("password", passwords())
def test_the_password_of_a_store_is_not_shown(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRAFT_STORE", f"postgresql://ada:{password}@127.0.0.1:1/runs")
    refuse_parts(password, "list")
    refuse_parts(password, "doctor", "--json")
    refuse_parts(password, "rebuild", "--json")
    refuse_parts(password, "subscriptions", "list")


@pytest.mark.parametrize("password", passwords())
def test_the_password_of_a_broker_is_not_shown(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRAFT_BUS", f"amqp://ada:{password}@127.0.0.1:1/")
    monkeypatch.setenv("REDRAFT_STORE", f"postgresql://ada:{password}@127.0.0.1:1/runs")
    refuse_parts(password, "submit", "A text.")
    refuse_parts(password, "doctor")
    refuse_parts(password, "worker", "prose", "--patience", "0")
    refuse_parts(password, "coordinator", "--patience", "0")
    refuse_parts(password, "dead-letters", "list", "--json")


@pytest.mark.parametrize("password", passwords())
def test_the_password_of_a_webhook_is_not_shown(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRAFT_STORE", f"postgresql://ada:{password}@127.0.0.1:1/runs")
    refuse_parts(password, "webhook", f"https://ada:{password}@127.0.0.1:1/hook", "--name", "hook", "--patience", "0")


@pytest.mark.parametrize("url", ["Wq7x83921kZ0p", "//ada@Wq7x83921kZ0p", "ada:Wq7x83921kZ0p@127.0.0.1"])
@pytest.mark.parametrize("setting", ["REDRAFT_STORE", "REDRAFT_BUS"])
def test_what_is_no_url_at_all_is_not_shown(setting: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(setting, url)
    refuse_parts("Wq7x83921kZ0p", "doctor")
    refuse_parts("Wq7x83921kZ0p", "submit", "A text.")


@pytest.mark.parametrize(
    "url",
    [
        "http://me:s3cr3t@127.0.0.1:1/v1",
        "http://me:a@s3cr3t@127.0.0.1:1/v1",
        "ftp://me:s3cr3t@h",
        "me:s3cr3t@h",
        "http://127.0.0.1:1/?api_key=s3cr3t",
        "http://me:s3cr3t/x@127.0.0.1:1/v1",
        "http://me:s3cr3t@127.0.0.1:notaport/",
        "http://me:s3cr3t@[::1/",
    ],
)
def test_the_password_of_a_server_is_not_shown(url: str):
    told = call("worker", "prose", "--url", url, "--patience", "1")
    assert told.code == 2
    assert "s3cr3t" not in told.out + told.err
    assert one_line(told).startswith("--url ")


def test_no_part_of_a_password_in_a_url_is_left():
    assert without_secrets("http://me:a@s3cr3t@127.0.0.1:1/v1 is away") == "http://***@127.0.0.1:1/v1 is away"
