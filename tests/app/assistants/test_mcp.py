"""`redraft mcp` as assistants meet it: a process of its own, asked by the client of the official SDK."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, TextIO

import httpx
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from tests.app.cli_calls import call, document, until
from tests.app.deployments import Deployment, deployment
from tests.app.stateful import STATEFUL
from tests.processes import plain

DEADLINE = 60.0
EVERYWHERE = "0.0.0.0"  # noqa: S104 - to be refused, or behind a proxy
TEXT = "This is teh tide. It comes in.\n"

ASKING = """
print("loaded")  # not a message of the protocol
from redraft.app import Critique, Workflow, approve, critic, generator, refiner, score

@generator
def write(brief):
    print("working")
    return brief.text

@critic
def judge(draft):
    return Critique(min(1, draft.version / 3), suggestions=("say more",))

@refiner
def improve(draft, history):
    return draft.text + " more" + "".join(f", {each}" for each in history.advice)

ask = Workflow("ask").start_with(write)
ask = ask.repeat_until(score >= 0.5, max_iterations=5, name="Loop", body=[judge, improve])
ask = ask.finally_(approve(approvers=["ann"]))
"""

SLOW = (
    ASKING.replace("def judge(draft):", "def judge(draft):\n    wait()")
    .replace("ask", "slow")
    .replace(
        'print("loaded")',
        "import time\nfrom pathlib import Path\ndef wait():\n    while not Path('go').exists():"
        " time.sleep(0.01)\nprint(1)",
    )
)


@asynccontextmanager
async def assistant(home: Path, *options: str, errors: TextIO = sys.stderr, **settings: str) -> AsyncIterator[Client]:
    """A client whose server is a process that speaks by standard input and output; it says what fails in `errors`."""
    environment = plain(REDRAFT_STORE=f"sqlite:///{home / 'store.db'}", **settings)
    command = ["-m", "redraft", "mcp", *options]
    server = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=home)
    async with asyncio.timeout(DEADLINE), Client(stdio_client(server, errlog=errors)) as client:
        yield client


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool answers; where it refuses, the sentence that the assistant reads, as `refused`."""
    said = await client.call_tool(tool, arguments)
    if said.is_error:
        return {"refused": said.content[0].text}  # type: ignore[union-attr]
    assert said.structured_content is not None
    return dict(said.structured_content)


async def read(client: Client, address: str) -> str:
    return (await client.read_resource(address)).contents[0].text  # type: ignore[union-attr]


@pytest.mark.check
async def test_an_assistant_begins_a_run_with_values_of_its_state(home: Path) -> None:
    (home / "article.py").write_text(STATEFUL)
    async with assistant(home, "-w", "article.py:judged") as client:
        begun = await ask(client, "submit", text="Tides", state={"audience": "children"})
        ended = await ask(client, "watch", run=begun["run"], seconds=DEADLINE)
        assert ended["draft"]["text"] == "Tides for children The moon."
        assert ended["state"]["tests_pass"] is True
        refused = await ask(client, "submit", text="Tides", state={"audiance": "children"})
        assert "did you mean audience?" in refused["refused"]
        assert [each["run"] for each in (await ask(client, "runs"))["runs"]] == [begun["run"]]


@pytest.mark.check
async def test_an_assistant_has_its_text_refined_and_proven(home: Path) -> None:
    async with assistant(home) as client:
        begun = await ask(client, "submit", text=TEXT, media_type="text/markdown", tags=["from-assistant"])
        told: list[tuple[float, str | None]] = []

        async def note(progress: float, _total: float | None, message: str | None) -> None:
            told.append((progress, message))

        ended = await client.call_tool("watch", {"run": begun["run"]}, progress_callback=note)
        found = ended.structured_content or {}
        assert (found["status"], found["outcome"], found["score"]) == ("ended", "accepted", "1.00")
        assert found["draft"]["text"] == "This is the tide. It comes in.\n"
        assert [number for number, _ in told] == sorted({number for number, _ in told})
        shown = await ask(client, "show", run="last")
        assert "├── Refinement  accepted" in shown["tree"]
        assert "[-teh-]" in (await ask(client, "diff", run=begun["run"], before=1, after=2))["changes"]
        assert await read(client, found["drafts"][0]) == TEXT
        assert await read(client, f"redraft://runs/{begun['run']}/drafts/final") == found["draft"]["text"]
        audit = await read(client, found["audit"])
        assert re.match(rf"run {begun['run']}: {found['version']} events verified, by hash and against the plan", audit)
        assert "refiner prose-fix made draft 2 from draft 1" in audit
        lines = (await read(client, f"redraft://runs/{begun['run']}/record.jsonl")).splitlines()
        assert json.loads(lines[-1])["name"].startswith("run.ended")
        instead = await ask(client, "what_if", run="last", max_iterations=1)
        assert instead["imagined"]["iterations"] == 1
        assert [line["run"] for line in (await ask(client, "runs", tag="from-assistant"))["runs"]] == [begun["run"]]
    assert "19 events verified" in (await asyncio.to_thread(call, "audit", begun["run"], "--verify")).out


