"""`redraft export` and `redraft import`: from every kind of store to every other, and what is refused."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
import zstandard
from tests.app.cli.test_reading import LOUD
from tests.app.cli_calls import Said, call, environment, one_line
from tests.app.record.test_audit_jsonl import check

from redraft.app.record.copying.archive import read_archive
from redraft.events.backends import open_lease, open_store
from redraft.events.errors import StoreError
from redraft.events.messages.envelope import Recorded
from redraft.events.store.raw_rows import RawRow, RowCopier

Lines: TypeAlias = list[bytes]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.check)])
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store of three runs, the working folder being one with a workflow."""
    monkeypatch.chdir(tmp_path)
    Path("loud.py").write_text(LOUD)
    url = "sqlite:///store.db" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    monkeypatch.setenv("REDRAFT_STORE", url)
    for text in ("One", "Two", "Three"):
        run(text)
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store."""
    url: str = "sqlite:///target.db" if request.param == "sqlite" else request.getfixturevalue("another_postgres_url")
    return url


def run(text: str, **settings: str) -> str:
    said = call("run", "loud.py:loud", f"{text}.", "--json", "--quiet", *settings.values())
    assert said.code == 0, said.err
    return str(json.loads(said.out)["run"])


def export(*arguments: str) -> Said:
    said = call("export", "-o", "archive", *arguments)
    assert said.code == 0, said.err
    return said


def kept(url: str) -> list[RawRow]:
    """Every row of a store, as it is kept."""

    async def read() -> list[RawRow]:
        async with open_store(url) as store:
            return list(await store.copying().after(0, 10**9))

    return asyncio.run(read())


def without_positions(rows: list[RawRow]) -> list[tuple[str, int, str, bytes]]:
    return [(row.run, row.version, row.name, row.state) for row in rows]


def lines() -> Lines:
    with Path("archive").open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read().splitlines(keepends=True)


def rewrite(changed: Lines) -> None:
    Path("archive").write_bytes(zstandard.ZstdCompressor().compress(b"".join(changed)))


def ended(all_: Lines) -> Lines:
    """Lines with an end that fits them."""
    events = sum(b'"hash":"' in line for line in all_)
    end = {"events": events, "runs": 1, "sha256": hashlib.sha256(b"".join(all_)).hexdigest()}
    return [*all_, json.dumps({"end": end}, separators=(",", ":")).encode() + b"\n"]


def test_a_whole_log_comes_into_an_empty_store_as_it_was(source: str, target: str):
    export()
    before = kept(source)
    said = call("import", "archive", "--store", target)
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{len(before)} events of 3 runs imported; positions kept\n"
    assert kept(target) == before
    assert call("audit", "--all", "--verify", "--store", target).code == 0
    assert call("list", "--store", target).out == call("list").out
    assert call("show", "last", "--text", "--store", target).out == call("show", "last", "--text").out


def test_importing_again_changes_nothing_and_more_is_put_behind(source: str, target: str):
    export()
    assert call("import", "archive", "--store", target).code == 0
    first = kept(target)
    again = json.loads(call("import", "archive", "--store", target, "--json").out)
    assert again == {"added": 0, "known": len(first), "runs": 3, "kept": True}
    run("Four")
    export()
    more = json.loads(call("import", "archive", "--store", target, "--json").out)
    assert (more["known"], more["kept"]) == (len(first), True)
    assert kept(target) == kept(source)


def test_another_store_takes_the_runs_in_their_order_behind_its_own(source: str, target: str):
    export()
    own = run("Its own", at="--store", url=target)
    before = kept(target)
    done = json.loads(call("import", "archive", "--store", target, "--json").out)
    assert (done["known"], done["kept"]) == (0, False)
    after = kept(target)
    assert after[: len(before)] == before
    assert without_positions(after[len(before) :]) == without_positions(kept(source))
    assert [row.position for row in after] == list(range(1, len(after) + 1))
    assert call("audit", "--all", "--verify", "--store", target).code == 0
    assert own in call("list", "--store", target).out


def test_runs_can_be_chosen(source: str, target: str):
    runs = [each["run"] for each in json.loads(call("list", "--json").out)]

    def exported() -> set[str]:
        return {item.run for item in read_archive(Path("archive"))}

    export("--run", "last")
    assert exported() == {runs[0]}
    export("--run", runs[0], "--run", runs[2])
    assert exported() == {runs[0], runs[2]}
    export("--without", runs[1])
    assert exported() == {runs[0], runs[2]}
    export("--since", "1h")
    assert exported() == set(runs)
    export("--since", "2100-01-01")
    assert exported() == set()
    assert json.loads(call("import", "archive", "--store", target, "--json").out)["added"] == 0
    export("--run", "last")
    assert json.loads(call("import", "archive", "--store", target, "--json").out)["runs"] == 1
    assert call("audit", "--all", "--verify", "--store", target).code == 0


@pytest.mark.check
def test_encrypted_runs_come_with_their_keys_and_erased_ones_stay_erased(
    source: str, target: str, monkeypatch: pytest.MonkeyPatch
):
    assert call("key", "encryption", "key").code == 0
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "1")
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", "key")
    secret, erased = run("Only Ada knows"), run("Nobody is to know")
    export()
    assert b"Only Ada knows" not in b"".join(lines())
    older = Path("archive").read_bytes()
    assert call("import", "archive", "--store", target).code == 0
    assert "Only Ada knows" in call("show", secret, "--text", "--store", target).out
    assert call("erase", erased).code == 0
    export()
    assert call("import", "archive", "--store", target).code == 0
    for url in (source, target):
        assert call("show", erased, "--text", "--store", url).out == "[erased]"
    Path("archive").write_bytes(older)
    assert call("import", "archive", "--store", target).code == 0
    assert call("show", erased, "--text", "--store", target).out == "[erased]"
    assert call("audit", "--all", "--verify", "--store", target).code == 0


def test_runs_that_the_key_of_a_store_cannot_open_are_not_put_into_it(small: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "1")
    for name in ("key", "other"):
        assert call("key", "encryption", name).code == 0
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", "key")
    sealed = run("Only Ada knows")
    export("--run", sealed)
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", "other")
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///target.db")
    mine = run("Mine")
    said = call("import", "archive")
    assert said.code == 2
    assert f"the key of run {sealed} cannot be opened with this encryption key" in one_line(said)
    assert f"redraft export --without {sealed}" in one_line(said)
    assert mine in call("list").out


def test_an_import_that_was_interrupted_is_gone_on_with(source: str, target: str, monkeypatch: pytest.MonkeyPatch):
    export()
    put = RowCopier.put
    left = [2]

    async def failing(self: RowCopier, rows: list[RawRow]) -> int:
        if not left[0]:
            raise StoreError("the disk is full")
        left[0] -= 1
        return await put(self, rows)

    monkeypatch.setattr("redraft.app.record.copying.transfer.AT_ONCE", 7)
    monkeypatch.setattr(RowCopier, "put", failing)
    said = call("import", "archive", "--store", target)
    assert (said.code, one_line(said)) == (5, "the disk is full")
    assert 0 < len(kept(target)) < len(kept(source))
    assert call("audit", "--all", "--verify", "--store", target).code == 0
    monkeypatch.setattr(RowCopier, "put", put)
    assert call("import", "archive", "--store", target).code == 0
    assert kept(target) == kept(source)


def test_nothing_is_imported_while_a_coordinator_relays(source: str, target: str, monkeypatch: pytest.MonkeyPatch):
    export()

    async def held() -> Said:
        async with open_store(target), open_lease(target) as lease:
            await lease.acquire()
            return await asyncio.to_thread(call, "import", "archive", "--store", target)

    with monkeypatch.context() as hasty:
        hasty.setattr("redraft.app.cli.verbs.keeping.archive.LEASE_SECONDS", 0.3)
        said = asyncio.run(held())
    assert said.code == 5
    assert "a coordinator works on it; stop all of them" in one_line(said)
    assert kept(target) == []
    assert call("import", "archive", "--store", target).code == 0


async def test_a_relay_does_not_pass_on_what_was_imported_if_it_had_passed_on_all_before(source: str, target: str):
    await asyncio.to_thread(export)
    assert (await asyncio.to_thread(call, "import", "archive", "--store", target)).code == 0
    async with open_store(target) as store, open_lease(target) as lease:
        assert await lease.acquire() == await store.head() > 0


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive of one run in a file."""
    monkeypatch.chdir(tmp_path)
    Path("loud.py").write_text(LOUD)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    run("One")
    export()


