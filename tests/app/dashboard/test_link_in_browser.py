"""A link for a decision in a real browser: from the page that it opens to the event that is recorded."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser, expect
from tests.app.cli_calls import document, until
from tests.app.dashboard.asking import begin
from tests.app.dashboard.browser import looking
from tests.app.server.served import Served


def _invited(server: Served) -> tuple[str, str]:
    """A run that waits for ann, and the link by which she decides."""
    run = begin(server, "Tides", workflow="asked")
    until(lambda: server.get(f"/runs/{run}")["status"] == "waiting")
    return run, str(document("token", "invite", run, "--for", "ann", "--url", server.url)["link"])


@pytest.mark.check
async def test_a_person_approves_by_the_link_alone(server: Served, chromium: Browser) -> None:
    run, address = await asyncio.to_thread(_invited, server)
    async with looking(server.url, chromium) as page:
        await page.goto(address)
        await page.get_by_label("A reason").fill("It is good.")
        await page.get_by_role("button", name="Approve this draft").click()
        await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    event = await asyncio.to_thread(document, "events", "--run", run, "--type", "draft.approved")
    assert (event["data"]["by"], event["data"]["reason"]) == ("ann", "It is good.")


@pytest.mark.check
async def test_another_site_is_not_told_the_link(server: Served, chromium: Browser) -> None:
    _, address = await asyncio.to_thread(_invited, server)
    heard: list[bytes] = []

    async def other_site(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nthere")
        writer.close()

    context = await chromium.new_context()
    async with await asyncio.start_server(other_site, "127.0.0.1", 0) as other:
        page = await context.new_page()
        await page.goto(address)
        port = other.sockets[0].getsockname()[1]
        await page.evaluate(f"window.location.assign('http://localhost:{port}/')")
        await expect(page.get_by_text("there")).to_be_visible()
    await context.close()
    assert b"referer:" not in heard[0].lower()