@pytest.mark.check
async def test_progress_is_told_of_what_happens_while_it_is_watched(home: Path) -> None:
    (home / "slow.py").write_text(SLOW)
    async with assistant(home, "-w", "slow.py:slow") as client:
        run = (await ask(client, "submit", text="a text"))["run"]
        assert (await ask(client, "watch", run=run, seconds=0.2))["status"] == "running"
        told: list[str] = []

        async def note(_progress: float, _total: float | None, message: str | None) -> None:
            told.append(str(message))

        watching = asyncio.create_task(client.call_tool("watch", {"run": run}, progress_callback=note))
        while not told:  # what happens before the watch has begun is not told
            await ask(client, "guide", run=run, advice="be brief")
        (home / "go").touch()
        found = (await watching).structured_content or {}
        assert found["status"] == "waiting"
        assert any("judge scored draft 2" in line for line in told)


@pytest.mark.check
async def test_a_run_goes_on_after_the_store_was_locked(home: Path) -> None:
    (home / "slow.py").write_text(SLOW)
    errors = home / "errors"
    with errors.open("w") as said, closing(sqlite3.connect(home / "store.db", isolation_level=None)) as other:
        async with assistant(home, "-w", "slow.py:slow", errors=said) as client:
            run = (await ask(client, "submit", text="Tides"))["run"]
            other.execute("BEGIN IMMEDIATE")
            (home / "go").touch()
            await asyncio.to_thread(until, lambda: '"part":"coordinator"' in errors.read_text())
            other.execute("ROLLBACK")
            found = await ask(client, "watch", run=run, seconds=DEADLINE)
            assert (found["status"], found["draft"]["text"]) == ("waiting", "Tides more")


@pytest.mark.check
async def test_a_person_decides_through_an_assistant(home: Path) -> None:
    (home / "ask.py").write_text(ASKING)
    async with assistant(home, "--workflow", "ask.py:ask", "--by", "ann") as client:
        run = (await ask(client, "submit", text="a text"))["run"]
        waiting = await ask(client, "watch", run=run)
        assert (waiting["status"], waiting["draft"]["number"]) == ("waiting", 2)
        assert "has drafts 1 to 2" in (await ask(client, "approve", run=run, draft=7))["refused"]
        assert "draft 1" in (await ask(client, "approve", run=run, draft=1))["refused"]
        approved = await ask(client, "approve", run=run, draft=2, reason="well said")
        assert approved["said"].startswith("ann approved draft 2")
        assert (await ask(client, "watch", run=run))["outcome"] == "accepted"
        assert "has ended and takes no more messages" in (await ask(client, "guide", run=run, advice="more"))["refused"]
    recorded = (await asyncio.to_thread(call, "events", "--json")).out.splitlines()
    (event,) = [each for each in map(json.loads, recorded) if "approved" in each["name"]]
    assert (event["actor"], event["data"]["draft"]["version"]) == ("ann", 2)


@pytest.mark.check
async def test_who_may_not_approve_does_not_by_an_assistant_either(home: Path) -> None:
    (home / "ask.py").write_text(ASKING)
    async with assistant(home, "-w", "ask.py:ask", "--by", "bob") as client:
        run = (await ask(client, "submit", text="a text"))["run"]
        assert (await ask(client, "watch", run=run))["status"] == "waiting"
        assert "bob" in (await ask(client, "approve", run=run, draft=2))["refused"]
        assert "bob" in (await ask(client, "reject", run=run, draft=2, feedback="no"))["refused"]


@pytest.mark.check
async def test_a_run_that_was_under_way_goes_on_for_the_same_key(home: Path) -> None:
    (home / "ask.py").write_text(ASKING)
    async with assistant(home, "-w", "ask.py:ask", "--by", "ann") as client:
        first = await ask(client, "submit", text="a text", key="one")
        assert (await ask(client, "watch", run=first["run"]))["status"] == "waiting"
    async with assistant(home, "-w", "ask.py:ask", "--by", "ann") as client:
        assert (await ask(client, "submit", text="a text", key="one"))["run"] == first["run"]
        assert "said" in await ask(client, "approve", run=first["run"], draft=2)
        assert (await ask(client, "watch", run=first["run"]))["outcome"] == "accepted"
        assert "was used for another brief" in (await ask(client, "submit", text="other", key="one"))["refused"]


@pytest.mark.check
async def test_what_is_wrong_is_said_in_a_sentence(home: Path) -> None:
    async with assistant(home) as client:
        assert "the text" in (await ask(client, "submit", text=""))["refused"]
        assert "name one of prose, code" in (await ask(client, "submit", text="x", workflow="none"))["refused"]
        assert "something is missing" in (await ask(client, "submit", text="x", until="score >"))["refused"]
        assert "no run 'none'" in (await ask(client, "show", run="none"))["refused"]
        misspelt = (await ask(client, "submit", text=TEXT, max_iteration=1))["refused"]
        assert misspelt == "submit has no argument 'max_iteration'; did you mean 'max_iterations'?"
        assert (await ask(client, "submit"))["refused"] == "submit: text is not valid: Field required"
        short = (await ask(client, "watch", run="x", seconds=-1))["refused"]
        assert short == "watch: seconds is not valid: Input should be greater than 0"
        assert (await ask(client, "runs"))["runs"] == []
        run = (await ask(client, "submit", text=TEXT))["run"]
        assert (await ask(client, "watch", run=run))["outcome"]
        assert "has no draft 9" in (await ask(client, "diff", run=run, before=1, after=9))["refused"]
        assert "say what should differ" in (await ask(client, "what_if", run=run))["refused"]
        with pytest.raises(MCPError, match="has no draft '9'"):
            await read(client, f"redraft://runs/{run}/drafts/9")
        with pytest.raises(MCPError, match="no run 'none'"):
            await read(client, "redraft://runs/none/audit")


