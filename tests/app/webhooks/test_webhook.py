"""Webhooks against a real server that is slow, fails, redirects, or cuts the connection; and where they may go."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_address
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from standardwebhooks import Webhook as StandardWebhook
from standardwebhooks import WebhookVerificationError
from tests.app.cli_calls import call
from tests.app.node import LIBRARIES, ROOT, installed
from tests.app.receiver import Answer, Receiver, receiving
from tests.events.rabbit_tls import make_certificates
from tests.streams import article

from redraft.app.webhooks.sender import Webhook, check_url, is_public, open_webhook, place_of, read_secrets, sign
from redraft.events.errors import DeliveryError, InputError
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import RunFacts

EVENT = article()[4]
SECRET = b"0123456789abcdef01234567"
BEFORE = b"the one before it, no less"


async def about(run: str) -> RunFacts:
    return RunFacts("article", ("spring", "v:2"))


class Resolver:
    """Looks names up in a list: each look-up has the next of the answers, the last one again and again."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.asked: list[tuple[str, int]] = []
        self._answers = list(answers)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def hook(
    url: str, secrets: Sequence[bytes] = (), *, allow_private: bool = True, **options: object
) -> AbstractAsyncContextManager[Webhook]:
    return open_webhook(url, secrets, about, allow_private=allow_private, **options)  # type: ignore[arg-type]


@asynccontextmanager
async def hooked(**options: object) -> AsyncIterator[tuple[Receiver, Webhook]]:
    async with receiving() as receiver, hook(receiver.url(), **options) as sends:  # type: ignore[arg-type]
        yield receiver, sends


async def fault(sends: Webhook, event: Recorded = EVENT) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        await sends(event)
    return caught.value


async def test_an_event_arrives_as_a_signed_cloud_event() -> None:
    async with hooked(secrets=[SECRET, BEFORE], clock=lambda: 1_772_366_400.9) as (receiver, sends):
        await sends(EVENT)
        await sends(EVENT)
        first, second = receiver.got
        assert receiver.connections == 1
    assert (first.line, first.body) == (second.line, second.body)
    assert first.line == "POST /hook?token=s3cret HTTP/1.1"
    assert first.headers["content-type"] == "application/cloudevents+json"
    assert first.headers["webhook-id"] == first.headers["idempotency-key"] == EVENT.id
    assert first.headers["webhook-timestamp"] == "1772366400"
    signed = f"{EVENT.id}.1772366400.".encode() + first.body
    expected = [
        "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
        for secret in (SECRET, BEFORE)
    ]
    assert first.headers["webhook-signature"].split() == expected
    assert json.loads(first.body) == {
        "specversion": "1.0",
        "id": EVENT.id,
        "source": "/redraft/coordinator",
        "type": "step.requested.v1",
        "subject": EVENT.run,
        "time": msgspec.to_builtins(EVENT.time),
        "datacontenttype": "application/json",
        "causationid": EVENT.causation,
        "correlationid": EVENT.correlation,
        "workflow": "article",
        "tags": "spring v:2",
        "position": EVENT.position,
        "version": EVENT.version,
        "hash": EVENT.hash,
        "previoushash": EVENT.previous,
        "data": msgspec.to_builtins(EVENT.data),
    }


def documented() -> str:
    """The secret that the command in the documentation makes, which `--help` shows too."""
    [command] = [
        line.strip()
        for line in (ROOT / "docs/subscriptions.md").read_text().splitlines()
        if line.strip().startswith("export HOOK_SECRET=")
    ]
    assert command in call("webhook", "--help").out
    made = subprocess.run(
        ["sh", "-c", f'{command}; printf %s "$HOOK_SECRET"'], capture_output=True, text=True, check=True
    )
    return made.stdout


async def test_a_receiver_verifies_with_the_library_of_the_standard() -> None:
    new, old = documented(), f"whsec_{base64.b64encode(BEFORE).decode()}"
    async with hooked(secrets=read_secrets(f"{new} {old}", "it")) as (receiver, sends):
        await sends(replace(EVENT, actor="Zo\u00eb \u2713"))
    (got,) = receiver.got
    for secret in (new, old, new.removeprefix("whsec_")):
        assert StandardWebhook(secret).verify(got.body, got.headers)["id"] == EVENT.id
    with pytest.raises(WebhookVerificationError):
        StandardWebhook(new).verify(got.body + b" ", got.headers)


