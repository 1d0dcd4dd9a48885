"""Where a RabbitMQ server is and how it is trusted: what the URL of a RabbitBus says."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from redraft.events.errors import InputError

_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_GUEST: Final = "guest"
_TLS: Final = ("cafile", "certfile", "keyfile")
_FORM: Final = "amqp://user:password@host:5672/vhost, or amqps:// with ?cafile=…&certfile=…&keyfile=…"

_REMEDY: Final = "; in a user's name or password write @ as %40, / as %2F, : as %3A, ? as %3F, # as %23 and % as %25"


@dataclass(frozen=True, slots=True)
class Address:
    """A server: `url` without TLS files, for the client; `where` without the password, for people; the user's name."""

    url: str = field(repr=False)
    where: str
    user: str
    tls: ssl.SSLContext | None = field(default=None, repr=False)


def read_address(url: str) -> Address:
    """Reads `amqp://user:password@host:port/vhost`; everything but the host may be left out, and a slash in the name
    of a virtual host is written %2F.

    With `amqps://` the server's certificate and name are checked, against the system's authorities or those in
    `cafile`; `certfile` and `keyfile` (PEM, the key without a password) are shown to a server that asks for them.
    Raises InputError for any other URL, and for a file that cannot be read or used.
    """
    parts, port = _split(url)
    files = _files(parts)
    vhost = unquote(parts.path[1:]) or "/"
    named = [quote(unquote(each), safe="") for each in (parts.username, parts.password) if each is not None]
    host = parts.netloc.rpartition("@")[2]
    bare = f"{parts.scheme}://{':'.join(named)}{'@' if named else ''}{host}{parts.path}"
    where = f"{parts.hostname}:{port}, virtual host {vhost}"
    user = unquote(parts.username or "") or _GUEST
    return Address(bare, where, user, _trust(files) if parts.scheme == "amqps" else None)


def _split(url: str) -> tuple[SplitResult, int]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # whose words may hold a part of the password
        raise InputError(f"the URL of RabbitMQ cannot be read; it looks like {_FORM}{_REMEDY}") from None
    if "@" in parts.path + parts.query + parts.fragment:
        raise InputError(f"the URL of RabbitMQ has an @ behind its host; it looks like {_FORM}{_REMEDY}")
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InputError(f"the URL of RabbitMQ names no scheme and host that are known; it looks like {_FORM}")
    if "/" in parts.path[1:]:
        raise InputError("the URL of RabbitMQ has more than one part after the host: write a slash in a vhost as %2F")
    return parts, port or _PORTS[parts.scheme]


def _files(parts: SplitResult) -> dict[str, str]:
    files = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(files.keys() - set(_TLS)):
        known = ", ".join(_TLS)
        raise InputError(f"the URL of RabbitMQ has ?{unknown[0]}=…, which is not known; after the ? may stand {known}")
    if files and parts.scheme != "amqps":
        raise InputError(f"the URL of RabbitMQ has ?{next(iter(files))}=… without TLS: begin it with amqps://")
    if "keyfile" in files and "certfile" not in files:
        raise InputError("the URL of RabbitMQ has ?keyfile=… without the certfile=… that the key belongs to")
    return files


def _trust(files: dict[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=files.get("cafile"))
    except (OSError, ValueError) as error:
        raise InputError(f"cafile {files.get('cafile')!r} cannot be used: {error}") from None
    if certfile := files.get("certfile"):
        try:
            context.load_cert_chain(certfile, files.get("keyfile"), password=lambda: "")
        except (OSError, ValueError) as error:
            key = files.get("keyfile", certfile)
            raise InputError(f"certfile {certfile!r} with key {key!r} cannot be used: {error}") from None
    return context
