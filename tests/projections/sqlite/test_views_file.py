"""The file of the read models: what is not ours is left alone, what is ours and damaged is made anew."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.projections.logs import PROJECTIONS, ListLog, busy_log, contents, made_afresh, view_of

from redraft.events.backends import open_store
from redraft.events.errors import IncompatibleStore, RedraftError, StoreError
from redraft.projections.backends import open_views
from redraft.projections.engine.projector import catch_up, rebuild
from redraft.projections.read_models.runs_query import list_runs
from redraft.projections.read_models.steps import list_due
from redraft.projections.sqlite.storage import APPLICATION, FORMAT, open_file

LOG = busy_log(40)


def foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE runs (run TEXT)")
        connection.execute("INSERT INTO runs VALUES ('theirs')")
        connection.commit()


def foreign_text(path: Path) -> None:
    path.write_text("dear diary, " * 40)


def short_file(path: Path) -> None:
    path.write_bytes(b"x")


def later_version(path: Path) -> None:
    open_file(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (foreign_database, "belongs to another program; move it away"),
        (foreign_text, "belongs to another program; move it away: Redraft makes its own from the log"),
        (short_file, "belongs to another program; move it away"),
        (later_version, "written by a later version of Redraft; use that version, or delete the file"),
        (folder, "not a file; move it away: Redraft makes"),
    ],
)
async def test_what_is_not_for_us_is_left_as_it_is(tmp_path: Path, make: Callable[[Path], None], line: str) -> None:
    path = tmp_path / "views.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(IncompatibleStore, match=line) as raised:
        await open_views(path, PROJECTIONS).open()
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert (path.read_bytes() if path.is_file() else b"") == before
    assert [each.name for each in tmp_path.iterdir()] == ["views.db"]


async def test_the_log_itself_is_never_taken_for_read_models(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path}/log.db"):
        pass
    with pytest.raises(IncompatibleStore, match="the file belongs to another program"):
        await open_views(tmp_path / "log.db", PROJECTIONS).open()


@pytest.mark.check
async def test_a_file_of_an_earlier_format_is_emptied_and_filled_again(tmp_path: Path) -> None:
    path = tmp_path / "views.db"
    async with view_of(LOG, path):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT - 1}")
        connection.execute("CREATE TABLE of_old (a TEXT)")
        connection.commit()
    async with open_views(path, PROJECTIONS) as views:
        assert views.position == 0
        assert await views.query("SELECT name FROM sqlite_master WHERE name = 'of_old'") == []
        await catch_up(views, ListLog(LOG))
        assert await contents(views) == await made_afresh(LOG)


@pytest.mark.parametrize("keep", [100, 4096, 9000])
async def test_a_damaged_file_of_ours_is_made_anew(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "views.db"
    async with view_of(LOG, path):
        pass
    whole = path.read_bytes()
    assert len(whole) > keep + 20_000
    path.write_bytes(whole[:keep] + b"\xa5" * (len(whole) - keep))
    async with open_views(path, PROJECTIONS) as views:
        assert views.position == 0
        await catch_up(views, ListLog(LOG))
        assert await contents(views) == await made_afresh(LOG)


async def test_a_file_whose_tables_were_changed_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "views.db"
    async with view_of(LOG, path):
        pass
    whole = path.read_bytes()
    assert whole.count(b"updated REAL") == 2
    path.write_bytes(whole.replace(b"updated REAL", b"tpdated REAL"))
    async with open_views(path, PROJECTIONS) as views:
        await catch_up(views, ListLog(LOG))
        assert await contents(views) == await made_afresh(LOG)


async def test_a_file_cut_short_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "views.db"
    async with view_of(LOG, path):
        pass
    path.write_bytes(path.read_bytes()[:5000])
    async with open_views(path, PROJECTIONS) as views:
        await catch_up(views, ListLog(LOG))
        assert await contents(views) == await made_afresh(LOG)


async def test_damage_met_later_is_one_line_and_a_rebuild_mends_it(tmp_path: Path) -> None:
    path = tmp_path / "views.db"
    async with view_of(LOG, path):
        pass
    with closing(sqlite3.connect(path)) as connection:
        leaves = connection.execute(
            "SELECT pageno FROM dbstat WHERE name = 'runs' AND pagetype = 'leaf' ORDER BY pageno DESC"
        ).fetchall()
    assert len(leaves) > 1
    raw = bytearray(path.read_bytes())
    for (page,) in leaves[:-1]:
        raw[(page - 1) * 4096 : page * 4096] = b"\xa5" * 4096
    path.write_bytes(raw)
    async with open_views(path, PROJECTIONS) as views:
        assert views.position == len(LOG)
        with pytest.raises(StoreError, match="damaged; `redraft rebuild` builds it again from the log") as raised:
            await views.query("SELECT * FROM runs")
        assert "\n" not in str(raised.value)
        assert await rebuild(views, ListLog(LOG)) == len(LOG)
        assert await contents(views) == await made_afresh(LOG)


@pytest.mark.check
async def test_bytes_changed_anywhere_never_end_in_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "views.db"
    async with view_of(LOG, path):
        pass
    whole, expected = path.read_bytes(), await made_afresh(LOG)
    for place in range(100, len(whole), len(whole) // 60):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) * 8 + whole[place + 8 :])
        try:
            async with open_views(path, PROJECTIONS) as views:
                await list_runs(views, limit=999)
                await list_due(views, LOG[-1].time, 999)
                await rebuild(views, ListLog(LOG))
                assert await contents(views) == expected
        except RedraftError as error:
            assert "\n" not in str(error)  # noqa: PT017
        for name in tmp_path.iterdir():
            name.unlink()


@pytest.mark.check
async def test_many_processes_may_make_the_file_at_once(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys; from pathlib import Path\n"
        "from redraft.projections.backends import open_views; from tests.projections.logs import PROJECTIONS\n"
        "async def main():\n"
        "    async with open_views(Path(sys.argv[1]), PROJECTIONS): pass\n"
        "asyncio.run(main())"
    )
    path = tmp_path / "new" / "views.db"
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", script, str(path)]
    processes = [await asyncio.create_subprocess_exec(*command, cwd=root) for _ in range(6)]
    async with asyncio.timeout(60):
        assert [await process.wait() for process in processes] == [0] * 6
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"read models .*views\.db: ") as raised:
        await open_views(tmp_path / "file" / "views.db", PROJECTIONS).open()
    assert "\n" not in str(raised.value)
