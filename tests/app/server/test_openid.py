"""Signing in by OpenID Connect: at a provider that is not ours, and what a provider that lies cannot do."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import structlog
from tests.app.cli_calls import call, document, said, until
from tests.app.dashboard.browser import browser as chromium
from tests.app.dashboard.browser import looking, runs_nothing
from tests.app.node import LIBRARIES, installed
from tests.app.server.lying_provider import API, CLIENT, LyingProvider, lying_provider
from tests.app.server.served import LOOP, Served, served
from tests.free_ports import free_port

from redraft.app.server.access.provider import Provider
from redraft.app.server.problems import Refused
from redraft.app.settings.openid import OidcSettings

SECRET = "a-secret-that-nobody-reads"  # noqa: S105
SCOPES = {"editors": ["read", "operate"], "readers": ["read"]}


def settings(trusted: str, **others: Any) -> dict[str, str]:
    oidc = {"issuer": trusted, "client_id": CLIENT, "url": "http://127.0.0.1", "scopes": SCOPES, **others}
    return {"REDRAFT_OIDC": json.dumps(oidc), "REDRAFT_OIDC_CLIENT_SECRET": SECRET}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("openid")
    (home / "loop.py").write_text(LOOP)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("REDRAFT_STORE", f"sqlite:///{home / 'store.db'}")
        said("run", "--text", "A text that is fine.", "-q")
        yield home


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """The address of `oidc-provider-mock`, a provider on Authlib's server."""
    port = free_port()
    command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        issuer = f"http://localhost:{port}"
        until(lambda: answers(issuer))
        for name, groups in (("ann", ["editors"]), ("bob", ["readers", "cooks"]), ("eve", ["cooks"])):
            claims = {"preferred_username": name, "groups": groups}
            httpx.put(f"{issuer}/users/{name}", json=claims).raise_for_status()
        yield issuer
        process.terminate()


def answers(issuer: str) -> bool:
    try:
        return httpx.get(f"{issuer}/.well-known/openid-configuration").status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def server(folder: Path, provider: str) -> Iterator[Served]:
    with served(folder, "loop.py", **settings(provider)) as running:
        yield running
        assert SECRET not in running.log.read_text()
        assert "traceback" not in running.log.read_text()


