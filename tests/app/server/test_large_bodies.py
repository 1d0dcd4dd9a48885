"""Bodies that are larger than the server takes: whoever sends them is told so, however they send and read."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.app.server.served import Served, served

from redraft.app.server.access.unread_body import MOST_DISCARDED


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REDRAFT_STORE", "memory:")
        with served(tmp_path_factory.mktemp("large")) as running:
            yield running


def test_a_larger_body_than_is_documented_is_refused_before_it_is_read(home: Path) -> None:
    with served(home, REDRAFT_MAX_DRAFT_BYTES="1000") as running:
        most = 6 * 1000 + 64 * 1024
        for size, status in ((most, 400), (most + 1, 413)):
            refused = running.client.post("/runs", content=b"[" * size)
            assert refused.status_code == status
        assert refused.json()["type"] == "urn:redraft:problem:too-large"


@pytest.mark.parametrize("path", ["/runs", "/batches", "/runs/last/edit", "/runs/last/cancel", "/nowhere"])
def test_who_sends_a_large_body_before_reading_is_told_why_it_is_refused(server: Served, path: str) -> None:
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"{server.url}/api/v1{path}", b"[" * 14_000_000, headers)  # noqa: S310 - http
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(asked, timeout=30)  # noqa: S310 - http
    with caught.value as refused:
        told = json.load(refused)
    status, kind = (404, "no-such-path") if path == "/nowhere" else (413, "too-large")
    assert (told["status"], told["type"]) == (status, f"urn:redraft:problem:{kind}")


def test_who_sends_a_body_without_end_is_told_so_and_cut_off(server: Served) -> None:
    host, _, port = server.url.removeprefix("http://").partition(":")
    piece, sent = b"10000\r\n" + b"[" * 0x10000 + b"\r\n", 0
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        head = f"POST /api/v1/runs HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        with suppress(ConnectionError):
            while sent < 2 * MOST_DISCARDED:
                connection.sendall(piece)
                sent += len(piece)
    assert MOST_DISCARDED / 2 < sent < 2 * MOST_DISCARDED
