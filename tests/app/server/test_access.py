"""Who may speak to `redraft serve`: tokens and their scopes, addresses, hosts, origins, and how often."""

from __future__ import annotations

import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.app.cli_calls import call, document, one_line, said, until
from tests.app.server.served import Served, served


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("access")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("REDRAFT_STORE", f"sqlite:///{home / 'store.db'}")
        said("run", "--text", "A text that is fine.", "-q")
        yield home


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    with served(folder, "--read-only", REDRAFT_HTTP='{"authentication": "token"}') as running:
        yield running


def token(*arguments: str) -> str:
    return str(document("token", "create", "ann", *arguments)["token"])


def ask(server: Served, path: str = "/runs", **headers: str) -> httpx.Response:
    return server.client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})


def test_a_token_opens_what_its_scope_is_for(server: Served) -> None:
    assert ask(server).status_code == 401
    assert ask(server, authorization="Bearer nonsense").headers["www-authenticate"] == "Bearer"
    assert ask(server, authorization=f"Bearer {token('--scope', 'read')}").status_code == 200
    assert ask(server, authorization=f"Bearer {token('--scope', 'admin')}").status_code == 200
    refused = ask(server, authorization=f"Bearer {token('--scope', 'submit')}")
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:redraft:problem:scope")
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_only_a_hash_of_a_token_is_kept(folder: Path) -> None:
    text = token("--scope", "read")
    kept = (folder / "store.tokens.db").read_bytes() + (folder / "store.tokens.db-wal").read_bytes()
    assert text.rpartition("_")[2].encode() not in kept
    assert text not in said("token", "list") + said("token", "list", "--json")


def test_a_token_that_was_revoked_or_has_ended_opens_nothing(server: Served, folder: Path) -> None:
    made = document("token", "create", "ann", "--scope", "read")
    bearer = f"Bearer {made['token']}"
    assert ask(server, authorization=bearer).status_code == 200
    said("token", "revoke", made["id"])
    until(lambda: ask(server, authorization=bearer).status_code == 401)
    other = document("token", "create", "bob", "--scope", "read", "--expires", "1h")
    with sqlite3.connect(folder / "store.tokens.db") as file:  # as if the hour were over
        file.execute("UPDATE redraft_tokens SET expires = created WHERE id = ?", (other["id"],))
    file.close()
    assert ask(server, authorization=f"Bearer {other['token']}").status_code == 401
    assert "ended" in said("token", "list")


@pytest.mark.parametrize("end", ["revoked", "ended"])
def test_a_stream_and_a_long_poll_end_with_their_token(server: Served, folder: Path, end: str) -> None:
    made = document("token", "create", "ann", "--scope", "read")
    bearer = {"authorization": f"Bearer {made['token']}"}
    polled: list[int] = []
    head = server.client.get("/events", headers=bearer, params={"limit": 1000}).json()["position"]
    poll = {"after": head, "wait": 60}
    waiting = threading.Thread(
        target=lambda: polled.append(server.client.get("/events", params=poll, headers=bearer, timeout=90).status_code)
    )
    with server.client.stream("GET", "/events/stream", headers=bearer) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry")
        waiting.start()
        end_token(folder, made["id"], end)
        told = list(lines)  # which takes longer than a client waits, unless the stream ends
    waiting.join(30)
    assert "event: error" in told
    assert any("urn:redraft:problem:authentication" in line for line in told)
    assert polled == [401]


def test_a_stream_of_nobody_ends_with_the_first_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{tmp_path / 'store.db'}")
    said("run", "--text", "A text that is fine.", "-q")
    with served(tmp_path, "--read-only") as running, running.client.stream("GET", "/events/stream") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry")
        document("token", "create", "ann", "--scope", "read")
        assert "event: error" in list(lines)


def end_token(folder: Path, token_id: str, how: str) -> None:
    if how == "revoked":
        said("token", "revoke", token_id)
        return
    with sqlite3.connect(folder / "store.tokens.db") as file:  # as if its time were over
        file.execute("UPDATE redraft_tokens SET expires = created WHERE id = ?", (token_id,))
    file.close()


