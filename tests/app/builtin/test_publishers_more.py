"""The publishers `git`, `html`, `webhook` and `pdf`: real repositories, files and requests, each once in effect."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import pytest
from tests.app.cli_calls import call

from redraft.actors.runtime.working.call import Call
from redraft.actors.workflow.actor import Actor
from redraft.app.builtin.publishers.git import git_publisher
from redraft.app.builtin.publishers.pdf import pdf_publisher, plain_html
from redraft.app.builtin.publishers.web import html_publisher, to_html, webhook_publisher
from redraft.events.messages.commands import Failed, OutcomeMessage, Publish, Published, Request
from redraft.events.messages.content import Brief, Draft, new_draft
from redraft.events.messages.plan import Option

RUN = "run-1"


async def published(
    actor: Actor, text: str = "# Tides\n\nThey rise.\n", attempt: int = 1, **options: Option
) -> OutcomeMessage:
    outputs: tuple[Draft, ...] = (new_draft(1, "one\n"), new_draft(2, "two\n"))
    request = Request(f"{RUN}/save#{attempt}", RUN, "save", actor.name, attempt, 30.0, Brief("b"), options, outputs)
    over = asyncio.Event()
    performing = Call(actor, Publish(request, new_draft(3, text)), over.set)
    await over.wait()
    return performing.outcome()


def place(outcome: OutcomeMessage) -> str:
    assert isinstance(outcome, Published), outcome
    return outcome.receipt.location


def fault(outcome: OutcomeMessage) -> tuple[str, bool]:
    assert isinstance(outcome, Failed), outcome
    return outcome.message, outcome.retryable


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    return tmp_path


async def test_a_draft_is_committed_once_however_often_it_is_asked_for(repository: Path) -> None:
    actor = git_publisher(repository)
    first = place(await published(actor, path="docs/tides.md", message="Tides, draft {version}"))
    again = place(await published(actor, attempt=2, path="docs/tides.md", message="Tides, draft {version}"))
    assert first == again
    assert git(repository, "show", "HEAD:docs/tides.md") == "# Tides\n\nThey rise.\n"
    assert git(repository, "log", "--format=%s|%an|%ae").splitlines() == ["Tides, draft 3|Redraft|redraft@localhost"]
    (repository / "docs" / "tides.md").write_text("somebody else's")
    git(repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "other")
    assert place(await published(actor, attempt=3, path="docs/tides.md")) == first, "it was published already"
    assert (repository / "docs" / "tides.md").read_text() == "somebody else's"
    place(await published(actor, "another text", path="docs/tides.md"))
    assert len(git(repository, "log", "--format=%h").splitlines()) == 3


async def test_what_else_is_staged_or_hooked_stays_as_it_is(repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    (repository / "mine.txt").write_text("mine")
    git(repository, "add", "mine.txt")
    place(await published(git_publisher(repository), path="a.md"))
    assert git(repository, "show", "--name-only", "--format=", "HEAD").split() == ["a.md"]
    assert git(repository, "status", "--porcelain") == "A  mine.txt\n"


async def test_a_commit_that_cannot_be_is_a_failed_step(tmp_path: Path, repository: Path) -> None:
    actor = git_publisher(repository)
    for options, line in (
        ({}, "git: no path is given"),
        ({"path": "../out.md"}, "leads up"),
        ({"path": ".git/config"}, "git: the path '.git/config' names '.git', which is hidden"),
        ({"path": "a.md", "repository": "none"}, "is not a repository; make one with `git init`"),
        ({"path": "a.md", "repository": "../"}, "leads up"),
        ({"paht": "a.md"}, "git: there is no option 'paht'; did you mean 'path'?"),
    ):
        message, retryable = fault(await published(actor, **options))  # type: ignore[arg-type]
        assert line in message
        assert not retryable
    (repository / ".git" / "index.lock").touch()
    message, retryable = fault(await published(actor, path="a.md"))
    assert retryable, "somebody else is committing: it is tried again"
    assert message.startswith("git: another git works here")


@pytest.mark.parametrize("actor", [html_publisher, git_publisher])
async def test_a_page_and_a_commit_are_never_what_git_obeys(actor: Callable[[Path], Actor], repository: Path) -> None:
    config = (repository / ".git" / "config").read_text()
    for path in (".git/config", "site/.GIT/config", ".gitattributes", ".github/workflows/run.yml"):
        message, retryable = fault(await published(actor(repository), path=path))
        assert "which is hidden; name a file that is not" in message
        assert not retryable
    assert (repository / ".git" / "config").read_text() == config


async def test_git_follows_no_link_out_of_its_folder(tmp_path: Path) -> None:
    for name in ("root", "elsewhere"):
        (tmp_path / name / "repository").mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    git(elsewhere / "repository", "init", "-q")
    root = tmp_path / "root"
    (root / "way").symlink_to(elsewhere)
    (root / "straight").symlink_to(elsewhere / "repository")
    (root / "repository" / ".git").symlink_to(elsewhere / "repository" / ".git")
    for repository in ("way/repository", "straight", "repository"):
        message, retryable = fault(await published(git_publisher(root), path="a.md", repository=repository))
        assert "leads elsewhere through a symbolic link" in message
        assert not retryable
    assert not list(tmp_path.glob("**/a.md"))


async def test_a_path_is_no_pattern_to_git(repository: Path) -> None:
    (repository / "mine.txt").write_text("mine")
    place(await published(git_publisher(repository), path=":(top,glob)**"))
    assert git(repository, "show", "--name-only", "--format=", "HEAD").split() == [":(top,glob)**"]


async def test_a_page_shows_html_and_obeys_none(tmp_path: Path) -> None:
    text = "# A & B\n\n<script>alert(1)</script> [x](javascript:alert(1)) \n\n| a |\n|---|\n| 1 |\n"
    where = place(await published(html_publisher(tmp_path), text, path="out/page.html", lang="en"))
    page = Path(where).read_text()
    assert Path(where) == tmp_path / "out" / "page.html"
    assert "<title>A &amp; B</title>" in page
    assert '<html lang="en">' in page
    assert "<script" not in page
    assert 'href="javascript:' not in page
    assert "<td>1</td>" in page
    assert place(await published(html_publisher(tmp_path), text)) == str(tmp_path / f"{RUN}.html")
    message, _ = fault(await published(html_publisher(tmp_path), text, path="../page.html"))
    assert message.startswith("html: ")


async def test_the_whole_is_all_finished_drafts(tmp_path: Path) -> None:
    where = place(await published(html_publisher(tmp_path), whole=True))
    assert "<p>one</p>\n<p>two</p>" in Path(where).read_text()


def test_a_title_cannot_break_out_of_its_page() -> None:
    assert "<b>" not in to_html("x", "</title><b>")


class Receiver(BaseHTTPRequestHandler):
    """Answers with the statuses that it is told, the last of them for ever."""

    statuses: ClassVar[list[int]] = [200]
    seen: ClassVar[list[tuple[dict[str, str], dict[str, object]]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((dict(self.headers), json.loads(body)))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Says nothing."""


