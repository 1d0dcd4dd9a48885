"""Ids that no HTTP header takes: they are sent all the same, and verified as they are sent."""

from __future__ import annotations

import base64

import pytest
from msgspec.structs import replace
from standardwebhooks import Webhook as StandardWebhook
from tests.app.webhooks.test_webhook import EVENT, SECRET, hooked


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("prüfung.0", "pr%C3%BCfung.0"),
        ("注文.0", "%E6%B3%A8%E6%96%87.0"),
        ("line\nbreak.0", "line%0Abreak.0"),
        ("a\rb.0", "a%0Db.0"),
        (" .0", "%20.0"),
        ('50% of "it".0', "50%25%20of%20%22it%22.0"),
        ("\x7f\0.0", "%7F%00.0"),
        ("a/b:c~d-e_f!#$&'()*+,;=?@[]^`{|}\\<>.0", "a/b:c~d-e_f!#$&'()*+,;=?@[]^`{|}\\<>.0"),
    ],
)
async def test_an_id_that_no_header_takes_is_percent_encoded_in_headers_and_signed_as_it_is_sent(
    text: str, sent: str
) -> None:
    """As the CloudEvents binding for HTTP has it (3.1.3.2); the body has the id as it is."""
    async with hooked(secrets=[SECRET]) as (receiver, sends):
        await sends(replace(EVENT, id=text, run=text, actor=text, trace=text))
    (got,) = receiver.got
    assert got.headers["webhook-id"] == got.headers["idempotency-key"] == sent
    body = StandardWebhook(base64.b64encode(SECRET).decode()).verify(got.body, got.headers)
    assert (body["id"], body["subject"]) == (text, text)