def test_the_first_token_closes_a_server_that_was_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{tmp_path / 'store.db'}")
    said("run", "--text", "A text that is fine.", "-q")
    with served(tmp_path, "--read-only") as running:
        assert ask(running).status_code == 200
        made = document("token", "create", "ann", "--scope", "read")
        until(lambda: ask(running).status_code == 401)
        said("token", "revoke", made["id"])
        assert ask(running).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "localhost:1"}, 401),
        ({"host": "[::1]:8420"}, 401),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_pages_of_other_sites_reach_nothing(server: Served, headers: dict[str, str], status: int) -> None:
    assert server.client.get("/runs", headers=headers).status_code == status


def test_who_asks_too_often_is_told_when_to_come_again(folder: Path) -> None:
    with served(folder, "--read-only", REDRAFT_HTTP='{"requests_per_minute": 4, "authentication": "none"}') as running:
        assert [ask(running).status_code for _ in range(4)] == [200] * 4
        refused = ask(running)
        assert [httpx.get(f"{running.url}/health").status_code for _ in range(6)] == [200] * 6
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:redraft:problem:rate")
        assert 1 <= int(refused.headers["retry-after"]) <= 15


def test_a_large_head_and_a_zero_byte_end_one_request_alone(server: Served) -> None:
    assert ask(server, "/runs?text=%00").status_code == 400
    assert ask(server, x_long="a" * 40_000).status_code == 431
    with socket.create_connection((httpx.URL(server.url).host, httpx.URL(server.url).port or 0)) as raw:
        raw.sendall(b"\x16\x03\x01nonsense\r\n\r\n")
        raw.recv(1_000)
    assert ask(server).status_code == 401


@pytest.mark.parametrize(
    ("arguments", "http", "line"),
    [
        ((), '{"host": "::"}', "give --tls-cert and --tls-key, or --behind-proxy"),
        (("--host", "::"), '{"authentication": "none"}', "give --tls-cert and --tls-key"),
        (("--host", "::", "--behind-proxy"), '{"authentication": "none"}', "none is for this machine alone; set it to"),
        (("--behind-proxy",), '{"host": "::"}', "there is no token yet"),
        (("--tls-cert", "x.pem"), "{}", "give --tls-cert and --tls-key, both or neither"),
        (("--tls-cert", "x.pem", "--tls-key", "y.pem"), "{}", "name files in PEM"),
        (("--port", "70000"), "{}", "--port 70000: give 0 to 65535"),
        (("--port", "-1"), "{}", "--port -1: give 0 to 65535"),
        (("--host", "nowhere.invalid"), "{}", "cannot be listened on"),
    ],
)
def test_it_does_not_begin_unprotected(
    home: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], http: str, line: str
) -> None:
    said("run", "--text", "A text that is fine.", "-q")
    monkeypatch.setenv("REDRAFT_HTTP", http)
    monkeypatch.setenv("REDRAFT_LOG_FORMAT", "json")
    refused = call("serve", "--read-only", "--port", "0", *arguments)
    assert refused.code == 2
    assert line in refused.err.splitlines()[-1]
    assert not (home / "store.tokens.db").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("create", "ann"), "give what the token is for, with --scope: read, submit, operate, work, admin"),
        (("create", "ann", "--scope", "everything"), "there is no scope 'everything'; there are read, submit, operate"),
        (("create", "a(b)", "--scope", "read"), "'a(b)' cannot be the name of a token"),
        (("create", "ann", "--scope", "read", "--expires", "2020-01-01"), "give a later end"),
        (("create", "ann", "--scope", "read", "--expires", "soon"), "--expires 'soon' is not a time"),
        (("revoke", "00000000"), "no token has the id '00000000'"),
    ],
)
def test_wrong_tokens_are_refused_in_one_line(home: Path, arguments: tuple[str, ...], line: str) -> None:
    refused = call("token", *arguments)
    assert refused.code == 2
    assert line in one_line(refused)


def test_tokens_in_postgresql(home: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str) -> None:
    monkeypatch.setenv("REDRAFT_STORE", postgres_url)
    made = document("token", "create", "ann", "--scope", "read", "--expires", "never")
    assert [each["id"] for each in document("token", "list")] == [made["id"]]
    with served(home, "--read-only", REDRAFT_STORE=postgres_url) as running:
        assert ask(running).status_code == 401
        page = ask(running, authorization=f"Bearer {made['token']}").json()
        assert page == {"runs": [], "count": 0, "next": None, "found": []}
        assert document("token", "revoke", made["id"])["revoked"]
        until(lambda: ask(running, authorization=f"Bearer {made['token']}").status_code == 401)
