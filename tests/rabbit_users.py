"""Users on the shared RabbitMQ with rights of their own, in a virtual host of their own: `rabbitmqctl` makes them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

from tests.events.rabbit_server import URL, require_rabbitmq
from tests.services import missing

GUIDE: Final = Path(__file__).parents[1] / "docs" / "deployment.md"


class Rights(NamedTuple):
    """What a user may configure, write and read: a regular expression of names each."""

    configure: str
    write: str
    read: str


def table(first: str, guide: Path = GUIDE) -> list[list[str]]:
    """The rows of the table of a guide whose first column has this title."""
    _, _, rest = guide.read_text().partition(f"| {first} |")
    assert rest, f"there is no table of {first} in {guide}"
    rows = []
    for line in rest.splitlines()[2:]:
        if not line.startswith("|"):
            break
        cells = re.split(r"(?<!\\)\|", line.strip("|"))
        rows.append([cell.strip().replace("\\|", "|") for cell in cells])
    return rows


def documented() -> dict[str, Rights]:
    """The rights of each user, as docs/deployment.md gives them."""
    return {row[0]: Rights(*(cell.strip("`") for cell in row[1:4])) for row in table("user")}


class Users(NamedTuple):
    """The virtual host, and for each user its name and its URL there."""

    vhost: str
    names: Mapping[str, str]
    urls: Mapping[str, str]


@contextmanager
def rabbit_users(rights: Mapping[str, Rights]) -> Iterator[Users]:
    """A user for each of these rights. Skips the test where there is no `rabbitmqctl` for the server."""
    require_rabbitmq()
    if not shutil.which("rabbitmqctl"):
        missing("rabbitmqctl is not found; install RabbitMQ here, as its users are made by it")
    token = uuid4().hex[:8]
    place = urlsplit(URL)
    vhost, names = f"rights-{token}", {user: f"{user}-{token}" for user in rights}
    urls = {
        user: f"amqp://{name}:pw-{token}@{place.hostname}:{place.port or 5672}/{vhost}" for user, name in names.items()
    }
    _rabbitmqctl(
        "import_definitions", given=_definitions(vhost, {names[user]: each for user, each in rights.items()}, token)
    )
    try:
        yield Users(vhost, names, urls)
    finally:
        gone = ", ".join(f'<<"{name}">>' for name in names.values())
        deleted = f'[rabbit_auth_backend_internal:delete_user(U, <<"tests">>) || U <- [{gone}]]'
        _rabbitmqctl("eval", f'{deleted}, rabbit_vhost:delete(<<"{vhost}">>, <<"tests">>).')


def _definitions(vhost: str, rights: Mapping[str, Rights], token: str) -> dict[str, Any]:
    return {
        "vhosts": [{"name": vhost}],
        "users": [{"name": name, "password": f"pw-{token}", "tags": []} for name in rights],
        "permissions": [{"user": name, "vhost": vhost, **given._asdict()} for name, given in rights.items()],
    }


def _rabbitmqctl(*arguments: str, given: object = None) -> None:
    command = ["rabbitmqctl", "-q", *arguments]
    text = json.dumps(given)
    said = subprocess.run(command, input=text, capture_output=True, text=True, timeout=170, check=False)
    if said.returncode:
        missing(f"rabbitmqctl {arguments[0]} does not work here ({said.stderr[-300:].strip()}); run it as its own user")
