"""The list of runs by HTTP and on the page shows runs of items when they are asked for; the archive has them."""

from __future__ import annotations

import html
from pathlib import Path

from tests.app.cli_calls import document
from tests.app.itemized import all_runs, run_book, write_book
from tests.app.server.served import served

from redraft.app.record.copying.archive import read_archive


def test_runs_of_items_are_shown_when_they_are_asked_for(home: Path) -> None:
    write_book(home)
    book = run_book()
    every = all_runs()
    chapters = {run for run, line in every.items() if line["item_of"] == book}
    with served(home, "--read-only") as server:
        assert [each["run"] for each in server.get("/runs")["runs"]] == [book]
        assert server.get("/runs", items=True)["count"] == len(every) == 6
        assert server.get("/runs", of="last")["runs"] == document("list", "--of", book)
        assert {each["run"] for each in server.get("/runs", of=book)["runs"]} == chapters
        server.get("/runs", 404, of="nothing")
        archive = home / "got"
        archive.write_bytes(server.client.get("/archive", params={"run": book}).content)
        assert {each.run for each in read_archive(archive)} == set(every)
        root = str(server.client.base_url).partition("/api")[0]
        page = html.unescape(server.client.get(f"{root}/runs").text)
        assert book in page
        assert f"{book}~" not in page
        page = html.unescape(server.client.get(f"{root}/runs?items=true&sort=cost").text)
        assert all(run in page for run in every)
        assert "redraft list --sort cost --items" in page or "redraft list --items --sort cost" in page
        page = html.unescape(server.client.get(f"{root}/runs?of={book}").text)
        assert all(run in page for run in chapters)
