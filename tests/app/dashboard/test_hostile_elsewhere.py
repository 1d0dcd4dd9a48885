"""Whatever else people, plans, workers, receivers and addresses say runs nothing in a browser either."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.async_api import Browser, expect
from tests.app.cli_calls import call, document, environment, said, until
from tests.app.dashboard.asking import begin, html, send
from tests.app.dashboard.browser import STRANGE, looking, runs_nothing
from tests.app.dashboard.test_hostile import IMAGE, PAYLOADS, RUN
from tests.app.server.served import Served, served
from tests.forked import fork

BROKEN_OUT = (
    f"<script>{RUN}</script>",
    f"\"><script>{RUN}</script><x y='",
    f"'><img src=x onerror={RUN}>",
    f'" autofocus onfocus={RUN} x="',
    f"</title></textarea></select></option><svg onload={RUN}>",
    f"javascript:{RUN}",
    f"\" hx-on::load={RUN} hx-get=/ hx-trigger=load x='",
)
"""Those that leave a title, an attribute, a choice or a field."""

RECORDED = [each.replace("\0", "") for each in PAYLOADS if "\n" not in each and "\r" not in each]

WORKFLOW = """
import json
from pathlib import Path
from redraft.actors import (
    Critique, PermanentError, Receipt, Revision, Usage, Workflow, approve, critic, generator, publisher, refiner, score,
    step,
)

SAID = json.loads((Path(__file__).parent / "said.json").read_text())
ALL = " ".join(SAID)

@generator
def begin(brief, context):
    context.used(Usage(tokens=3, cost=0.1, currency="USD", calls=1, model=SAID[0]))
    return "a text"

@critic(criteria={"tone": ALL[:900]}, measures=["words"])
def weigh(draft, context):
    context.used(Usage(tokens=3, calls=1, model=SAID[2]))
    return Critique(
        min(1, draft.version / 3), criteria={"tone": 0.5}, measures={"words": 3}, suggestions=tuple(SAID[:9]),
        details={SAID[0][:60]: SAID[1]},
    )

@critic
def fail(draft):
    raise PermanentError(ALL[:1_500])

@refiner
def shorten(draft, history):
    return Revision(draft.text + " more " + "".join(history.advice), changes=tuple(SAID[:40]))

@publisher
def publish(draft):
    return Receipt(f"javascript:{SAID[0]}", SAID[1])

BODY = [weigh, shorten]
def looping(name, *body):
    return Workflow(name).start_with(begin).repeat_until(score >= 0.3, max_iterations=5, name="Loop", body=[*body])

