"""Changes to the rows of a SQLite log, as a careful hand makes them with sqlite3.

The triggers are gone while it writes and there again afterwards, the table of ids is made to fit, and where a hash
covers what was changed, it may be computed anew. Hashes are computed by the documentation and not by the product.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeAlias


@dataclass(frozen=True)
class Row:
    position: int
    run: str
    version: int
    topic: str
    state: bytes


Rows: TypeAlias = list[Row]
Change: TypeAlias = Callable[[Rows, random.Random], Rows]


def read_rows(path: Path) -> Rows:
    """Returns the rows of the log, in the order of their positions."""
    with closing(sqlite3.connect(path)) as connection:
        return [Row(*each) for each in connection.execute("SELECT rowid, * FROM stored_events ORDER BY rowid")]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Makes these the only rows of the log, and the table of ids fit."""
    held = [(row.position, row.run, row.version, row.topic, row.state) for row in rows]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("DELETE FROM stored_events")
        connection.execute("DELETE FROM redraft_event_ids")
        connection.executemany(
            "INSERT INTO stored_events (rowid, originator_id, originator_version, topic, state) VALUES (?, ?, ?, ?, ?)",
            held,
        )
        connection.executemany("INSERT OR IGNORE INTO redraft_event_ids VALUES (?)", map(_id_of, held))
        for _, sql in triggers:
            connection.execute(sql)
        connection.commit()


def changed_column(rows: Rows, chance: random.Random) -> Rows:
    """One column of one row is another, and nothing else fits it."""
    at = chance.randrange(len(rows))
    row = rows[at]
    match chance.choice(("run", "version", "topic", "state", "state", "state")):
        case "run":
            row = replace(row, run=chance.choice([row.run[:-1], f"{row.run}x", "another"]))
        case "version":
            row = replace(row, version=row.version + 100)
        case "topic":
            row = replace(row, topic=chance.choice(sorted({each.topic for each in rows} - {row.topic})))
        case _:
            place = chance.randrange(len(row.state))
            byte = row.state[place] ^ chance.randrange(1, 256)
            row = replace(row, state=row.state[:place] + bytes([byte]) + row.state[place + 1 :])
    return [*rows[:at], row, *rows[at + 1 :]]


def rewritten_event(rows: Rows, chance: random.Random) -> Rows:
    """An event that is not the last of its run says something else, and its hash fits."""
    at = chance.choice([at for at, row in enumerate(rows) if _has_next(rows, row)])
    return [*rows[:at], said_otherwise(rows[at], chance), *rows[at + 1 :]]


def taken_out_event(rows: Rows, chance: random.Random) -> Rows:
    """An event that is not the last of its run is gone, and the rows after it moved up; maybe its run's events too."""
    gone = chance.choice([row for row in rows if _has_next(rows, row)])
    left = [row for row in rows if row is not gone]
    if chance.random() < 0.5:
        left = [_moved(row, -1) if row.run == gone.run and row.version > gone.version else row for row in left]
    return closed_up(left)


def put_in_event(rows: Rows, chance: random.Random) -> Rows:
    """One more event, with an id of its own, stands within a run; its events after it, and all rows, moved down."""
    before = chance.choice([row for row in rows if _has_next(rows, row)])
    copied = chance.choice(rows)
    one_more = hashed(replace(copied, run=before.run, version=before.version + 1), id=f"put-in-{chance.random()}")
    moved = [_moved(row, 1) if row.run == before.run and row.version > before.version else row for row in rows]
    at = rows.index(before) + 1
    return closed_up([*moved[:at], one_more, *moved[at:]])


def exchanged_versions(rows: Rows, chance: random.Random) -> Rows:
    """Two events of a run stand in each other's place in the run, and the hash of each fits."""
    one, other = two_of_a_run(rows, chance)
    return _with(rows, hashed(replace(one, version=other.version)), hashed(replace(other, version=one.version)))


def exchanged_positions_in_a_run(rows: Rows, chance: random.Random) -> Rows:
    """Two events of a run stand in each other's place in the log."""
    one, other = two_of_a_run(rows, chance)
    return exchanged(rows, one, other)


def moved_to_a_gap(rows: Rows, chance: random.Random) -> Rows:
    """A row stands beyond the end of the log, or before its beginning."""
    at = chance.randrange(len(rows))
    beyond = rows[-1].position + chance.choice((2, 3, 1_000, 2**40))
    before = chance.choice((0, -1, -1_000, -(2**40)))
    return [*rows[:at], replace(rows[at], position=chance.choice((beyond, before))), *rows[at + 1 :]]


def taken_out_with_a_gap(rows: Rows, chance: random.Random) -> Rows:
    """The end of a run, or a whole run, is gone, and no row moved up."""
    last = rows[-1]
    gone = chance.choice([row for row in rows if row.run != last.run])
    return [row for row in rows if row.run != gone.run or row.version < gone.version]


