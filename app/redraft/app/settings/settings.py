"""Settings, read once: flags, then the environment (`REDRAFT_*`), then two files `redraft.toml`.

The one in the working folder comes before the user's own. Who works in a folder need not have written what lies in it:
some settings of such a file (`untrusted_in`) take effect only once the person trusts it, with this very content.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from platformdirs import user_config_path, user_data_path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from redraft.actors.runtime.admission import require_parts
from redraft.app.process.files import read_plain, write_whole
from redraft.app.settings.openid import OidcSettings
from redraft.events.backends import parse_store_url
from redraft.events.bus.port import PARTITIONS
from redraft.events.errors import InputError
from redraft.events.messages.codec import UNREADABLE
from redraft.events.messages.content import MAX_DRAFT_BYTES

MILLION: Final = 1_000_000
CURRENCY: Final = "USD"

_Price: TypeAlias = Annotated[float, Field(ge=0, le=1e9)]


class ModelPrice(BaseModel):
    """The price of a model, in USD per million tokens: of input, and of output."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: _Price = 0.0
    output: _Price = 0.0

    def of(self, given: int, taken: int) -> float:
        """Returns the cost in USD of these numbers of input and output tokens."""
        return (given * self.input + taken * self.output) / MILLION


class ModelLimit(BaseModel):
    """The limits on one model for all workers of a deployment together; None is no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_concurrent: Annotated[int, Field(ge=1, le=200)] | None = None
    requests_per_minute: Annotated[int, Field(ge=1, le=200)] | None = None


class HttpSettings(BaseModel):
    """The settings of `redraft serve`.

    `host` and `port` are the address. `tls_cert` and `tls_key` are files in PEM; `behind_proxy` says instead that a
    proxy on the way speaks TLS. `hosts` are further names by which it may be called, beside its address.
    `authentication` is by `token`, by `none`, or `auto`: by token as soon as one was made, and on any address but this
    machine's own. `requests_per_minute` is for each who asks, `streams` the most readers that follow events at once.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8420
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    hosts: tuple[str, ...] = ()
    authentication: Literal["auto", "token", "none"] = "auto"
    requests_per_minute: Annotated[int, Field(ge=1, le=10_000_000)] = 1_200
    streams: Annotated[int, Field(ge=0, le=100_000)] = 500


FILE: Final = "redraft.toml"
LOCAL: Final = "local:"
"""The bus inside one process."""

FORMS: Final = "local:, amqp://user:password@host:5672/vhost, or amqps://… with TLS"

LARGEST_SHARED_DRAFT: Final = 4 * 1024 * 1024
"""Bytes of a draft at most where RabbitMQ carries it: a request holds the brief, the draft and what was said of it, and
4.x takes messages of 16 MiB unless it is told otherwise."""


_IN_JSON: Final = {
    "users": '{"judge": ["critic.judge"]}',
    "model_limits": '{"openai:gpt-5": {"max_concurrent": 4}}',
    "model_prices": '{"openai:gpt-5": {"input": 1.25, "output": 10}}',
    "webhook_hosts": '{"hooks.example.com": ["TOKEN"]}',
    "http": '{"host": "127.0.0.1", "port": 8420}',
    "oidc": '{"issuer": "https://…", "client_id": "redraft", "url": "https://…", "scopes": {"staff": ["read"]}}',
}
"""The settings that are objects, each as it may stand in the environment."""


def with_absolute_path(store: str) -> str:
    """Returns a store's URL with the absolute path of its file: a process may change its folder.

    Any other URL is returned as it is, also one that cannot be read: whoever opens it says so.
    """
    try:
        path = parse_store_url(store).path
    except InputError:
        return store
    return store if path is None else f"sqlite:///{path}"


