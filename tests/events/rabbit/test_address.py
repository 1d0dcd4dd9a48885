"""What the URL of a RabbitBus may say, and how names of ours look on the server."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.events.rabbit_tls import make_certificates

from redraft.events.bus.port import INBOX, work_queue
from redraft.events.errors import InputError
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.connection import read_address
from redraft.events.rabbit.topology import Names


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("amqp://localhost", "localhost:5672, virtual host /"),
        ("amqps://localhost", "localhost:5671, virtual host /"),
        ("amqp://user:secret@broker.example:5673/", "broker.example:5673, virtual host /"),
        ("amqp://user:secret@broker.example/team%2Fred", "broker.example:5672, virtual host team/red"),
        ("amqp://[::1]:5672/red", "::1:5672, virtual host red"),
    ],
)
def test_an_address_says_where_without_the_password(url: str, where: str) -> None:
    address = read_address(url)
    assert address.where == where
    assert "secret" not in repr(address)


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("", "names no scheme and host"),
        ("http://localhost", "names no scheme and host"),
        ("amqp://", "names no scheme and host"),
        ("amqp://localhost:port", "cannot be read"),
        ("amqp://localhost/a/b", "%2F"),
        (f"amqp://localhost/{'v' * 128}", "names a vhost of 128 bytes; clients take 127"),
        ("amqps://localhost?no_verify_ssl=1", "no_verify_ssl=… which is not known".replace("… ", "…, ")),
        ("amqp://localhost?cafile=ca.pem", "amqps://"),
        ("amqps://localhost?keyfile=key.pem", "certfile"),
        ("amqps://localhost?cafile=missing.pem", "missing.pem"),
        ("amqps://localhost?certfile=missing.pem", "missing.pem"),
    ],
)
def test_a_url_that_cannot_be_used_says_what_is_wrong(url: str, fault: str) -> None:
    with pytest.raises(InputError) as raised:
        RabbitBus(url)
    assert fault in str(raised.value)
    assert "\n" not in str(raised.value)


def test_tls_checks_certificate_and_name_and_shows_ours(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    files = f"cafile={tmp_path}/ca.pem&certfile={tmp_path}/client.pem&keyfile={tmp_path}/client.key"
    context = read_address(f"amqps://localhost?{files}").tls
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert [ca["subject"] for ca in context.get_ca_certs()] == [((("commonName", "redraft test ca"),),)]
    with pytest.raises(InputError, match=r"server\.key"):
        RabbitBus(f"amqps://localhost?certfile={tmp_path}/client.pem&keyfile={tmp_path}/server.key")


@pytest.mark.parametrize("number", [0, -1])
def test_numbers_below_one_are_refused(number: int) -> None:
    with pytest.raises(InputError, match="delivery_limit"):
        RabbitBus("amqp://localhost", delivery_limit=number)
    with pytest.raises(InputError, match="capacity"):
        RabbitBus("amqp://localhost", capacity=number)


@given(st.text(min_size=1, max_size=9))
def test_a_queue_is_found_again_by_its_name_on_the_server(actor: str) -> None:
    names = Names("team-red")
    queue = work_queue("critic", actor)
    there = names.there(queue)
    assert there.isascii()
    assert there.startswith("team-red.critic.")
    assert names.here(there) == queue


def test_names_are_as_designed() -> None:
    names = Names("redraft")
    assert names.there(work_queue("critic", "judge")) == "redraft.critic.judge"
    assert names.key(work_queue("critic", "judge")) == "critic.judge"
    assert names.there(INBOX) == "redraft.inbox"
    assert [names.commands, names.dead_letters, names.events] == [
        "redraft.commands",
        "redraft.dead-letters",
        "redraft.events",
    ]
    assert names.here("other.critic.judge") == ""
    assert names.here("") == ""


@pytest.mark.parametrize(
    "queue", ["", "judge", "redraft", "redraft.", "redraft.dead-letters", "redraft.events", "x.judge"]
)
def test_what_is_no_queue_of_letters_is_refused(queue: str) -> None:
    with pytest.raises(InputError, match="is not a queue of messages"):
        Names("redraft").there(queue)


def test_a_name_that_rabbitmq_cannot_hold_is_refused() -> None:
    assert len(Names("redraft").there(work_queue("critic", "j" * 112))) == 127
    with pytest.raises(InputError, match="127"):
        Names("redraft").there(work_queue("critic", "j" * 113))


@pytest.mark.parametrize("prefix", ["", "a.b", "red raft", "ü", "x" * 101])
def test_a_prefix_that_names_cannot_begin_with_is_refused(prefix: str) -> None:
    with pytest.raises(InputError, match="prefix"):
        RabbitBus("amqp://localhost", prefix=prefix)
