"""Settings, read once: flags, then the environment (`REDRAFT_*`), then two files `redraft.toml`.

The one in the working folder comes before the user's own; see `trust` for what it may set by itself.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from platformdirs import user_config_path, user_data_path
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from redraft.actors.authority import require_parts
from redraft.app.prices import ModelPrice
from redraft.app.trust import is_trusted, untrusted_in
from redraft.app.turns import ModelLimit
from redraft.events.content import MAX_DRAFT_BYTES
from redraft.events.errors import InputError

FILE: Final = "redraft.toml"
LOCAL: Final = "local:"
"""The bus inside one process."""

FORMS: Final = "local:, amqp://user:password@host:5672/vhost, or amqps://… with TLS"

LARGEST_SHARED_DRAFT: Final = 4 * 1024 * 1024
"""Bytes of a draft at most where RabbitMQ carries it: a request holds the brief, the draft and what was said of it, and
4.x takes messages of 16 MiB unless it is told otherwise."""

_USER: Final = re.compile(r"://(?!/)([^\s:/?#@]*)(\S*)@")
_WHOLE: Final = re.compile(r"://(?!/)([^\s:/?#@]*)(.*)@", re.DOTALL)
_PARAMETER: Final = re.compile(r"(?i)((?:ssl)?password=)[^&\s'\"]*")


class Settings(BaseSettings):
    """Where events are kept, how messages travel, and what is allowed.

    `queue_wait` is how many seconds a step waits while no worker serves its actor, unless its plan says otherwise; then
    it fails as `unserved`. `queue_limit` is how many seconds it waits in a queue from which workers take.

    `model` is that of steps which ask one and name none, such as `openai:gpt-5`; `model_url` is a server that speaks
    OpenAI's chat completions and is asked for every model; `model_limits` says for a model how many calls go on
    `at_once` and how many begin `a_minute`, in all workers of a deployment together; `model_prices` says what a model
    costs, `input` and `output` in USD for a million tokens, in place of the list of prices.

    `webhook_hosts` says which environment variables steps by `webhook` may send to a host, such as
    `{"hooks.example.com": ["TOKEN"]}`; to one that it names they may go although it is on a network of ours.

    `module` is what a worker serves that is told no actor: `article.py`, `article.py:judge`, or a shipped one.

    `store` is `sqlite:///path`, `postgresql://…` or `memory:`; `bus` is `local:` (inside one process), `amqp://…` or
    `amqps://…`; `prefix` is what names on the broker begin with, the same for all parts of a deployment; `draft_limit`
    is the largest brief and the largest draft in bytes (64 MiB at most, 4 MiB where RabbitMQ carries it); `concurrency`
    is how many requests one actor works on at once; `bundle` is how many requests for one actor may share a message on
    RabbitMQ, and then go to one worker; `queues` is the kind of the queues there, the same for all parts of a
    deployment (`quorum`, or `classic`, which is quicker where the broker is one server); `users` says for what each
    user of the broker stands (`{"judge": ["critic.judge"], "ann": ["operator"]}`), and then coordinators take nothing
    from others; `log` is the form of log lines
    (`auto`: text on a terminal, JSON otherwise). `encrypt` seals the texts of new runs with the key that `encrypt_key`
    is, in base64, or that stands in `encrypt_key_file`; with the key alone sealed runs can be read. `signing_key` and
    `public_key` (PEM) sign checkpoints and verify them. URLs may hold passwords: `redacted` shows them without.
    """

    model_config = SettingsConfigDict(env_prefix="REDRAFT_", extra="forbid", frozen=True)

    store: str = Field(
        default_factory=lambda: f"sqlite:///{user_data_path('redraft') / 'redraft.db'}",
        repr=False,
    )
    bus: str = Field(default=LOCAL, repr=False)
    prefix: str = Field(default="redraft", pattern=r"^[A-Za-z0-9_-]{1,100}$")
    draft_limit: int = Field(default=MAX_DRAFT_BYTES, ge=1, le=64 * 1024 * 1024)
    concurrency: int = Field(default=64, ge=1, le=10_000)
    bundle: int = Field(default=1, ge=1, le=1_000)
    queues: Literal["quorum", "classic"] = "quorum"
    queue_wait: float = Field(default=600.0, gt=0, le=30 * 86_400)
    queue_limit: float = Field(default=86_400.0, gt=0, le=30 * 86_400)
    users: dict[str, tuple[str, ...]] = {}
    log: Literal["auto", "text", "json"] = "auto"
    encrypt: bool = False
    encrypt_key: str = Field(default="", repr=False)
    encrypt_key_file: Path | None = None
    signing_key: str = Field(default="", repr=False)
    public_key: str = Field(default="", repr=False)
    module: str = ""
    model: str = ""
    model_url: str = Field(default="", repr=False)
    model_limits: dict[str, ModelLimit] = {}
    model_prices: dict[str, ModelPrice] = {}
    webhook_hosts: dict[str, tuple[str, ...]] = {}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags before the environment before the folder's file before the user's own."""
        own = read_file(own_file())
        theirs = _of_folder({**env_settings(), **init_settings()})
        files = (InitSettingsSource(settings_cls, found) for found in (theirs, own[0] if own else {}))
        return init_settings, env_settings, *files


