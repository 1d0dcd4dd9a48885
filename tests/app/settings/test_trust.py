"""Settings that lie in a folder, those of the user's own, and what somebody else's file may not do unasked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.app.cli_calls import call, document, one_line, said

from redraft.app.settings.settings import LARGEST, read_settings
from redraft.events.errors import InputError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, of a user whose own settings and data lie beside it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("REDRAFT_STORE", "REDRAFT_BUS"):
        monkeypatch.delenv(name, raising=False)
    return folder


def own(text: str, home: Path) -> None:
    (home / "config" / "redraft").mkdir(parents=True)
    (home / "config" / "redraft" / "redraft.toml").write_text(text)


def test_the_users_own_file_comes_after_the_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bus = "amqp://guest:guest@127.0.0.1:1/"
    own(
        f'bus = "{bus}"\nbroker_prefix = "mine"\nmodel_url = "http://127.0.0.1:1/"\n'
        'worker_concurrency = 7\nqueue_type = "classic"\n',
        tmp_path,
    )
    Path("redraft.toml").write_text('broker_prefix = "folder"\nworker_concurrency = 8\n')
    monkeypatch.setenv("REDRAFT_WORKER_CONCURRENCY", "9")
    found = read_settings()
    assert (found.bus, found.broker_prefix, found.worker_concurrency, found.queue_type) == (bus, "folder", 9, "classic")
    assert found.model_url == "http://127.0.0.1:1/"


def test_a_fault_names_the_file_that_has_it(tmp_path: Path) -> None:
    own("sotre = 1\n", tmp_path)
    with pytest.raises(InputError, match=r"config/redraft/redraft.toml: there is no setting 'sotre'"):
        read_settings()
    (tmp_path / "config" / "redraft" / "redraft.toml").unlink()
    Path("redraft.toml").write_text("perfix = 1\n")
    with pytest.raises(InputError, match=r"^redraft.toml: there is no setting 'perfix'"):
        read_settings()
    Path("redraft.toml").write_text("= 1\n")
    with pytest.raises(InputError, match=r"^redraft.toml cannot be read: "):
        read_settings()


@pytest.mark.parametrize(
    "line",
    [
        'store = "postgresql://ada:Wq7x83921@example.com/runs"',
        'store = "sqlite:////tmp/elsewhere.db"',
        'store = "sqlite:///../elsewhere.db"',
        'store = "sqlite:///link/elsewhere.db"',
        'bus = "amqp://ada:Wq7x83921@example.com/"',
        'worker_module = "evil.py"',
        'server_url = "https://evil.example"',
        'webhook_hosts = {"example.com" = ["AWS_SECRET_ACCESS_KEY"]}',
        'public_key = "theirs"',
        'signing_key = "theirs"',
        'checkpoint = "theirs"',
        'users = {ann = ["operator"]}',
        "encrypt_new_runs = false",
        "encrypt_new_runs = true",
        'encrypt_key_file = "theirs.key"',
        f'encrypt_key = "{"A" * 43}="',
    ],
)
def test_what_a_folder_sets_counts_once_it_is_trusted_and_until_it_changes(line: str, folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent)
    file = folder / "redraft.toml"
    file.write_text(f"{line}\n")
    refused = call("list")
    assert refused.code == 2
    name = line.partition(" ")[0]
    assert f"{file} sets {name}, and you have not trusted it as it is now" in one_line(refused)
    assert "`redraft trust` once" in refused.err
    assert "Wq7x83921" not in refused.err
    told = document("trust")
    assert told == {"trusted": str(file), "settings": [name]}
    assert "Wq7x83921" not in said("trust")
    read_settings()
    file.write_text(f"{line}\nbroker_prefix = 'other'\n")
    assert call("list").code == 2, "it is another file now"
    said("trust")
    (folder / "deeper").mkdir()
    (folder / "deeper" / "redraft.toml").write_bytes(file.read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder / "deeper")
        if ".." not in line and "link" not in line:
            assert call("list").code == 2, "another place is another file"


def test_what_harms_nobody_needs_no_trust_nor_what_does_not_count(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "redraft.toml"
    file.write_text('store = "sqlite:///runs/own.db"\nbus = "local:"\nbroker_prefix = "mine"\nmodel = "openai:gpt-5"\n')
    assert read_settings().store == f"sqlite:///{folder / 'runs' / 'own.db'}"
    file.write_text('store = "postgresql://example.com/runs"\nbus = "amqp://example.com/"\n')
    monkeypatch.setenv("REDRAFT_BUS", "local:")
    assert read_settings(store="memory:").store == "memory:"
    assert call("list").code == 2, "its store would count"


def test_a_file_with_an_unknown_setting_is_not_trusted(folder: Path) -> None:
    (folder / "redraft.toml").write_text('sotre = "memory:"\n')
    refused = call("trust")
    assert refused.code == 2
    assert one_line(refused).startswith("redraft.toml: there is no setting 'sotre'; there are store, ")


def test_what_is_trusted_is_read_by_its_owner_alone(folder: Path, tmp_path: Path) -> None:
    (folder / "redraft.toml").write_text('worker_module = "mine.py"\n')
    said("trust")
    assert (tmp_path / "data" / "redraft" / "trusted.json").stat().st_mode & 0o777 == 0o600
    assert "there is no such file" in one_line(call("trust", "none.toml"))


@pytest.mark.parametrize("kind", ["endless", "pipe", "folder", "large", "nested"])
def test_what_is_no_file_of_settings_is_told_in_one_line(kind: str, folder: Path) -> None:
    file = folder / "redraft.toml"
    match kind:
        case "endless":
            file.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "large":
            file.write_text("#" * (LARGEST + 1))
        case _:
            file.write_text("a = " + "[" * 100_000)
    refused = call("list")
    assert refused.code == 2
    assert one_line(refused).startswith(f"{file.name} cannot be read: ")


@pytest.mark.parametrize(
    "line", ['MODEL_URL = "http://127.0.0.1:1/"', 'Store = "sqlite:////x.db"', 'WORKER_MODULE = "x.py"']
)
def test_a_name_in_other_capitals_is_no_setting(line: str, folder: Path) -> None:
    Path("redraft.toml").write_text(f"{line}\n")
    assert f"redraft.toml: there is no setting {line.split()[0]!r}" in one_line(call("list"))


def test_what_is_trusted_is_shown_without_its_secrets(folder: Path) -> None:
    Path("redraft.toml").write_text('oidc_client_secret = "s3cr3t"\nsigning_key = "s3cr3t"\n')
    assert "oidc_client_secret = ***; signing_key = ***" in said("trust")