async def posted(secret: str) -> dict[str, object]:
    """What a receiver gets that is signed with a secret, or with any where we refuse this one."""
    try:
        secrets = read_secrets(secret, "it")
    except InputError:
        secrets = (SECRET,)
    async with hooked(secrets=secrets) as (receiver, sends):
        await sends(EVENT)
    (got,) = receiver.got
    return {"secret": secret, "headers": got.headers, "body": got.body.decode()}


def javascript_says(folder: Path, sent: Sequence[str]) -> list[str]:
    given = "\n".join(sent)
    said = subprocess.run(
        ["node", "webhook.mjs"], cwd=folder, input=given, capture_output=True, text=True, timeout=60, check=True
    )
    return said.stdout.splitlines()


@pytest.mark.check
async def test_what_the_javascript_library_verifies_and_refuses(tmp_path: Path) -> None:
    raw = os.urandom(32)
    good = [documented(), base64.b64encode(raw).decode(), f"whsec_{base64.b64encode(raw[:24]).decode()}"]
    bad = ["whsec_", "whsec_not base64", "a-secret-of-16-bytes-and-more-than-that", "whsec_\u00e9\u00e9\u00e9\u00e9"]
    sent = [json.dumps(await posted(each)) for each in (*good, *bad)]
    said = javascript_says(installed(LIBRARIES, tmp_path), sent)
    assert said[: len(good)] == ["verified"] * len(good)
    assert all(line.startswith("refused") for line in said[len(good) :])
    assert len(said) == len(good) + len(bad)
    for each in bad:
        with pytest.raises(InputError):
            read_secrets(each, "it")


async def test_without_a_secret_nothing_is_signed() -> None:
    async with hooked() as (receiver, sends):
        await sends(EVENT)
        assert "webhook-signature" not in receiver.got[0].headers


def test_the_signature_is_that_of_the_standard() -> None:
    """The example in the documentation of Standard Webhooks."""
    (secret,) = read_secrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "it")
    assert sign([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}') == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(500), "127.0.0.1 answered 500"),
        (Answer(404), "127.0.0.1 answered 404"),
        (Answer(how="cut"), "cannot be reached: "),
    ],
)
async def test_a_receiver_that_fails(answer: Answer, says: str) -> None:
    async with hooked() as (receiver, sends):
        receiver.answers = [answer]
        said = await fault(sends)
        assert says in str(said)
        assert "s3cret" not in str(said)
        assert said.retry_after is None
        await sends(EVENT)
        assert receiver.ids == [EVENT.id] * 2


@pytest.mark.parametrize("answer", [Answer(how="never"), Answer(200, how="drops")])
async def test_a_receiver_that_does_not_come_to_an_end(answer: Answer) -> None:
    async with receiving() as receiver:
        receiver.answers = [answer]
        async with hook(receiver.url(), timeout=0.3) as hasty:
            said = await fault(hasty)
        assert "did not answer within 0.3 s" in str(said)
        assert "s3cret" not in str(said)
        assert said.retry_after is None
        async with hook(receiver.url()) as patient:
            await patient(EVENT)
        assert receiver.ids == [EVENT.id] * 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    async with receiving() as elsewhere, hooked() as (receiver, sends):
        receiver.answers = [Answer(status, (("Location", elsewhere.url()),))]
        said = await fault(sends)
        assert f"answered {status} Told: redirects are not followed" in str(said)
        assert elsewhere.got == []


async def test_a_receiver_says_when_to_try_again() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    said = ["7", later, "soon", "-5", "99999999999999999999"]
    async with hooked() as (receiver, sends):
        receiver.answers = [Answer(429, (("Retry-After", each),)) for each in said]
        waits = [(await fault(sends)).retry_after for _ in said]
    assert waits[0] == 7.0
    assert waits[1] is not None
    assert 80 < waits[1] <= 100
    assert waits[2:4] == [None, None]
    assert waits[4] is not None


async def test_a_server_that_is_not_there() -> None:
    async with receiving() as receiver:
        url = receiver.url()
    async with hook(url) as sends:
        assert "127.0.0.1 cannot be reached" in str(await fault(sends))


async def test_private_addresses_are_refused_unless_allowed() -> None:
    async with receiving() as receiver:
        for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433"):
            async with hook(receiver.url(host), allow_private=False) as sends:
                assert "is not public: events go there only with --allow-private" in str(await fault(sends))
        assert receiver.connections == 0
        async with hook(receiver.url("localhost"), resolve=Resolver(["127.0.0.1"])) as sends:
            await sends(EVENT)
        assert len(receiver.got) == 1