def refused(told: str) -> None:
    said = call("import", "archive", "--store", "sqlite:///target.db")
    assert said.code == 2, said
    assert told in one_line(said)
    assert not list(Path().glob("target*")), "neither a store nor a lease is left"


Change: TypeAlias = Callable[[Lines], Lines]

DEEP = b"[" * 5_000 + b"]" * 5_000


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda all_: all_[:-1], "was cut off: its last line is missing"),
        (lambda all_: all_[:4], "was cut off: its last line is missing"),
        (lambda all_: [*all_[:4], *all_[5:]], "in line 19: it is not the end of these lines"),
        (lambda all_: [*all_[:-2], all_[-1]], "in line 19: it is not the end of these lines"),
        (lambda all_: [all_[0], all_[2], all_[1], *all_[3:]], "in line 20: it is not the end of these lines"),
        (lambda all_: ended([*all_[:4], *all_[5:-1]]), "event 4 of run"),
        (lambda all_: ended([all_[0], all_[2], all_[1], *all_[3:-1]]), "event 1 of run"),
        (
            lambda all_: ended([all_[0], b'{"key":{"run":"x","wrapped":""}}\n', *all_[1:-1]]),
            "a key for run x, but no event",
        ),
        (lambda all_: [*all_, all_[1]], "in line 21: there is more after its end"),
        (lambda all_: [*all_[:3], b"{}\n", *all_[3:]], "in line 4: it is not an event"),
        (lambda all_: [*all_[:3], b"junk\n", *all_[3:]], "in line 4: it is not an event"),
        (lambda all_: [*all_[:3], b'{"x":' + DEEP + b"}\n", *all_[3:]], "in line 4: it is not an event"),
        (lambda all_: [b'{"x":' + DEEP + b"}\n", *all_[1:]], "archive is not an archive of Redraft"),
        (lambda all_: [*all_[:3], all_[3].replace(b"write", b"right"), *all_[4:]], "is not what was recorded"),
        (
            lambda all_: [b'{"redraft_archive":2,"made":"2026-03-01T12:00:00Z"}\n', *all_[1:]],
            "was written by a later version",
        ),
        (lambda all_: all_[1:], "archive is not an archive of Redraft"),
        (lambda all_: [], "archive is not an archive of Redraft"),
    ],
)
def test_a_broken_archive_is_told_in_a_line_and_leaves_nothing(small: None, change: Change, told: str):
    rewrite(change(lines()))
    refused(told.replace("was written by a later version", "was written by a later version"))


