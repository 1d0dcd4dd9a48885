"""What pages do in a browser that runs no script: they say so, and put nothing that people write into an address."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser, expect
from tests.app.cli_calls import until
from tests.app.dashboard.asking import begin
from tests.app.server.served import Served


@pytest.mark.check
async def test_what_is_said_without_scripts_is_in_no_address(server: Served, chromium: Browser) -> None:
    run = await asyncio.to_thread(begin, server, "Tides", "asked")
    await asyncio.to_thread(until, lambda: server.get(f"/runs/{run}")["status"] == "waiting")
    draft = len(await asyncio.to_thread(server.get, f"/runs/{run}/drafts"))
    context = await chromium.new_context(base_url=server.url, java_script_enabled=False)
    page, asked = await context.new_page(), list[str]()
    page.on("request", lambda sent: asked.append(f"{sent.method} {sent.url}"))
    for address in ("/runs", f"/runs/{run}", f"/runs/{run}/drafts/{draft}"):
        await page.goto(address)
        forms = page.locator("form:not([method=get])")
        assert await forms.count()
        for form in await forms.all():
            assert await form.get_attribute("method") == "post"
            assert (await form.get_attribute("action") or "").startswith("/runs")
    await page.locator("#approve-reason").fill("a private reason")
    await page.get_by_role("button", name="Approve").click()
    await expect(page.get_by_text("its scripts did not run")).to_be_visible()
    await context.close()
    assert any(each.startswith("POST") for each in asked)
    assert not [each for each in asked if "private" in each]