async def test_the_checked_address_is_the_one_that_is_connected_to() -> None:
    """The name is looked up once; what it would mean the next time does not matter. The server hears its own name."""
    resolver = Resolver(["127.0.0.1"], ["192.0.2.1"])
    async with receiving() as receiver, hook(receiver.url("hooks.example"), resolve=resolver) as sends:
        await sends(EVENT)
        assert resolver.asked == [("hooks.example", receiver.port)]
        assert receiver.got[0].headers["host"] == f"hooks.example:{receiver.port}"


async def test_a_name_that_turns_private_is_refused_then() -> None:
    resolver = Resolver(["93.184.216.34", "10.0.0.5"], ["127.0.0.1"], ["fe80::1%eth0"], [])
    async with receiving() as receiver:
        async with hook(receiver.url("rebind.example"), allow_private=False, resolve=resolver) as sends:
            for address in ("10.0.0.5", "127.0.0.1", "fe80::1%eth0", r"\(none\)"):
                with pytest.raises(
                    DeliveryError, match=f"rebind.example has the address {address}, which is not public"
                ):
                    await sends(EVENT)
        assert receiver.connections == 0


async def test_a_name_that_is_not_known() -> None:
    async with hook("http://nowhere.invalid/") as sends:
        assert str(await fault(sends)).startswith("nowhere.invalid is not found: ")


@pytest.mark.parametrize(
    "address",
    ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34", "64:ff9b::5db8:d822", "1.1.1.1"],
)
def test_public_addresses(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),  # noqa: S104
        *("100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00::1", "ff02::1", "2001:db8::1", "fec0::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::", "2002:a00:1::"),
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@given(st.integers(0, 2**32 - 1))
def test_an_address_is_no_more_public_when_it_is_written_in_another_way(number: int) -> None:
    plain = ip_address(number)
    for written in (f"::ffff:{plain}", f"64:ff9b::{plain}"):
        assert is_public(ip_address(written)) <= is_public(plain)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    make_certificates(folder)
    return folder


async def test_tls_verifies_the_name_and_not_the_number(certificates: Path) -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    trusted = ssl.create_default_context(cafile=certificates / "ca.pem")
    stranger = ssl.create_default_context(cafile=certificates / "stranger.pem")
    here = Resolver(["127.0.0.1"])
    async with receiving(server) as receiver:
        async with hook(receiver.url("localhost"), tls=trusted, resolve=here) as sends:
            await sends(EVENT)
        async with hook(receiver.url("elsewhere.example"), tls=trusted, resolve=here) as sends:
            assert "cannot be reached" in str(await fault(sends))
        async with hook(receiver.url("localhost"), tls=stranger, resolve=here) as sends:
            assert "cannot be reached" in str(await fault(sends))
        assert len(receiver.got) == 1


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://example.com/", "give https://host/path"),
        ("https://", "give https://host/path"),
        ("example.com/hook", "give https://host/path"),
        ("https://exa mple.com:x/", "give https://host/path"),
        ("https://me:s3cret@example.com/", "holds a user or password"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_repeating_it(url: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        check_url(url)
    assert "s3cret" not in str(caught.value)


def test_what_a_webhook_is_called_holds_no_secret() -> None:
    assert place_of(check_url("https://example.com:8443/T0/B1/s3cret?x=s3cret")) == "webhook https://example.com:8443"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the secret in X is too short"),
        ("a-secret-of-16-bytes-and-more-than-that", "base64"),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==", "24 bytes or more"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS\u00e9", "base64"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "base64"),
        ("shor", "the secret in X is too short"),
        ("whsec_short", "base64"),
        ("whsec_c2hvcnQ=", "too short"),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw shor", "too short"),
    ],
)
def test_a_secret_that_is_no_use_is_refused_without_repeating_it(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        read_secrets(text, "the secret in X")
    assert not text or text.split()[-1].removeprefix("whsec_") not in str(caught.value).replace("too short", "")


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as proxy, receiving() as receiver:
        monkeypatch.setenv("HTTP_PROXY", proxy.url(path=""))
        monkeypatch.setenv("ALL_PROXY", proxy.url(path=""))
        async with hook(receiver.url()) as sends:
            await sends(EVENT)
        assert (proxy.connections, len(receiver.got)) == (0, 1)