told = looping("told", weigh, shorten).then(approve("Sign", approvers=[SAID[0], SAID[1]])).finally_(publish)
failing = looping("failing", fail)
published = looping("published", weigh).finally_(publish).budget(cost=5)
away = Workflow("away").start_with(begin).then(step("far", role="critic"))
"""
REFUSES = (
    "import json\nfrom pathlib import Path\nSAID = json.loads((Path(__file__).parent / 'said.json').read_text())\n"
)
REFUSES += "def refuse(event):\n    raise ValueError(' '.join(SAID)[:1500])\n"


@pytest.fixture(scope="module")
def told(folder: Path) -> Iterator[Served]:
    """A server on which everybody has said what is hostile, in whatever they may say."""
    (folder / "said.json").write_text(json.dumps([*BROKEN_OUT, *RECORDED]))
    (folder / "told.py").write_text(WORKFLOW)
    with served(folder, "told.py", "--elsewhere", "critic.far") as running:
        _begin_all(running)
        _subscribe(folder)
        yield running


def _begin_all(server: Served) -> None:
    """Begins a run of each workflow, and has people and a worker by HTTP say something to them."""
    brief = {"text": " ".join(RECORDED), "media_type": "text/plain", "source": BROKEN_OUT[1]}
    signed, lost, advised = (begin(server, BROKEN_OUT[2], "told") for _ in range(3))
    for workflow in ("failing", "published", "away", "away"):
        begun = server.client.post("/runs", json={"workflow": workflow, "brief": brief})
        assert begun.status_code == 201, begun.text
    for number, run in enumerate((signed, lost, advised)):
        until(lambda run=run: server.get(f"/runs/{run}")["step"].startswith("Sign"))  # type: ignore[misc]
        said("edit", run, str(_file(BROKEN_OUT[number])), "--by", BROKEN_OUT[0], "--reason", BROKEN_OUT[1])
    said("guide", advised, BROKEN_OUT[0], "--by", BROKEN_OUT[1], "--reason", BROKEN_OUT[2])
    said("pause", advised, "--by", BROKEN_OUT[1], "--reason", BROKEN_OUT[0])
    until(lambda: server.get(f"/runs/{signed}")["step"].startswith("Sign"))
    said("reject", signed, "--by", BROKEN_OUT[0], "--feedback", BROKEN_OUT[1])
    said("quarantine", lost, "--by", BROKEN_OUT[0], "--reason", BROKEN_OUT[1])
    for answer in (_answer, _give_up):
        leased = server.client.post("/requests/lease", json={"actor": "critic.far", "wait": 30})
        assert leased.status_code == 200, leased.text
        answer(server, leased.json())
    until(lambda: bool(server.get("/dead-letters")))


def _file(text: str) -> Path:
    Path("mine.txt").write_text(text)
    return Path("mine.txt")


def _answer(server: Served, leased: Mapping[str, str]) -> None:
    """Answers in the name of another code, and of another critic."""
    request = leased["command"]["data"]["request"]  # type: ignore[index]
    draft = leased["command"]["data"]["draft"]  # type: ignore[index]
    data = {name: request[name] for name in ("run", "path", "attempt")} | {
        "draft": {"version": draft["version"], "sha256": draft["sha256"]},
        "critique": {"critic": IMAGE, "score": 0.5, "suggestions": list(BROKEN_OUT)},
    }
    source = f"/critic far@{IMAGE}"
    given = {"specversion": "1.0", "type": "outcome.critiqued.v1", "source": source, "data": data}
    answered = server.client.post(f"/leases/{leased['lease']}/answer", json=given)
    assert answered.status_code == 200, answered.text


def _give_up(server: Served, leased: Mapping[str, str]) -> None:
    """Makes a dead letter of it."""
    given = {"reason": " ".join(BROKEN_OUT), "requeue": False}
    assert server.client.post(f"/leases/{leased['lease']}/release", json=given).status_code == 200


def _subscribe(folder: Path) -> None:
    """Leaves a subscription and a webhook, of hostile targets, with parked events and hostile errors."""
    (folder / f"{IMAGE}.py").write_text(REFUSES)
    few = ("--attempts", "1", "--type", "run.ended", "--from", "beginning")
    away = f"http://127.0.0.1:1/{quote('<script>')}{IMAGE}"
    commands = (
        ("subscribe", f"{IMAGE}.py:refuse", "--name", "mailer"),
        ("webhook", away, "--allow-private", "--name", "hook"),
    )
    for number, command in enumerate(commands):
        with _running(folder, *command, *few):
            until(lambda number=number: len(_parked()) > number)  # type: ignore[misc]


def _parked() -> list[str]:
    return [each["name"] for each in document("subscriptions", "list") if each["parked"]]


@contextmanager
def _running(folder: Path, *command: str) -> Iterator[None]:
    with (folder / "following.log").open("ab") as log:
        process = fork("redraft", *command, folder=folder, environment=environment(folder, {}), stderr=log.fileno())
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.check
@pytest.mark.timeout(600)
async def test_what_people_plans_workers_and_receivers_say_runs_nothing(told: Served, chromium: Browser) -> None:
    runs = [each["run"] for each in told.get("/runs", limit=50)["runs"]]
    statuses = {each["status"] for each in told.get("/runs", limit=50)["runs"]}
    assert {"quarantined", "paused", "ended"} <= statuses
    shared = ("share", runs[0]), ("share", runs[-1], "--anonymous")
    links = [await asyncio.to_thread(_link, *each) for each in shared]
    async with looking(told.url, chromium) as page:
        for name in ("", "/issues", "/critics", "/costs?by=model", "/costs?by=actor", "/actors", "/dead-letters"):
            await runs_nothing(page, name or "/runs")
        for name in ("/subscriptions", "/events?after=0", "/chain", "/whatif?workflow=told", "/search?words=window"):
            await runs_nothing(page, name)
        for run in runs:
            await runs_nothing(page, f"/runs/{run}")
            await runs_nothing(page, f"/events?run={run}")
            for number, _ in enumerate(told.get(f"/runs/{run}/drafts"), 1):
                await runs_nothing(page, f"/runs/{run}/drafts/{number}")
                await runs_nothing(page, f"/runs/{run}/drafts/{number}?form=rendered")
        for one in runs[:4]:
            await runs_nothing(page, f"/compare?a={one}&b={runs[-1]}")
        for link in links:
            await runs_nothing(page, link)


def _link(kind: str, run: str, *given: str) -> str:
    made = json.loads(said("token", kind, run, *given, "--json"))
    return "/links/" + str(made["link"]).rpartition("/")[2]


ADDRESSES = (
    "/runs?text={0}&workflow={0}&tag={0}",
    "/runs?status={0}",
    "/runs?since={0}",
    "/runs?after={0}",
    "/runs/{1}",
    "/runs/last/diff?a={0}&b=2",
    "/runs/last?at={0}",
    "/runs/last/drafts/{1}",
    "/issues?workflow={0}",
    "/critics?since={0}",
    "/costs?by={0}&workflow={0}",
    "/events?run={0}",
    "/events?type={0}",
    "/events?after={0}",
    "/compare?a={0}&b={0}",
    "/search?words={0}",
    "/search?words={0}&after={0}",
    "/whatif?workflow={0}&loop={0}&since={0}",
    "/whatif?workflow=told&at={0}",
    "/sign-in?next={0}",
    "/static/{1}",
    "/links/{1}",
    "/{1}",
)


@pytest.mark.check
@pytest.mark.timeout(600)
async def test_what_an_address_says_runs_nothing(told: Served, chromium: Browser) -> None:
    async with looking(told.url, chromium, quiet=False) as page:  # the console tells of each 404
        for pattern in ADDRESSES:
            for payload in BROKEN_OUT:
                await runs_nothing(page, pattern.format(quote(payload, safe=""), quote(payload, safe="")))


FORMS = (
    ("/runs/{0}/approve", {"draft": "1", "sha256": "{1}"}),
    ("/runs/last/approve", {"draft": "{1}"}),
    ("/runs/last/word/{0}", {"reason": "{1}"}),
    ("/runs/chosen/pause", {"run": "{1}"}),
    ("/runs/{0}/fork", {"at": "{1}"}),
    ("/dead-letters/{0}/retry", {}),
    ("/subscriptions/{0}/parked/{0}/retry", {}),
    ("/sign-in", {"token": "{1}", "next": "{1}"}),
)


SENT = """([address, given]) => {
  document.querySelector("#said").textContent = "";
  return htmx.ajax("POST", address, given);
}"""


@pytest.mark.check
@pytest.mark.timeout(600)
async def test_what_a_form_is_answered_with_runs_nothing(told: Served, chromium: Browser) -> None:
    async with looking(told.url, chromium, quiet=False) as page:
        await page.goto("/runs")
        headers = json.loads(await page.get_attribute("body", "hx-headers:inherited") or "")
        for pattern, form in FORMS:
            for payload in BROKEN_OUT:
                address = pattern.format(quote(payload, safe=""))
                given = {name: value.replace("{1}", payload) for name, value in form.items()}
                asked = [address, {"target": "#said", "values": given, "headers": headers}]
                await page.evaluate(SENT, asked)
                await expect(page.locator("#said")).not_to_be_empty()
                assert await page.evaluate("window.ran === undefined"), address
                assert not await page.evaluate(STRANGE), (address, payload)


def test_no_page_may_run_or_load_what_is_inline_or_elsewhere(told: Served) -> None:
    share = _link("share", "last")
    pages = ("/runs", "/runs/last", "/runs/nowhere", "/sign-in", "/live/nothing", "/static/dashboard.css", "/nothing")
    for address in (*pages, share, "/links/none", "/api/v1/runs", "/api/v1/runs/last/audit.html"):
        answered = httpx.get(told.url + address, timeout=60)
        policy = answered.headers["content-security-policy"]
        meta = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', answered.text)
        assert "unsafe" not in policy + "".join(meta), address
        assert "frame-ancestors 'none'" in policy, address
        if "html" in answered.headers["content-type"]:
            assert "default-src 'none'" in policy + "".join(meta), address
        assert answered.headers["x-content-type-options"] == "nosniff", address


def test_names_of_tokens_links_and_subscriptions_are_letters(told: Served) -> None:
    for payload in BROKEN_OUT:
        for command in (
            ("token", "create", payload, "--scope", "read"),
            ("token", "invite", "last", "--for", payload),
            ("subscribe", "told.py:told", "--name", payload),
            ("webhook", "https://example.org", "--name", payload),
        ):
            assert call(*command).code == 2, command
    assert "&lt;script&gt;" in html(told, "/dead-letters")
    assert "&lt;img src=x" in send(told, f"/dead-letters/{quote(BROKEN_OUT[2], safe='')}/retry")