def test_an_archive_that_was_cut_or_changed_anywhere_leaves_nothing(small: None):
    whole = Path("archive").read_bytes()
    chance = random.Random(5)
    for left in (*(chance.randrange(len(whole)) for _ in range(15)), *range(len(whole) - 8, len(whole))):
        Path("archive").write_bytes(whole[:left])
        refused("archive")
    for _ in range(25):
        at = chance.randrange(len(whole))
        changed = bytearray(whole)
        changed[at] ^= chance.randrange(1, 256)
        Path("archive").write_bytes(changed)
        said = call("import", "archive", "--store", "sqlite:///target.db")
        if said.code == 0:  # a byte of Zstandard's own frame that says nothing of what is in it
            assert kept("sqlite:///target.db") == kept("sqlite:///store.db")
            for file in Path().glob("target*"):
                file.unlink()
        else:
            assert (said.code, len(said.err.splitlines())) == (2, 1)
            assert not list(Path().glob("target*"))


def test_no_folder_is_made_for_a_broken_archive_and_what_was_there_stays(small: None):
    sound = Path("archive").read_bytes()
    Path("archive").write_bytes(sound[:-20])
    assert call("import", "archive", "--store", "sqlite:///new/target.db").code == 2
    assert not Path("new").exists()
    Path("target.db").touch()
    assert call("import", "archive", "--store", "sqlite:///target.db").code == 2
    assert Path("target.db").read_bytes() == b""
    before = kept("sqlite:///store.db")
    assert call("import", "archive", "--store", "sqlite:///store.db").code == 2
    assert kept("sqlite:///store.db") == before
    Path("archive").write_bytes(sound)
    assert call("import", "archive", "--store", "sqlite:///target.db").code == 0
    assert kept("sqlite:///target.db") == before


def test_an_event_that_holds_much_that_nobody_reads_is_refused(small: None):
    *all_, last, _ = lines()
    before = json.loads(last)
    run, version = before["run"], before["version"] + 1
    data = {"advice": "shorter", "by": "ann", "unknown": "a" * 2_000_000}
    rest = {"id": f"{7:032x}.0", "time": before["time"], "previous": before["hash"], "actor": "x", "data": data}
    plain = json.dumps(rest, separators=(",", ":"))
    digest = hashlib.sha256(f"{run}\n{version}\nrun.guided.v1\n{plain}".encode()).hexdigest()
    place = f'{{"position":{before["position"] + 1},"run":"{run}","version":{version},"name":"run.guided.v1"'
    rewrite(ended([*all_, last, f'{place},"hash":"{digest}",{plain[1:]}\n'.encode()]))
    refused("has 2,000,")
    rewrite(ended([*all_, last]))
    assert call("import", "archive", "--store", "sqlite:///target.db").code == 0