def cut_off_end(rows: Rows, chance: random.Random) -> Rows:
    """The last rows of the log are gone."""
    return rows[: -chance.randrange(1, len(rows))]


def cut_off_run(rows: Rows, chance: random.Random) -> Rows:
    """The last events of a run are gone, and the rows after them moved up."""
    last = chance.choice([row for row in rows if row.version > 1])
    return closed_up([row for row in rows if row.run != last.run or row.version < last.version])


def taken_out_run(rows: Rows, chance: random.Random) -> Rows:
    """A whole run is gone, and the rows after its rows moved up."""
    gone = chance.choice(rows).run
    return closed_up([row for row in rows if row.run != gone])


def rewritten_end(rows: Rows, chance: random.Random) -> Rows:
    """From one of its events on, a run says something else, and all of its hashes fit."""
    first = chance.choice(rows)
    other = [said_otherwise(row, chance) if row == first else row for row in rows]
    return chained_anew(other, first.run)


def put_in_run(rows: Rows, chance: random.Random) -> Rows:
    """There is one more run between the others, whose hashes and ids fit; all rows after its rows moved down."""
    copied, name = chance.choice(rows).run, f"one-more-{chance.random()}"
    at = chance.randrange(len(rows))
    more = [hashed(replace(row, run=name), id=f"{name}/{row.version}") for row in rows if row.run == copied]
    return chained_anew(closed_up([*rows[:at], *more, *rows[at:]]), name)


def exchanged_positions(rows: Rows, chance: random.Random) -> Rows:
    """Two neighbours in the log, of two runs, stand in each other's place."""
    at = chance.choice([at for at in range(1, len(rows)) if rows[at - 1].run != rows[at].run])
    return exchanged(rows, rows[at - 1], rows[at])


SHOWN_BY_THE_LOG: Final[Sequence[Change]] = (
    changed_column,
    rewritten_event,
    taken_out_event,
    put_in_event,
    exchanged_versions,
    exchanged_positions_in_a_run,
    moved_to_a_gap,
    taken_out_with_a_gap,
)
SHOWN_BY_A_CHECKPOINT: Final[Sequence[Change]] = (
    cut_off_end,
    cut_off_run,
    taken_out_run,
    rewritten_end,
    put_in_run,
    exchanged_positions,
)
"""What leaves a log in which every hash and position fits."""


def two_of_a_run(rows: Rows, chance: random.Random) -> tuple[Row, Row]:
    one = chance.choice([row for row in rows if _has_next(rows, row)])
    return one, chance.choice([row for row in rows if row.run == one.run and row.version > one.version])


def exchanged(rows: Rows, one: Row, other: Row) -> Rows:
    """Returns the rows with the positions of two of them exchanged, in the order of their positions."""
    made = _with(rows, replace(one, position=other.position), replace(other, position=one.position))
    return sorted(made, key=lambda row: row.position)


def closed_up(rows: Rows) -> Rows:
    """Returns the rows at the positions from 1 on."""
    return [replace(row, position=position) for position, row in enumerate(rows, start=1)]


def hashed(row: Row, **fields: str) -> Row:
    """Returns an event with other fields, and the hash that fits its run, version, name and content."""
    content = {**json.loads(row.state), **fields}
    del content["hash"]
    plain = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    found = sha256(f"{row.run}\n{row.version}\n{row.topic}\n{plain}".encode()).hexdigest()
    return replace(row, state=f'{{"hash":"{found}",{plain[1:]}'.encode())


def said_otherwise(row: Row, chance: random.Random) -> Row:
    return hashed(row, actor=f"somebody-{chance.random()}")


def chained_anew(rows: Rows, run: str) -> Rows:
    """Returns the rows with each event of a run on top of the one before it."""
    previous, made = "0" * 64, []
    for row in rows:
        made.append(hashed(row, previous=previous) if row.run == run else row)
        previous = json.loads(made[-1].state)["hash"] if row.run == run else previous
    return made


def _has_next(rows: Rows, row: Row) -> bool:
    return any(each.run == row.run and each.version > row.version for each in rows)


def _moved(row: Row, by: int) -> Row:
    return hashed(replace(row, version=row.version + by))


def _with(rows: Rows, *others: Row) -> Rows:
    """Returns the rows with each of these in place of the row that has its run, and its id."""
    made = {_id_of((0, each.run, 0, "", each.state)): each for each in others}
    return [made.get(_id_of((0, row.run, 0, "", row.state)), row) for row in rows]


def _id_of(row: tuple[int, str, int, str, bytes]) -> tuple[bytes]:
    """Returns the id of an event where it stands in its bytes, as the table of ids has it."""
    return (row[4][81:].partition(b'","time":')[0],)
