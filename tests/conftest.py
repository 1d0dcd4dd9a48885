"""What all tests share: databases of a PostgreSQL server (see `services`), and how many examples hypothesis tries.

REDRAFT_HYPOTHESIS=thorough, as in `make check`, tries many more of them than the default, `quick`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from tests.services import postgres_database, postgres_place

for name, examples in (("quick", 25), ("thorough", 300)):  # a busy machine is no fault
    settings.register_profile(name, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("REDRAFT_HYPOTHESIS", "quick"))


LONG: Final = (
    "chaos/test_strange_messages.py",
    "chaos/test_killed_subscriber.py",
    "chaos/test_killed_processes.py",
    "app/cli/test_deployment.py",
    "app/testing/test_simulate.py",
    "app/testing/test_simulation.py",
    "app/cli/test_processes.py",
    "app/cli/test_models.py",
    "test_pages.py",
    "events/rabbit/test_faults.py",
    "projections/engine/test_views.py",
    "app/subscribing/test_subscribe.py",
    "events/bus/test_contract.py",
    "app/record/test_archive.py",
    "app/isolation/test_isolation.py",
    "app/builtin/test_pytest.py",
    "events/store/test_lease.py",
    "scenarios/test_rights.py",
    "scenarios/test_standing_still.py",
    "properties/test_many_coordinators.py",
    "scenarios/test_store_tampered.py",
    "scenarios/test_file_bytes.py",
    "scenarios/test_killed_model_call.py",
    "test_benchmarks.py",
    "scenarios/test_killed.py",
    "scenarios/test_killed_command.py",
)
"""The files that take longest, which come first: with several processes none waits at the end for one of these."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {Path(__file__).parent / name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path, len(LONG)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nothing that collecting makes is garbage: it is not looked for, then nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_finish() -> None:
    """From here on nothing writes bytecode: Python would take the first of what a test writes twice within a second."""
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


@pytest.fixture(scope="session", autouse=True)
def nobodys_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The folders of a user who has no settings of their own, and trusts no file; nor a server: see `SSL_CERT_DIR`.

    Without it, whoever may ask a model would read all certificates of this machine first.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE", raising=False)
        patch.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("certificates")))
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name)))
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A database for this session, as libpq's parameters."""
    with postgres_database() as database:
        yield database


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """The URL of an empty place to keep something in: a schema of its own, in the session's database."""
    return postgres_place(postgres_server)


@pytest.fixture
def another_postgres_url(postgres_server: str) -> str:
    """The URL of one more such place."""
    return postgres_place(postgres_server)
