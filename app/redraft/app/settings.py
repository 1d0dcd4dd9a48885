"""Settings, read once: flags, then the environment (`REDRAFT_*`), then `redraft.toml` in the working folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from platformdirs import user_data_path
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from redraft.events.content import MAX_DRAFT_BYTES
from redraft.events.errors import InputError


class Settings(BaseSettings):
    """Where events are kept, how messages travel, and what is allowed.

    `store` is `sqlite:///path` or `memory:`; `bus` is `local:`; `draft_limit` is the largest draft in bytes;
    `concurrency` is how many requests one actor works on at once.
    """

    model_config = SettingsConfigDict(env_prefix="REDRAFT_", toml_file="redraft.toml", extra="forbid", frozen=True)

    store: str = Field(default_factory=lambda: f"sqlite:///{user_data_path('redraft') / 'redraft.db'}")
    bus: str = "local:"
    draft_limit: int = Field(default=MAX_DRAFT_BYTES, ge=1, le=64 * 1024 * 1024)
    concurrency: int = Field(default=64, ge=1, le=10_000)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags before the environment before the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def read_settings(**flags: Any) -> Settings:  # noqa: ANN401 - checked by pydantic, field by field
    """The settings; a flag of None counts as not given. Raises InputError naming the setting and what is wrong."""
    try:
        settings = Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InputError(f"setting {name!r} (REDRAFT_{name.upper()} or redraft.toml): {first['msg']}") from None
    except ValueError as error:
        raise InputError(f"redraft.toml cannot be read: {error}") from None
    if settings.bus != "local:":
        raise InputError(f"setting 'bus': {settings.bus!r} is not a bus that this version has; use local:")
    return settings


def views_path(store: str) -> Path | None:
    """The file of read models beside a store of this URL; None when they are kept in memory."""
    if not store.startswith("sqlite:///"):
        return None
    path = Path(store.removeprefix("sqlite:///"))
    return path.with_name(f"{path.stem}.views{path.suffix or '.db'}")