@pytest.fixture
def receiver() -> Iterator[str]:
    Receiver.statuses, Receiver.seen = [200], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook?secret=x"
    server.shutdown()
    server.server_close()


def allowed(url: str, *variables: str) -> Actor:
    """A worker's `webhook` that may send these variables to the host of the URL, also when that is in its network."""
    return webhook_publisher({urlsplit(url).netloc: variables})


async def test_a_draft_is_posted_with_the_same_key_at_every_attempt(
    receiver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", receiver)
    monkeypatch.setenv("TOKEN", "t0ken")
    options: dict[str, Option] = {"url_env": "HOOK", "token_env": "TOKEN", "private": True}
    actor = allowed(receiver, "HOOK", "TOKEN")
    for attempt in (1, 2):
        where = place(await published(actor, attempt=attempt, **options))
        assert where.startswith("webhook http://127.0.0.1:")
        assert "secret" not in where
    (headers, body), (again, _) = Receiver.seen
    assert headers["Idempotency-Key"] == again["Idempotency-Key"]
    assert headers["Authorization"] == "Bearer t0ken"
    assert body["run"] == RUN
    assert body["draft"]["text"] == "# Tides\n\nThey rise.\n"  # type: ignore[index]
    await published(actor, "another", url=receiver, private=True)
    assert Receiver.seen[-1][0]["Idempotency-Key"] != headers["Idempotency-Key"]


@pytest.mark.parametrize(("status", "again"), [(500, True), (429, True), (404, False), (302, False)])
async def test_a_receiver_that_refuses_fails_the_step(receiver: str, status: int, again: bool) -> None:
    Receiver.statuses = [status]
    message, retryable = fault(await published(allowed(receiver), url=receiver, private=True))
    assert (f"answered with the status {status}" in message, retryable) == (True, again)


async def test_a_webhook_that_cannot_be_reached_or_may_not_be(receiver: str) -> None:
    actor = webhook_publisher({"127.0.0.1:9": (), "127.0.0.1": (), "hooks.example.com": ["NOWHERE_SET"]})
    for options, line, again in (
        ({"url": receiver}, "not public; private: true allows it", False),
        ({"url": "http://127.0.0.1:9/", "private": True}, "cannot be reached", True),
        ({"url": "http://127.0.0.1:10/", "private": True}, """WEBHOOK_HOSTS='{"127.0.0.1:10":[]}'""", False),
        ({"url": "ftp://x/"}, "give https://host/path", False),
        ({}, "webhook: give url, or url_env", False),
        ({"url_env": "NOWHERE_SET"}, "the environment variable NOWHERE_SET is not set here", False),
    ):
        message, retryable = fault(await published(actor, **options))  # type: ignore[arg-type]
        assert line in message
        assert retryable == again
    assert Receiver.seen == []


async def test_what_a_worker_sends_where_is_not_the_plans_to_say(
    receiver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("HOOK", receiver)
    here = urlsplit(receiver).netloc
    for hosts, options, line in (
        ({}, {"url": receiver, "private": True}, f"""WEBHOOK_HOSTS='{{"{here}":[]}}'"""),
        ({"localhost": ["HOOK"]}, {"url": receiver, "private": True}, f"""WEBHOOK_HOSTS='{{"{here}":[]}}'"""),
        ({}, {"url_env": "HOOK", "private": True}, """WEBHOOK_HOSTS='{"HOST":["HOOK"]}'"""),
        ({"a.example": ["HOOK"]}, {"url_env": "HOOK", "private": True}, f"""'{{"{here}":["HOOK"]}}'"""),
        (
            {here: ["HOOK"]},
            {"url": receiver, "private": True, "token_env": "AWS_SECRET_ACCESS_KEY"},
            f"""WEBHOOK_HOSTS='{{"{here}":["AWS_SECRET_ACCESS_KEY"]}}'""",
        ),
        ({here: []}, {"url": receiver, "private": True, "token_env": "HOOK"}, f"""'{{"{here}":["HOOK"]}}'"""),
    ):
        message, retryable = fault(await published(webhook_publisher(hosts), **options))  # type: ignore[arg-type]
        assert message.startswith("webhook: this worker sends nothing to ")
        assert line in message
        assert not retryable
    assert Receiver.seen == []


async def test_without_pandoc_a_pdf_fails_for_good_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fault(await published(pdf_publisher(tmp_path))) == (
        "pdf: pandoc is not installed here; install it and a PDF engine (https://pandoc.org)",
        False,
    )


def test_a_pdf_loads_nothing_that_a_draft_names() -> None:
    html = plain_html(
        "![x](file:///etc/passwd) <img src='file:///etc/passwd'> \\input{/etc/passwd}\n\n| a |\n|---|\n| 1 |\n"
    )
    assert "<img" not in html
    assert "<td>1</td>" in html


async def test_the_engine_of_a_pdf_is_no_path(tmp_path: Path) -> None:
    message, retryable = fault(await published(pdf_publisher(tmp_path), engine=str(tmp_path / "weasyprint")))
    assert (message.partition(":")[0], "option engine" in message, retryable) == ("pdf", True, False)


async def test_a_pdf_is_written_where_pandoc_is(tmp_path: Path) -> None:
    engine = next(filter(shutil.which, ("weasyprint", "typst", "pdflatex", "wkhtmltopdf")), "")
    if not (shutil.which("pandoc") and engine):
        pytest.skip("no pandoc with a PDF engine: install both, such as `apt-get install pandoc weasyprint`")
    where = place(await published(pdf_publisher(tmp_path), path="a.pdf", engine=engine, title="Tides"))
    assert Path(where).read_bytes().startswith(b"%PDF-")


def test_a_plan_publishes_to_several_places_at_once(
    tmp_path: Path, repository: Path, receiver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{tmp_path / 'out.db'}")
    monkeypatch.setenv("HOOK", receiver)
    monkeypatch.setenv("REDRAFT_WEBHOOK_HOSTS", json.dumps({urlsplit(receiver).netloc: ["HOOK"]}))
    Receiver.statuses = [503, 200]
    (repository / "plan.yaml").write_text(
        "name: everywhere\nsteps:\n- generate: {actor: source}\n- critique: {actor: prose}\n- parallel:\n"
        "    name: Publish\n    steps:\n"
        "    - publish: {actor: html, with: {path: out/tides.html}}\n"
        "    - publish: {actor: git, with: {path: tides.md}}\n"
        "    - publish: {actor: webhook, retry: {initial: 10s, maximum: 0s}, with: {url_env: HOOK, private: true}}\n"
    )
    said = call("run", "-w", "plan.yaml", "The sea rises.", "--json")
    assert said.code == 0, said.err
    paths = sorted(each["path"] for each in json.loads(said.out)["publications"])
    assert paths == ["Publish/git", "Publish/html", "Publish/webhook"]
    assert len(Receiver.seen) == 2, "the one that was refused was tried again, and no other"
    assert len(git(repository, "log", "--format=%h").splitlines()) == 1
    assert (repository / "out" / "tides.html").exists()
    assert os.environ["HOOK"] not in said.out