@contextmanager
def serving(home: Path, *options: str) -> Iterator[str]:
    """A server by HTTP, and its address, which it says when it listens."""
    command = [sys.executable, "-m", "redraft", "mcp", "--http", "--port", "0", *options]
    environment = plain(REDRAFT_STORE=f"sqlite:///{home / 'store.db'}")
    with subprocess.Popen(command, cwd=home, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            found = re.search(r"http://\S+", said)
            assert found, said + process.stderr.read()
            yield found[0]
        finally:
            process.terminate()
            process.wait(DEADLINE)
        assert process.stderr.read() == ""


@pytest.mark.check
async def test_over_http_it_does_the_same(home: Path) -> None:
    with serving(home) as address:
        async with asyncio.timeout(DEADLINE), Client(address) as client:
            run = (await ask(client, "submit", text=TEXT))["run"]
            told: list[float] = []

            async def note(progress: float, _total: float | None, _message: str | None) -> None:
                told.append(progress)

            found = (await client.call_tool("watch", {"run": run}, progress_callback=note)).structured_content or {}
            assert found["draft"]["text"] == "This is the tide. It comes in.\n"
            assert "events verified" in await read(client, found["audit"])
        async with asyncio.timeout(DEADLINE), Client(address) as another:
            assert (await ask(another, "show", run=run))["outcome"] == "accepted"
    assert (await asyncio.to_thread(document, "show", run))["ended"]["outcome"] == "accepted"


ASKED = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 400),
    ],
)
def test_a_page_of_another_site_is_refused(home: Path, headers: dict[str, str], status: int, request: Any) -> None:
    address = request.getfixturevalue("a_server")
    accepted = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    assert httpx.post(address, json=ASKED, headers=accepted | headers).status_code == status


@pytest.fixture(scope="module")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.mark.check
def test_on_other_addresses_it_listens_for_a_proxy_alone(home: Path) -> None:
    said = call("mcp", "--http", "--host", EVERYWHERE, "--port", "0")
    assert said.code == 2
    assert "is reached from other machines" in said.err
    with serving(home, "--host", EVERYWHERE, "--proxy", "redraft.example") as address:
        port = address.rpartition(":")[2].removesuffix("/mcp")
        own = f"http://127.0.0.1:{port}/mcp"
        accepted = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        through = {"Host": "redraft.example", "Origin": "https://redraft.example"}
        assert httpx.post(own, json=ASKED, headers=accepted | through).status_code not in {403, 421}
        assert httpx.post(own, json=ASKED, headers=accepted | {"Host": "10.1.2.3"}).status_code == 421


@pytest.mark.check
def test_a_port_that_is_taken_is_said_in_a_line(home: Path) -> None:
    with serving(home) as address:
        port = address.rpartition(":")[2].removesuffix("/mcp")
        said = call("mcp", "--http", "--port", port)
    assert said.code == 2
    assert f"nothing can listen at 127.0.0.1:{port}: Address already in use" in said.err


@pytest.mark.check
@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--workflow", "none.py:none"], "none.py: there is no such file"),
        (["--workflow", "article"], "model"),
        (["--workflow", "prose", "--workflow", "prose"], "another workflow is named 'prose'"),
        (["--store", "memory:"], "memory: is inside one process"),
    ],
)
def test_what_cannot_be_offered_ends_in_a_line(home: Path, options: list[str], line: str) -> None:
    said = call("mcp", *options)
    assert (said.code, said.out) == (2, "")
    assert line in said.err
    assert said.err.count("\n") == 1


@pytest.fixture
def deployed(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as made:
        yield made


@pytest.mark.check
async def test_a_deployment_works_on_what_is_submitted(deployed: Deployment) -> None:
    deployed.start("coordinator", "coordinator")
    deployed.start("workers", "worker", "loop.py")
    (deployed.folder / "hold").touch()
    named = {name: value for name, value in deployed.environment().items() if name.startswith("REDRAFT_")}
    del named["REDRAFT_STORE"]
    async with assistant(deployed.folder, "-w", "loop.py:loop", **named) as client:
        run = (await ask(client, "submit", text="a text"))["run"]
        guided = await ask(client, "guide", run=run, advice="say why")
        assert guided["recorded"]
        (deployed.folder / "hold").unlink()
        ended = await ask(client, "watch", run=run)
        assert (ended["status"], ended["outcome"]) == ("ended", "accepted")