@contextmanager
def browser(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


def go(client: httpx.Client, name: str) -> str:
    """Goes to the provider and says who one is there; returns the way back."""
    led = client.get("/oidc/sign-in", params={"next": "/runs?status=ended"})
    assert led.status_code == 303, led.text
    assert "HttpOnly" in led.headers["set-cookie"]
    back = httpx.post(led.headers["location"], data={"sub": name}, follow_redirects=False)
    return str(httpx.URL(back.headers["location"]).raw_path, "ascii")


def test_who_the_provider_knows_signs_in_steers_in_that_name_and_signs_out(server: Served, folder: Path) -> None:
    (folder / "hold").touch()
    with browser(server) as client:
        assert "your organisation" in client.get("/sign-in").text
        signed_in = client.get(go(client, "ann"))
        assert (signed_in.status_code, 'content="0; url=/runs?status=ended"' in signed_in.text) == (200, True)
        cookie = next(each for each in signed_in.headers.get_list("set-cookie") if each.startswith("redraft_session"))
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        page = client.get("/runs").text
        assert "ann" in page
        assert client.get("/api/v1/runs").status_code == 401, "the cookie is for pages alone"
        word = re.findall(r'"X-CSRF-Token": "(\w+)"', page)[0]
        run = begun(server)
        said_so = client.post(f"/runs/{run}/guide", data={"advice": "say more"}, headers={"X-CSRF-Token": word})
        assert said_so.status_code == 200, said_so.text
        assert any(re.fullmatch(r"ann \(oidc [0-9a-f]{16}\)", each) for each in actors_of(run))
        (folder / "hold").unlink()
        with client.stream("GET", "/live/runs") as stream:
            lines = stream.iter_lines()
            assert "event: fragment" in lines
            assert client.post("/sign-out", headers={"X-CSRF-Token": word}).status_code == 200
            assert any("authentication" in line for line in lines), "an open page ends with its session"
        assert client.get("/runs").status_code == 303


HOSTILE = {
    "quoted": '" autofocus onfocus=window.ran=1 x="',
    "single": "' autofocus onfocus=window.ran=1 x='",
    "address": "javascript:window.ran=1",
    "pattern": "{{ 7*7 }}{% raw %} &lt;img src=x onerror=window.ran=1&gt;",
    "hx": "\" hx-on::load=window.ran=1 hx-get=/ hx-trigger=load x='",
}
MARKUP = "<img src=x onerror=window.ran=1>"


@pytest.mark.check
@pytest.mark.timeout(300)
def test_a_name_that_a_provider_says_runs_nothing(server: Served, folder: Path, provider: str) -> None:
    groups = {subject: ["editors"] for subject in (*HOSTILE, "markup")} | {"nobody": []}
    for subject, given in groups.items():
        claims = {"preferred_username": {**HOSTILE, "markup": MARKUP}.get(subject, HOSTILE["quoted"]), "groups": given}
        httpx.put(f"{provider}/users/{subject}", json=claims).raise_for_status()
    (folder / "hold").touch()
    run = begun(server)
    sessions = [_guided(server, run, subject) for subject in HOSTILE]
    (folder / "hold").unlink()
    for subject in ("markup", "nobody"):
        with browser(server) as client:
            refused = client.get(go(client, subject))
        assert (refused.status_code, "<img src=x" in refused.text) == (403, False)
    asyncio.run(_nothing_runs(server, run, sessions))
    assert {each.rpartition(" (oidc")[0] for each in actors_of(run)} >= set(HOSTILE.values())


def _cookie(server: Served) -> str:
    return f"redraft_session_{httpx.URL(server.url).port}"


def _guided(server: Served, run: str, subject: str) -> str:
    """What the cookie of somebody holds who signed in, and gave the run advice."""
    with browser(server) as client:
        assert client.get(go(client, subject)).status_code == 200
        word = re.findall(r'"X-CSRF-Token": "(\w+)"', client.get("/runs").text)[0]
        answered = client.post(f"/runs/{run}/guide", data={"advice": MARKUP}, headers={"X-CSRF-Token": word})
        assert answered.status_code == 200, answered.text
        return client.cookies[_cookie(server)]


async def _nothing_runs(server: Served, run: str, sessions: Sequence[str]) -> None:
    """Looks at pages in each of these sessions, and at what a browser is told that comes back with hostile words."""
    async with chromium() as started:
        for session in sessions:
            async with looking(server.url, started) as page:
                await page.context.add_cookies([{"name": _cookie(server), "value": session, "url": server.url}])
                for address in ("/runs", f"/runs/{run}", f"/runs/{run}/drafts/1", f"/events?run={run}"):
                    await runs_nothing(page, address)
        async with looking(server.url, started, quiet=False) as page:  # the console tells of each refusal
            for query in ("error={0}&error_description={0}", "error=access_denied&state={0}", "code={0}&state={0}"):
                for payload in (*HOSTILE.values(), MARKUP, f"</title><script>window.ran=1</script>{MARKUP}"):
                    await runs_nothing(page, "/oidc/callback?" + query.format(quote(payload, safe="")))


def begun(server: Served) -> str:
    token = document("token", "create", "program", "--scope", "submit")["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    return str(server.client.post("/runs", json={"workflow": "loop", "brief": "Tides"}, headers=bearer).json()["run"])


def actors_of(run: str) -> list[str]:
    return [json.loads(line)["actor"] for line in said("events", "--run", run, "--json").splitlines()]


def test_what_somebody_may_do_is_what_their_groups_may(server: Served) -> None:
    with browser(server) as client:
        client.get(go(client, "bob"))
        page = client.get("/runs").text
        word = re.findall(r'"X-CSRF-Token": "(\w+)"', page)[0]
        refused = client.post("/runs/chosen/pause", data={"run": "last"}, headers={"X-CSRF-Token": word})
        assert (refused.status_code, "operate" in refused.text) == (403, True)
    with browser(server) as client:
        stranger = client.get(go(client, "eve"))
        assert (stranger.status_code, "eve may do nothing here" in stranger.text) == (403, True)
        assert client.get("/runs").status_code == 303


def test_a_way_back_counts_once_and_in_the_browser_that_began_it(server: Served) -> None:
    with browser(server) as client, browser(server) as other:
        way = go(client, "ann")
        assert other.get(way).status_code == 400, "another browser"
        assert client.get(way.replace("state=", "state=x")).status_code == 400
        kept = client.cookies["redraft_sign_in"]
        assert client.get("/oidc/callback?error=access_denied&state=x").status_code == 403
        assert client.get(way).status_code == 200
        assert "redraft_sign_in" not in client.cookies
        other.cookies.set("redraft_sign_in", kept)
        replayed = other.get(way)
        assert (replayed.status_code, "invalid_grant" in replayed.text) == (401, True), "the code was used"
        other.cookies.set("redraft_sign_in", "nonsense")
        assert other.get(way).status_code == 400
        assert other.get("/runs").status_code == 303


def test_a_provider_that_does_not_answer_is_a_page_that_says_so(folder: Path, provider: str) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with served(folder, "--read-only", **settings(nobody, audience=API)) as running, browser(running) as client:
        page = client.get("/oidc/sign-in")
        assert (page.status_code, "does not answer" in page.text) == (503, True)
        assert page.headers["retry-after"]
        asked = running.client.get("/runs", headers={"Authorization": "Bearer e30.e30.e30"})
        assert (asked.status_code, asked.json()["type"]) == (503, "urn:redraft:problem:provider")
        assert client.get("/sign-in").status_code == 200
        assert "traceback" not in running.log.read_text()
    with served(folder, "--read-only", **settings(f"{provider}/")) as running, browser(running) as client:
        page = client.get("/oidc/sign-in")
        assert (page.status_code, "it calls itself" in page.text) == (502, True)


@pytest.fixture(scope="module")
def lied_to(folder: Path) -> Iterator[tuple[Served, LyingProvider]]:
    with lying_provider() as liar, served(folder, "--read-only", **settings(liar.issuer, audience=API)) as running:
        yield running, liar
        assert "traceback" not in running.log.read_text()


@pytest.fixture
def lying(lied_to: tuple[Served, LyingProvider]) -> Iterator[tuple[Served, LyingProvider]]:
    yield lied_to
    lied_to[1].wrong, lied_to[1].sign = {}, lied_to[1].signed


def come_back(client: httpx.Client) -> httpx.Response:
    led = client.get("/oidc/sign-in")
    back = httpx.get(led.headers["location"], follow_redirects=False)
    return client.get(httpx.URL(back.headers["location"]).raw_path.decode())


WRONG = [
    {"iss": "https://evil.example"},
    {"aud": "another"},
    {"aud": [CLIENT, "another"]},
    {"aud": None},
    {"exp": 1},
    {"exp": None},
    {"exp": "soon"},
    {"nbf": 2**40},
    {"sub": None},
]


@pytest.mark.parametrize("wrong", [*WRONG, {"nonce": "of another sign-in"}, {"nonce": None}], ids=str)
def test_a_token_that_says_something_wrong_signs_nobody_in(
    lying: tuple[Served, LyingProvider], wrong: dict[str, Any]
) -> None:
    server, liar = lying
    liar.wrong = wrong
    with browser(server) as client:
        page = come_back(client)
        assert (page.status_code, "does not count" in page.text) == (401, True), page.text
        assert _cookie(server) not in client.cookies
    liar.wrong = {}
    with browser(server) as client:
        assert come_back(client).status_code == 200


SIGNED = [
    LyingProvider.signed_by_another_key,
    LyingProvider.signed_by_a_key_without_a_name,
    LyingProvider.signed_by_nobody,
    LyingProvider.signed_with_the_public_key_as_a_secret,
]


@pytest.mark.parametrize("sign", SIGNED)
def test_a_token_that_the_provider_did_not_sign_opens_nothing(lying: tuple[Served, LyingProvider], sign: Any) -> None:
    server, liar = lying
    assert ask(server, liar.signed(liar.claims(API))) == 200
    assert ask(server, sign(liar, liar.claims(API))) == 401
    liar.sign = lambda claims: sign(liar, claims)
    with browser(server) as client:
        assert come_back(client).status_code == 401


def ask(server: Served, token: str) -> int:
    return server.client.get("/runs", headers={"Authorization": f"Bearer {token}"}).status_code


@pytest.mark.parametrize("wrong", [each for each in WRONG if CLIENT not in str(each)], ids=str)
def test_a_program_needs_a_token_for_this_server(lying: tuple[Served, LyingProvider], wrong: dict[str, Any]) -> None:
    server, liar = lying
    liar.wrong = wrong
    assert ask(server, liar.signed(liar.claims(API))) == 401
    liar.wrong = {}
    assert ask(server, liar.signed(liar.claims(CLIENT))) == 401, "an ID token is no key to the API"
    liar.wrong = {"groups": ["cooks"]}
    assert ask(server, liar.signed(liar.claims(API))) == 403
    liar.wrong = {"groups": ["readers"]}
    text = liar.signed(liar.claims(API))
    assert ask(server, text) == 200
    assert server.client.post("/runs/last/pause", json={}, headers={"Authorization": f"Bearer {text}"}).status_code in (
        403,
        405,
    )


@pytest.mark.check
def test_a_new_key_of_the_provider_is_taken_and_the_old_one_counts_no_more(
    lying: tuple[Served, LyingProvider],
) -> None:
    server, liar = lying
    old = liar.signed(liar.claims(API))
    assert ask(server, old) == 200
    liar.renew()
    until(lambda: ask(server, liar.signed(liar.claims(API))) == 200)
    assert ask(server, old) == 401


async def test_tokens_of_unknown_keys_delay_no_others_while_the_provider_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redraft.app.server.access.provider.PAUSE", 0.0)
    with lying_provider() as liar:
        chosen = OidcSettings(issuer=liar.issuer, client_id=CLIENT, audience=API, url="http://127.0.0.1", scopes={})
        async with Provider(chosen, "", structlog.get_logger()) as provider:
            good = liar.signed(liar.claims(API))
            assert (await provider.read(good)).claims["sub"] == "u-1"
            liar.asked.clear()
            liar.may_answer.clear()
            unknown = asyncio.create_task(provider.read(liar.signed_by_a_key_without_a_name(liar.claims(API))))
            try:
                assert await asyncio.to_thread(liar.asked.wait, 30)
                for _ in range(3):
                    async with asyncio.timeout(5):
                        assert (await provider.read(good)).claims["sub"] == "u-1"
                assert not unknown.done()
            finally:
                liar.may_answer.set()
            with pytest.raises(Refused):
                await unknown


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"issuer": "http://example.com"}, "https://"),
        ({"url": "http://redraft.example.com"}, "https://"),
        ({"scopes": {"a": ["work"]}}, "scopes.a.0"),
        ({"audience": CLIENT}, "audience is the client_id"),
        ({"request": ["profile"]}, "openid"),
        ({"client_secret_file": "nowhere"}, "nowhere cannot be read"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], told: str
) -> None:
    for name, value in settings("https://id.example.com", **given).items():
        monkeypatch.setenv(name, value)
    refused = call("serve", "--read-only", "--port", "0")
    assert (refused.code, told in refused.err) == (2, True), refused.err