def test_another_history_of_the_same_run_is_refused(small: None):
    first = call("run", "loud.py:loud", "A.", "--key", "same", "--quiet", "--store", "sqlite:///a.db")
    assert first.code == 0
    assert call("export", "-o", "archive", "--store", "sqlite:///a.db").code == 0
    assert call("run", "loud.py:loud", "B.", "--key", "same", "--quiet", "--store", "sqlite:///b.db").code == 0
    before = kept("sqlite:///b.db")
    said = call("import", "archive", "--store", "sqlite:///b.db")
    assert said.code == 2
    assert "is in the store with another history, from event 1 on" in one_line(said)
    assert kept("sqlite:///b.db") == before


def test_a_damaged_store_is_not_exported(small: None, tmp_path: Path):
    from tests.events.store.test_verification import SqliteTampering

    before = Path("archive").read_bytes()
    SqliteTampering(tmp_path / "store.db").set(3, "topic", "x")
    said = call("export", "-o", "archive")
    assert said.code == 1
    assert "event 3 of run" in one_line(said)
    assert Path("archive").read_bytes() == before
    assert not list(tmp_path.glob(".archive*"))


def test_the_lines_can_be_checked_without_redraft(small: None):
    check([line for line in lines() if b'"hash":"' in line])


@pytest.mark.check
def test_an_archive_goes_to_standard_output(small: None, tmp_path: Path):
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "redraft", "export"],
        cwd=tmp_path, env=environment(tmp_path, {}), capture_output=True, check=True,
    )  # fmt: skip
    Path("archive").write_bytes(done.stdout)
    assert without_positions([item for item in read_archive(Path("archive")) if isinstance(item, RawRow)])
    assert done.stderr.decode().endswith("of 1 run exported\n")


def test_what_cannot_be_used_is_told(small: None):
    for arguments, told in (
        (("import", "nowhere"), "archive nowhere does not exist"),
        (("import", "loud.py"), "loud.py is damaged, or not an archive"),
        (("import", "archive", "--store", "memory:"), "a store in memory keeps nothing"),
        (("export", "-o", "no/archive"), "there is no folder no"),
        (("export", "--since", "soon", "-o", "x"), "--since 'soon' is not a time"),
    ):
        said = call(*arguments)
        assert said.code == 2
        assert told in one_line(said)
    assert call("export", "--run", "nobody", "-o", "x").code == 4
    assert call("export", "-o", "x", "--store", "sqlite:///none.db").code == 5
    assert not Path("x").exists()


def test_events_are_read_as_they_were(source: str, target: str):
    export()
    assert call("import", "archive", "--store", target).code == 0

    async def read(url: str) -> list[Recorded]:
        async with open_store(url) as store:
            return [event async for batch in store.tail(0, follow=False) for event in batch]

    assert asyncio.run(read(target)) == asyncio.run(read(source))


def test_a_checkpoint_of_one_store_holds_for_its_copy(source: str, target: str):
    assert call("key", "signing", "a.pem").code == 0
    assert call("audit", "--all", "--checkpoint", "now.json", "--key", "a.pem").code == 0
    export()
    assert call("import", "archive", "--store", target).code == 0
    said = call("audit", "--all", "--against", "now.json", "--public-key", "a.pem.pub", "--store", target)
    assert (said.code, said.err) == (0, "")


# What an archive may take


@pytest.mark.check
@pytest.mark.parametrize("head", [b"", b'{"redraft_archive":1,"made":"2026-01-01T00:00:00Z"}\n'])
def test_a_small_file_that_unpacks_to_a_line_without_end_is_refused_in_little_memory(tmp_path: Path, head: bytes):
    window = zstandard.ZstdCompressionParameters.from_level(6, window_log=27)
    with (
        (tmp_path / "bomb").open("wb") as file,
        zstandard.ZstdCompressor(compression_params=window).stream_writer(file) as out,
    ):
        out.write(head)
        for _ in range(600):
            out.write(bytes(2**20))
    assert (tmp_path / "bomb").stat().st_size < 100_000
    asked = [sys.executable, "-c", IMPORTING, str(tmp_path / "bomb"), f"sqlite:///{tmp_path / 'new.db'}"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False, env=environment(tmp_path, {}))
    assert said.returncode == 2
    assert one_line(Said(said.returncode, "", said.stderr)).startswith(
        ("archive ", f"{tmp_path / 'bomb'} is not an archive")
    )
    assert int(said.stdout) < 300_000, "kilobytes at most"
    assert not (tmp_path / "new.db").exists()


IMPORTING = """
import sys
from pathlib import Path
from redraft.app.cli import main
sys.argv = ["redraft", "import", sys.argv[1], "--store", sys.argv[2]]
try:
    sys.exit(main())
finally:
    print(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line))
"""