class Settings(BaseSettings):
    """The settings of every process: store, bus, limits, models, keys. URLs may hold passwords; `repr` hides them.

    - `store`: `sqlite:///path`, `postgresql://…` (`?schema=name` puts all tables into that schema) or `memory:`.
    - `bus`: `local:` (inside one process), `amqp://…` or `amqps://…`.
    - `broker_prefix`: how names on the broker begin; the same for all parts of a deployment.
    - `max_draft_bytes`: the largest brief and the largest draft (64 MiB at most, 4 MiB through RabbitMQ).
    - `worker_concurrency`: how many requests one actor works on at the same time.
    - `request_batch_size`: how many requests for one actor may share a message on RabbitMQ; one worker gets them all.
    - `queue_type`: the type of the inbox on RabbitMQ, the same for all parts of a deployment; `classic` is quicker
      where the broker is one server.
    - `inbox_partitions`: how many parts the inbox on RabbitMQ has, which coordinators divide among themselves; the same
      for all parts of a deployment. 0 leaves it whole: then any coordinator may take any message.
    - `queue_wait`: seconds that a step waits while no worker serves its actor, unless its plan says otherwise; then
      the step fails as `unserved`. `queue_limit`: seconds that it waits in a queue from which workers take.
    - `users`: the parts that each user of the broker may play (`{"judge": ["critic.judge"], "ann": ["operator"]}`);
      where it is set, coordinators take nothing from other users.
    - `log_format`: the form of log lines; `auto` is text on a terminal and JSON elsewhere.
    - `encrypt_new_runs`: encrypts the texts of new runs with the key in `encrypt_key` (base64) or
      `encrypt_key_file`. The key alone is enough to read encrypted runs.
    - `signing_key`, `public_key` (PEM): sign and verify checkpoints. `checkpoint`: the file of one that the dashboard
      compares the log with; it needs the `public_key`.
    - `worker_module`: what a worker serves that is given no actor: `article.py`, `article.py:judge`, or a shipped one.
    - `server_url`, `server_token`: the `redraft serve` that a worker leases its requests from, where no broker reaches
      it, and the token by which it does.
    - `model`: the model for steps that ask one and name none, such as `openai:gpt-5`. `model_url`: a server that
      speaks OpenAI's chat completions and gets the requests for every model.
    - `model_limits`: for a model, how many requests run at the same time (`max_concurrent`) and how many start per
      minute (`requests_per_minute`), in all workers of a deployment together.
    - `model_prices`: `input` and `output` in USD per million tokens, in place of the list of prices.
    - `webhook_hosts`: for a host, the environment variables that steps by `webhook` may send to it, such as
      `{"hooks.example.com": ["TOKEN"]}`; a host named here may have a private address.
    - `http`: where and how `redraft serve` answers, such as `{"host": "10.0.0.5", "behind_proxy": true}`.
    - `oidc`: the provider of OpenID Connect by whom people and programs may sign in to `redraft serve`; its
      `oidc_client_secret` is a setting of its own.
    """

    model_config = SettingsConfigDict(env_prefix="REDRAFT_", extra="forbid", frozen=True)

    store: Annotated[str, AfterValidator(with_absolute_path)] = Field(
        default_factory=lambda: f"sqlite:///{user_data_path('redraft') / 'redraft.db'}",
        repr=False,
    )
    bus: str = Field(default=LOCAL, repr=False)
    broker_prefix: str = Field(default="redraft", pattern=r"^[A-Za-z0-9_-]{1,100}$")
    max_draft_bytes: int = Field(default=MAX_DRAFT_BYTES, ge=1, le=64 * 1024 * 1024)
    worker_concurrency: int = Field(default=64, ge=1, le=10_000)
    request_batch_size: int = Field(default=1, ge=1, le=1_000)
    queue_type: Literal["quorum", "classic"] = "quorum"
    inbox_partitions: int = Field(default=PARTITIONS, ge=0, le=256)
    queue_wait: float = Field(default=600.0, gt=0, le=30 * 86_400)
    queue_limit: float = Field(default=86_400.0, gt=0, le=30 * 86_400)
    users: dict[str, tuple[str, ...]] = {}
    log_format: Literal["auto", "text", "json"] = "auto"
    encrypt_new_runs: bool = False
    encrypt_key: str = Field(default="", repr=False)
    encrypt_key_file: Path | None = None
    signing_key: str = Field(default="", repr=False)
    public_key: str = Field(default="", repr=False)
    checkpoint: Path | None = None
    worker_module: str = ""
    server_url: str = ""
    server_token: str = Field(default="", repr=False)
    model: str = ""
    model_url: str = Field(default="", repr=False)
    model_limits: dict[str, ModelLimit] = {}
    model_prices: dict[str, ModelPrice] = {}
    webhook_hosts: dict[str, tuple[str, ...]] = {}
    http: HttpSettings = HttpSettings()
    oidc: OidcSettings | None = None
    oidc_client_secret: str = Field(default="", repr=False)

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
        name, *below = (str(part) for part in first["loc"])
        if name not in Settings.model_fields:
            raise _unknown(name, _file_with(name)) from None
        raise _wrong(name, ".".join(below), in_our_words(first["msg"])) from None
    except SettingsError as error:
        found = re.search(r'field "(\w+)"', str(error))
        raise _wrong(found[1] if found else "", "", "it has to be an object in JSON") from None
    except ValueError as error:
        raise InputError(f"redraft.toml cannot be read: {error}") from None
    for user, parts in settings.users.items():
        require_parts(user, parts)
    scheme = settings.bus.partition(":")[0]
    if settings.bus != LOCAL and scheme not in ("amqp", "amqps"):
        told = f"begins with {scheme[:20]!r}" if "://" in settings.bus else "is no URL"
        raise InputError(f"setting 'bus' {told}: give {FORMS}")
    if settings.bus != LOCAL and settings.max_draft_bytes > LARGEST_SHARED_DRAFT:
        raise InputError(
            f"setting 'max_draft_bytes' is {settings.max_draft_bytes:,}: through RabbitMQ a draft has at most "
            f"{LARGEST_SHARED_DRAFT:,} bytes, since a whole message, draft and headers, has to stay below 16 MiB"
        )
    return settings