def read_settings(**flags: Any) -> Settings:  # noqa: ANN401 - checked by pydantic, field by field
    """The settings; a flag of None counts as not given. Raises InputError naming the setting and what is wrong."""
    try:
        settings = Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if name not in Settings.model_fields:
            known = ", ".join(Settings.model_fields)
            raise InputError(f"{_file_with(name)}: there is no setting {name!r}; there are {known}") from None
        raise InputError(f"setting {name!r} (REDRAFT_{name.upper()} or redraft.toml): {first['msg']}") from None
    except ValueError as error:
        raise InputError(f"redraft.toml cannot be read: {error}") from None
    for user, parts in settings.users.items():
        require_parts(user, parts)
    scheme = settings.bus.partition(":")[0]
    if settings.bus != LOCAL and scheme not in ("amqp", "amqps"):
        told = f"begins with {scheme[:20]!r}" if "://" in settings.bus else "is no URL"
        raise InputError(f"setting 'bus' {told}: give {FORMS}")
    if settings.bus != LOCAL and settings.draft_limit > LARGEST_SHARED_DRAFT:
        raise InputError(
            f"setting 'draft_limit' is {settings.draft_limit:,}: through RabbitMQ a draft has at most "
            f"{LARGEST_SHARED_DRAFT:,} bytes, since a message with all that belongs to it has to stay below 16 MiB"
        )
    return settings


def own_file() -> Path:
    """The user's own settings: `~/.config/redraft/redraft.toml`, or where the platform keeps such files."""
    return user_config_path("redraft") / FILE


def read_file(path: Path) -> tuple[dict[str, Any], bytes] | None:
    """The settings in a file, and its bytes; None when there is none. Raises InputError when it cannot be read."""
    try:
        content = path.read_bytes()
        return tomllib.loads(content.decode()), content
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; see to its permissions") from None
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {error}; mend it") from None


def _of_folder(before: Mapping[str, object]) -> dict[str, Any]:
    """The settings of the working folder's file. Those that `before` has too take no effect, and so need no trust.

    Raises InputError when it sets what it may not.
    """
    found = read_file(Path(FILE))
    if found is None or Path(FILE).resolve() == own_file().resolve():
        return {}
    settings, content = found
    if "model_url" in settings:
        raise InputError(
            f"{FILE}: model_url says where your key is sent, and a file that lies in a folder may not; "
            f"set REDRAFT_MODEL_URL instead, or model_url in your own {own_file()}"
        )
    counting = {name: value for name, value in settings.items() if name not in before}
    names = untrusted_in(counting, Path.cwd())
    if names and not is_trusted(Path(FILE), content):
        raise InputError(
            f"{Path(FILE).resolve()} sets {', '.join(names)}, and you have not trusted it as it is now: look at it, "
            f"then `redraft trust` once; or set it yourself, in the environment or in your own {own_file()}"
        )
    return settings


def _file_with(name: str) -> str:
    theirs = read_file(Path(FILE))
    return FILE if theirs and name.partition(".")[0] in theirs[0] else str(own_file())


def redacted(text: str) -> str:
    """A text without the passwords of the URLs in it: `amqp://me:***@host/`, `?password=***`."""
    return _PARAMETER.sub(r"\1***", _USER.sub(_masked, text))


def shown_url(url: str) -> str:
    """The URL of a setting without its password, whatever characters that has."""
    return redacted(_WHOLE.sub(_masked, url))


def _masked(found: re.Match[str]) -> str:
    return f"://{found[1]}{':***' if found[2] else ''}@"


def views_path(store: str) -> Path | str | None:
    """Where the read models of a store are kept: a file beside it, the same database, or (None) in memory."""
    if store.startswith(("postgresql://", "postgres://")):
        return store
    if not store.startswith("sqlite:///"):
        return None
    path = Path(store.removeprefix("sqlite:///"))
    return path.with_name(f"{path.stem}.views{path.suffix or '.db'}")
