"""`redraft serve` without the key beside a deployment that encrypts its runs."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from tests.app.deployments import deployment
from tests.app.server.test_deployed import url_of

pytestmark = pytest.mark.check


def test_a_server_without_the_key_begins_nothing_and_goes_on_with_what_it_can_read(
    tmp_path: Path, each_store: str
) -> None:
    with deployment(tmp_path, each_store) as there:
        assert there.call("key", "encryption", "key").code == 0
        plain = {"REDRAFT_HTTP": '{"port": 0}', "REDRAFT_LOG_FORMAT": "json"}
        there.settings = plain
        server = there.start("serve", "serve", "loop.py:loop")
        urls = [url_of(there, "serve")]
        looking = there.start("looking", "serve", "--read-only")
        urls.append(url_of(there, "looking"))
        there.settings = plain | {"REDRAFT_ENCRYPT_NEW_RUNS": "1", "REDRAFT_ENCRYPT_KEY_FILE": "key"}
        there.start("up", "up", "loop.py:loop")
        there.serving("up")
        run = there.json("submit", "loop.py:loop", "a text", "--wait")["run"]
        for name in ("serve", "looking"):
            there.until(
                f"{name} gives it up", lambda name=name: bool(there.said(name, "read models are left to others"))
            )
        with httpx.Client(timeout=60) as client:
            for url in urls:
                assert [each["run"] for each in client.get(f"{url}/runs").json()["runs"]] == [run]
                assert client.get(f"{url}/runs/{run}/drafts").json()["type"] == "urn:redraft:problem:encrypted"
            for path, body in (("/runs", {"brief": "a text"}), ("/batches", {"briefs": ["a text"]})):
                refused = client.post(f"{urls[0]}{path}", json={"workflow": "loop", **body})
                assert (refused.status_code, refused.json()["type"]) == (409, "urn:redraft:problem:encrypted")
                assert "the store encrypts its runs, and no key is given here" in refused.json()["detail"]
        assert [each["run"] for each in there.json("list")] == [run]
        assert [server.poll(), looking.poll()] == [None, None]
        there.settings = plain
        for arguments in (("serve", "loop.py:loop"), ("serve", "--read-only")):
            said = there.call(*arguments)
            assert said.code == 2
            assert "encrypted; give the key that it was recorded with in REDRAFT_ENCRYPT_KEY" in said.err
