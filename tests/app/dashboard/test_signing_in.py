"""Who opens a page: a token is shown once, and a cookie stands for it until it ends."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, expect
from tests.app.cli_calls import document, said, until
from tests.app.dashboard.asking import begin
from tests.app.dashboard.browser import fits, looking
from tests.app.server.served import LOOP, Served, served


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[Served]:
    said("run", "--text", "A text that is fine.", "-q")
    with served(folder, "--read-only", REDRAFT_HTTP='{"authentication": "token"}') as running:
        yield running


def token(*scopes: str) -> tuple[str, str]:
    """The id and the text of a new token."""
    made = document("token", "create", "ann", *(each for scope in scopes for each in ("--scope", scope)))
    return made["id"], made["token"]


@contextmanager
def signed_in(server: Served, text: str) -> Iterator[httpx.Client]:
    """A client that has shown a token."""
    with httpx.Client(base_url=server.url, timeout=60) as client:
        show(client, text)
        yield client


def show(client: httpx.Client, text: str) -> None:
    word = re.findall(r'"X-CSRF-Token": "(\w+)"', client.get("/sign-in").text)[0]
    answered = client.post("/sign-in", data={"token": text, "next": "/runs"}, headers={"X-CSRF-Token": word})
    assert answered.status_code == 200, answered.text
    assert answered.headers["hx-redirect"] == "/runs"
    cookie = answered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert text not in cookie


def test_nothing_but_the_way_in_is_shown_without_a_token(guarded: Served) -> None:
    for address in ("/runs", "/runs/last", "/runs/last/drafts/1", "/live/runs"):
        led = httpx.get(guarded.url + address)
        assert (led.status_code, led.headers["location"].startswith("/sign-in?next=")) == (303, True), address
    pressed = httpx.post(f"{guarded.url}/runs/chosen/pause", data={"run": "last"})
    assert (pressed.status_code, "/sign-in?next=%2F" in pressed.text) == (403, True)
    assert "default-src 'none'" in pressed.headers["content-security-policy"]
    for page in ("http://[", "javascript:window.ran=1", "//evil.example/x", '"><script>'):
        odd = httpx.post(f"{guarded.url}/runs/chosen/pause", headers={"HX-Current-URL": page})
        assert (odd.status_code, odd.text.count('href="/sign-in')) == (403, 1)
    assert "rdt_" in httpx.get(f"{guarded.url}/sign-in").text


def test_a_cookie_opens_pages_and_not_the_api_until_its_token_ends(guarded: Served) -> None:
    identity, text = token("read")
    with signed_in(guarded, text) as client:
        assert "ann" in client.get("/runs").text
        assert client.get("/api/v1/runs").status_code == 401
        with client.stream("GET", "/live/runs") as stream:
            lines = stream.iter_lines()
            assert "event: fragment" in lines
            said("token", "revoke", identity)
            assert any("authentication" in line for line in lines)
        until(lambda: client.get("/runs").status_code == 303)


def test_a_token_that_is_none_and_a_page_of_another_session_are_refused(guarded: Served) -> None:
    with httpx.Client(base_url=guarded.url) as client:
        word = re.findall(r'"X-CSRF-Token": "(\w+)"', client.get("/sign-in").text)[0]
        form = {"token": "rdt_nonsense", "next": "/"}
        assert client.post("/sign-in", data=form, headers={"X-CSRF-Token": word}).status_code == 401
        assert client.post("/sign-in", data=form).status_code == 403
        assert (
            client.post("/sign-in", data=form, headers={"X-CSRF-Token": word, "Origin": "http://evil"}).status_code
            == 403
        )
    with signed_in(guarded, token("read", "operate")[1]) as client:
        old = client.post("/sign-out", headers={"X-CSRF-Token": word})
        assert (old.status_code, "reload it" in old.text) == (403, True)


def test_who_may_only_look_is_shown_nothing_to_press(guarded: Served, server: Served) -> None:
    with signed_in(guarded, token("read", "operate")[1]) as client:
        assert "Pause" not in client.get("/runs").text, "a server that only looks changes nothing"


@pytest.mark.check
async def test_somebody_signs_in_and_out(guarded: Served, chromium: Browser) -> None:
    text = (await asyncio.to_thread(token, "read"))[1]
    async with looking(guarded.url, chromium, 390, quiet=False) as page:
        await page.goto("/runs?status=ended")
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert await fits(page)
        await page.get_by_label("Token").fill("rdt_wrong")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.locator("#said")).to_contain_text("not known")
        await page.get_by_label("Token").fill(text)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        assert page.url.endswith("/runs?status=ended")
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.check
async def test_who_is_not_known_any_more_is_told_on_the_open_page(tmp_path: Path, chromium: Browser) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    (tmp_path / "hold").touch()
    with served(tmp_path, "loop.py", REDRAFT_HTTP='{"authentication": "token"}') as other:
        store = ("--store", f"sqlite:///{tmp_path / 'store.db'}")
        scopes = ("--scope", "read", "--scope", "operate", "--scope", "submit")
        made = await asyncio.to_thread(document, "token", "create", "ann", *scopes, *store)
        other.client.headers["Authorization"] = f"Bearer {made['token']}"
        run = begin(other, "Tides")
        async with looking(other.url, chromium, quiet=False) as page:
            await page.goto(f"/runs/{run}")
            await page.get_by_label("Token").fill(made["token"])
            await page.get_by_role("button", name="Sign in").click()
            await expect(page.locator("html[data-line=live]")).to_be_attached()
            await page.context.clear_cookies()  # as when the server was started again, or the session was over
            await page.get_by_role("button", name="Pause").click()
            await expect(page.locator("#said")).to_contain_text("Your session has ended, and nothing was done")
            await page.locator("#said").get_by_role("link", name="Sign in").click()
            await page.get_by_label("Token").fill(made["token"])
            await page.get_by_role("button", name="Sign in").click()
            await expect(page).to_have_url(f"{other.url}/runs/{run}")


@pytest.mark.check
async def test_a_link_on_another_site_leads_to_its_page_without_signing_in_again(
    guarded: Served, chromium: Browser
) -> None:
    text = (await asyncio.to_thread(token, "read"))[1]
    link = f'<a href="{guarded.url}/runs?status=ended">the runs</a>'.encode()

    async def other_site(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(link) + link)
        writer.close()

    context = await chromium.new_context()
    page = await context.new_page()
    async with await asyncio.start_server(other_site, "127.0.0.1", 0) as other:
        there = f"http://localhost:{other.sockets[0].getsockname()[1]}/"
        await page.goto(there)
        await page.get_by_text("the runs").click()
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        await page.get_by_label("Token").fill(text)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        await page.goto(there)
        await page.get_by_text("the runs").click()
        await expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        assert page.url == f"{guarded.url}/runs?status=ended"
    await context.close()


@pytest.mark.check
@pytest.mark.parametrize("scripts", ["off", "not loaded"])
async def test_somebody_signs_in_without_scripts_and_no_address_has_the_token(
    guarded: Served, chromium: Browser, scripts: str
) -> None:
    text = (await asyncio.to_thread(token, "read"))[1]
    context = await chromium.new_context(base_url=guarded.url, java_script_enabled=scripts != "off")
    page, asked = await context.new_page(), list[str]()
    page.on("request", lambda sent: asked.append(sent.url))
    await page.route("**/*.js*", lambda route: route.abort())
    await page.goto("/runs?status=ended")
    assert "<noscript>" in await asyncio.to_thread(lambda: httpx.get(f"{guarded.url}/sign-in").text)
    for shown, heading in (("rdt_wrong", "Who you are is not known"), (text, "Runs")):
        await page.goto("/sign-in?next=%2Fruns%3Fstatus%3Dended")
        await page.get_by_label("Token").fill(shown)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name=heading)).to_be_visible()
    assert page.url.endswith("/runs?status=ended")
    await context.close()
    assert not [each for each in asked if "rdt_" in each]