def _wrong(name: str, below: str, fault: str) -> InputError:
    """Returns the error for a setting, or for what stands in it `below`: a variable of the environment is named."""
    variable = f"REDRAFT_{name.upper()}"
    if name in _IN_JSON and variable in map(str.upper, os.environ):
        part = f"{below}: " if below else ""
        return InputError(f"{variable}: {part}{fault}; write it such as {variable}='{_IN_JSON[name]}'")
    return InputError(f"setting {'.'.join(filter(None, (name, below)))!r} ({variable} or redraft.toml): {fault}")


def in_our_words(fault: str) -> str:
    """Returns what pydantic says of a wrong value as the rest of our line."""
    fault = fault.replace("Extra inputs are not permitted", "there is no such setting")
    fault = re.sub(r"a valid dictionary( or instance of \w+)?", "an object", fault)
    fault = fault.replace("Input should be a valid tuple", "Input should be a list")
    fault = re.sub(r", unable to (parse|interpret) .*", "", fault)
    fault = fault.replace("Input should be a valid integer", "Input should be a whole number")
    fault = fault.removeprefix("Value error, ")
    return fault.replace("Input should be a valid ", "Input should be a ").replace("Input should be", "it has to be")


def _require_known(settings: Mapping[str, object], file: Path) -> None:
    """Raises InputError for what a file sets and is no setting."""
    for name in settings:
        if name not in Settings.model_fields:
            raise _unknown(name, str(file))


def _unknown(name: str, file: str) -> InputError:
    return InputError(f"{file}: there is no setting {name!r}; there are {', '.join(Settings.model_fields)}")


LARGEST: Final = 1024 * 1024
"""The largest file of settings that is read, in bytes."""


def own_file() -> Path:
    """The user's own settings: `~/.config/redraft/redraft.toml`, or where the platform keeps such files."""
    return user_config_path("redraft") / FILE


def read_file(path: Path) -> tuple[dict[str, Any], bytes] | None:
    """The settings in a file, and its bytes; None when there is none.

    Raises InputError when it cannot be read, and for a name that is no setting exactly as it is written: elsewhere
    names count whatever their capitals, and what the file may set is looked up by name.
    """
    try:
        content = read_plain(path, LARGEST)
        found = tomllib.loads(content.decode())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; check its permissions") from None
    except RecursionError:
        raise InputError(f"{path} cannot be read: it nests too deep; correct it") from None
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {error}; correct it") from None
    _require_known(found, path)
    return found, content


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
            f"{FILE}: model_url says where your key is sent, so the {FILE} of a working folder may not set "
            f"it; set REDRAFT_MODEL_URL instead, or model_url in your own {own_file()}"
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


def views_path(store: str) -> Path | str | None:
    """Returns the place of a store's read models: a file beside it, the same database, or (None) memory."""
    url = parse_store_url(store)
    return url.beside("views") or url.postgres or None


_ASKS: Final = frozenset(
    {
        "bus",
        "worker_module",
        "webhook_hosts",
        "http",
        "oidc",
        "oidc_client_secret",
        "users",
        "public_key",
        "signing_key",
    }
    | {"checkpoint", "server_url", "encrypt_key", "encrypt_key_file", "encrypt_new_runs"}
)
_SQLITE: Final = "sqlite:///"


def untrusted_in(settings: Mapping[str, object], folder: Path) -> tuple[str, ...]:
    """The names of those settings of a folder's file that take effect only when it is trusted.

    They are a bus, its users, a worker's module, a store that is no SQLite file below the folder, hosts of webhooks,
    keys that sign, verify and encrypt, and whether anything is encrypted.
    """
    return tuple(name for name, value in settings.items() if _is_to_ask(name, value, folder))


def is_trusted(path: Path, content: bytes) -> bool:
    """Returns whether a person trusts the file at this path with this content."""
    return _known().get(str(path.resolve())) == sha256(content).hexdigest()


def trust(path: Path, content: bytes) -> None:
    """Records that a person trusts the file with this content. Raises InputError when that cannot be recorded."""
    known = {**_known(), str(path.resolve()): sha256(content).hexdigest()}
    try:
        _book().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"folder {_book().parent} cannot be made: {error.strerror}; check its permissions") from None
    write_whole(
        _book().resolve(), msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n", "what is trusted,", 0o600
    )


def _is_to_ask(name: str, value: object, folder: Path) -> bool:
    match name, value:
        case "store", str() if value.startswith(_SQLITE):
            return not (folder / value.removeprefix(_SQLITE)).resolve().is_relative_to(folder.resolve())
        case "store", _:
            return value != "memory:"
        case "bus", "local:":
            return False
        case _:
            return name in _ASKS


def _book() -> Path:
    return user_data_path("redraft") / "trusted.json"


def _known() -> dict[str, str]:
    try:
        return msgspec.json.decode(_book().read_bytes(), type=dict[str, str])
    except (OSError, *UNREADABLE):
        return {}