@pytest.mark.check
def test_a_certified_provider_that_demands_pkce_signs_people_and_programs_in(folder: Path, tmp_path: Path) -> None:
    port, libraries = free_port(), installed(LIBRARIES, tmp_path)
    issuer = f"http://127.0.0.1:{port}"
    arguments = [str(port), CLIENT, SECRET, "http://127.0.0.1/oidc/callback", API]
    with subprocess.Popen(
        ["node", "openid.mjs", *arguments], cwd=libraries, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        until(lambda: answers(issuer))
        with served(folder, "--read-only", **settings(issuer, audience=API)) as running, browser(running) as client:
            assert client.get(said_who(client.get("/oidc/sign-in").headers["location"])).status_code == 200
            assert "ann" in client.get("/runs").text
            form = {"grant_type": "client_credentials", "scope": "use", "resource": "urn:redraft"}
            given = httpx.post(f"{issuer}/token", data=form, auth=(CLIENT, SECRET)).json()["access_token"]
            assert ask(running, given) == 200
            assert ask(running, given[:-8] + "AAAAAAAA") == 401
        process.terminate()


def said_who(address: str) -> str:
    """The way back from a provider at which one says a name, and then that one agrees."""
    with httpx.Client(follow_redirects=False) as client:
        for form in ({"prompt": "login", "login": "ann", "password": "any"}, {"prompt": "consent"}):
            asked = httpx.URL(address).join(client.get(address).headers["location"])
            address = str(asked.join(client.post(asked, data=form).headers["location"]))
        return str(httpx.URL(client.get(address).headers["location"]).raw_path, "ascii")
