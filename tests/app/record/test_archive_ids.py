"""Archives with ids that a store does not take: refused before anything is put in, by every kind of store."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from tests.app.cli.test_reading import LOUD
from tests.app.cli_calls import call, one_line
from tests.app.record.test_archive import ended, export, kept, lines, rewrite, run


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store that has a run of its own; an archive of one run is beside it."""
    monkeypatch.chdir(tmp_path)
    Path("loud.py").write_text(LOUD)
    url = "sqlite:///target.db" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    for store in (url, "sqlite:///store.db"):
        monkeypatch.setenv("REDRAFT_STORE", store)
        run("One")
    export()
    return url


def renamed(name: str | None = None, event_id: str = "") -> str:
    """Gives the archive's run another name, or its last event another id, with hashes that fit; returns the run."""
    head, *events, _ = lines()
    previous, made = "0" * 64, []
    for at, line in enumerate(map(json.loads, events), 1):
        place = {
            "position": at,
            "run": line["run"] if name is None else name,
            "version": line["version"],
            "name": line["name"],
        }
        rest = {key: value for key, value in line.items() if key not in (*place, "hash")} | {"previous": previous}
        if event_id and at == len(events):
            rest["id"] = event_id
        plain = json.dumps(rest, separators=(",", ":"), ensure_ascii=False)
        named = f"{place['run']}\n{place['version']}\n{place['name']}\n{plain}"
        previous = sha256(named.encode()).hexdigest()
        begun = json.dumps(place, separators=(",", ":"), ensure_ascii=False)[:-1]
        made.append(f'{begun},"hash":"{previous}",{plain[1:]}\n'.encode())
    rewrite(ended([head, *made]))
    return str(place["run"])


def refused(target: str, told: str) -> None:
    before = kept(target)
    said = call("import", "archive", "--store", target)
    assert said.code == 2, said
    assert told in one_line(said)
    assert kept(target) == before


def test_an_id_that_no_message_could_have_is_refused(target: str) -> None:
    longest = "i" * 1_020
    renamed(event_id=f"{longest}i")
    refused(target, "has an id of 1,021 bytes; the limit is 1,020; leave the run out: redraft export --without ")
    renamed(event_id="i" * 9_000)
    refused(target, "has an id of 9,000 bytes")
    renamed(event_id=longest)
    assert call("import", "archive", "--store", target).code == 0


def test_a_run_whose_id_holds_a_zero_is_refused(target: str) -> None:
    renamed(name="x\0y")
    refused(target, r"archive archive: 'x\x00y' cannot be the id of a run")
    renamed(name="x y")
    assert call("import", "archive", "--store", target).code == 0


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "x" * 201,
            "cannot be the id of a run: it has 1 to 200 characters, all of which can be printed; leave",
        ),
        ("語" * 1_000, "cannot be the id of a run: it has 1 to 200 characters"),
        ("x\ny", r"'x\ny' cannot be the id of a run"),
        ("", "'' cannot be the id of a run"),
    ],
)
def test_a_run_whose_id_no_coordinator_would_take_is_refused(target: str, name: str, told: str) -> None:
    renamed(name=name)
    refused(target, told)


def test_a_run_with_the_longest_id_is_imported(target: str) -> None:
    renamed(name="語" * 200)
    assert call("import", "archive", "--store", target).code == 0
