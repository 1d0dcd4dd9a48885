"""Records with an event that decodes and fits no plan: whoever reads the run is told so in a line, and shown the rest.

`MISFITS` is the table of such events, each after the first events of a good run. `tests/misfits.py` has many more, some
of which do follow.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest
from tests.app.cli_calls import call, one_line, said
from tests.app.server.served import Served, served
from tests.forged import put_rows, retold
from tests.misfits import DUE, NOBODYS, TEXT, VERDICT, appended, forge, made

from redraft.app.record.past import GrowingRun
from redraft.app.settings.settings import read_settings
from redraft.app.wiring.local import open_readonly
from redraft.events.errors import SetAside, StoreError
from redraft.events.store.event_store import EventStore
from redraft.events.store.raw_rows import RawRow

FIRST: Final = {"version": 1, "sha256": "c" * 64}
WRITTEN: Final = {"version": 1, "sha256": sha256(b"Tides").hexdigest()}
ENDED: Final = {"outcome": "accepted", "reason": "", "iterations": 1}
ASKED: Final = {"actor": "x", "attempt": 1, "due": DUE}
MISFITS: Final[Mapping[str, tuple[str, str, Mapping[str, Any]]]] = {
    "approved unasked": ("judging", "draft.approved.v1", {"path": "ask", "draft": FIRST, "by": "x", "granted": True}),
    "rejected unasked": ("judging", "draft.rejected.v1", {"path": "ask", "draft": FIRST, "by": "x"}),
    "expired unasked": ("judging", "approval.expired.v1", {"path": "ask", "draft": FIRST, "then": "approve"}),
    "ended with nobody's draft": ("waiting", "run.ended.v1", ENDED | {"draft": NOBODYS}),
    "ended again": ("ended", "run.ended.v1", ENDED | {"draft": NOBODYS}),
    "asked at no place": ("judging", "approval.requested.v1", {"path": "nowhere", "draft": FIRST, "due": DUE}),
    "asked about nobody's": (
        "judging",
        "approval.requested.v1",
        {"path": "editor", "draft": NOBODYS, "due": DUE},
    ),
    "iteration of no loop": ("judging", "iteration.started.v1", {"path": "", "iteration": 0}),
    "iteration elsewhere": ("waiting", "iteration.started.v1", {"path": "nowhere", "iteration": 1}),
    "request after the end": ("ended", "step.requested.v1", {"path": "write", "role": "generator"} | ASKED),
    "request on nobody's draft": (
        *("judging", "step.requested.v1"),
        {"path": "Loop[1]/judge", "role": "critic", "draft": NOBODYS} | ASKED,
    ),
    "draft out of turn": ("judging", "draft.generated.v1", {"path": "write", "attempt": 1, "draft": TEXT}),
    "draft of nobody's": ("judging", "draft.edited.v1", {"draft": TEXT | {"version": 2}, "before": NOBODYS, "by": "x"}),
    "refined from nobody's": (
        *("judging", "draft.refined.v1"),
        {"path": "Loop[1]/improve", "attempt": 1, "before": NOBODYS, "draft": TEXT | {"version": 2}},
    ),
    "judged nobody's": (
        *("judging", "draft.critiqued.v1"),
        {"path": "Loop[1]/judge", "attempt": 7, "draft": NOBODYS, "critique": VERDICT},
    ),
    "judged after the end": (
        *("ended", "draft.critiqued.v1"),
        {"path": "Loop[1]/judge", "attempt": 1, "draft": FIRST, "critique": VERDICT},
    ),
    "late on nobody's": (
        *("judging", "verdict.late.v1"),
        {"path": "", "attempt": 1, "draft": NOBODYS, "critique": VERDICT},
    ),
    "skipped nobody's": ("judging", "critic.skipped.v1", {"path": "", "actor": "x", "draft": NOBODYS}),
    "published nobody's": (
        *("waiting", "draft.published.v1"),
        {"path": "save", "attempt": 1, "draft": NOBODYS, "receipt": {"location": "x"}},
    ),
    "loop ended at no place": ("waiting", "loop.ended.v1", ENDED | {"path": "nowhere", "draft": FIRST}),
    "limits of no loop": ("judging", "limits.changed.v1", {"path": "nowhere", "by": "x", "max_iterations": 3}),
}
"""By what is wrong: the events that a run begins with (see `made`), and the name and the data of the one after them."""

HARMLESS: Final[Mapping[str, tuple[str, str, Mapping[str, Any]]]] = {
    "critique of none": (
        *("judging", "step.requested.v1"),
        {"path": "Loop[1]/judge", "role": "refiner", "draft": WRITTEN, "critiques": [99]} | ASKED,
    ),
}
"""Those with which a run can be folded, and no request made."""

Bases = dict[str, list[RawRow]]


def run_of(what: str) -> str:
    return what.replace(" ", "-").replace("'", "") + "-x"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The present folder, with the store of the good run and of those with an event that does not follow."""
    home = tmp_path_factory.mktemp("misfits")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("REDRAFT_STORE", f"sqlite:///{home / 'store.db'}")
        yield home


@pytest.fixture(scope="module")
def bases(folder: Path) -> Bases:
    return made(folder)


@pytest.fixture(scope="module")
def places(folder: Path, bases: Bases) -> Mapping[str, int]:
    """The version of the event that does not follow, by what is wrong."""
    url = f"sqlite:///{folder / 'store.db'}"
    for what, (base, name, data) in (MISFITS | HARMLESS).items():
        forge(url, bases[base], run_of(what), name, data)
    return {what: len(bases[base]) + 1 for what, (base, _, _) in MISFITS.items()}


@pytest.fixture(scope="module")
def server(folder: Path, places: Mapping[str, int]) -> Iterator[Served]:
    limits = json.dumps({"requests_per_minute": 1_000_000})
    with served(folder, REDRAFT_HTTP=limits) as running:
        yield running


def is_told(line: str, what: str, version: int) -> bool:
    """Returns whether a line says which run cannot be read, from where on, and how to go on."""
    run = run_of(what)
    remedy = f"redraft audit {run} --verify says more, and redraft quarantine {run} --reason … sets the run aside"
    return f"cannot be read from event {version} on" in line and run in line and line.endswith(remedy)


SHOWING: Final[Sequence[Sequence[str]]] = (
    ["show"],
    ["show", "--json"],
    ["show", "--text"],
    ["show", "--state"],
    ["show", "--step", "write"],
    ["whatif", "--until", "score >= 0.3"],
)


@pytest.mark.parametrize("verb", SHOWING, ids=" ".join)
@pytest.mark.parametrize("what", MISFITS)
def test_what_comes_before_an_event_that_does_not_follow_is_shown(
    what: str, verb: Sequence[str], places: Mapping[str, int]
) -> None:
    spoken = call(verb[0], run_of(what), *verb[1:])
    assert spoken.code == 0, spoken.err
    assert is_told(one_line(spoken), what, places[what])
    assert spoken.out
    if verb == ["show", "--json"]:
        assert json.loads(spoken.out)["version"] == places[what] - 1


@pytest.mark.parametrize("what", MISFITS)
def test_every_event_is_listed_and_the_audit_says_what_is_wrong(what: str, places: Mapping[str, int]) -> None:
    run = run_of(what)
    assert len(said("events", "--run", run).splitlines()) == places[what]
    assert len(json.loads(said("audit", run, "--json"))["story"]) == places[what]
    said("audit", run, "--export", f"{run}.html")
    checked = call("audit", run, "--verify")
    assert checked.code == 1
    assert f"redraft quarantine {run} --reason" in checked.err


SAYING: Final[Sequence[Sequence[str]]] = (
    ["guide", "RUN", "shorter"],
    ["limits", "RUN", "--max-iterations", "3"],
    ["pause", "RUN"],
    ["resume", "RUN"],
    ["cancel", "RUN"],
    ["approve", "RUN"],
    ["reject", "RUN", "--draft", "1"],
    ["edit", "RUN", "flow.py"],
    ["token", "invite", "RUN", "--for", "ann", "--url", "https://example.com"],
    ["fork", "RUN", "--at", "AT", "--trust", "-w", "flow.py:flow"],
)


@pytest.mark.parametrize("verb", SAYING, ids=lambda verb: " ".join(verb[:2]))
@pytest.mark.parametrize("what", MISFITS)
def test_a_run_with_an_event_that_does_not_follow_takes_no_word(
    what: str, verb: Sequence[str], places: Mapping[str, int]
) -> None:
    named = {"RUN": run_of(what), "AT": str(places[what])}
    spoken = call(*(named.get(each, each) for each in verb))
    assert spoken.code == 1
    assert is_told(one_line(spoken), what, places[what])


def test_it_is_forked_before_that_event_and_set_aside(bases: Bases, folder: Path, places: Mapping[str, int]) -> None:
    forge(f"sqlite:///{folder / 'store.db'}", bases["ended"], "late-x", *MISFITS["request after the end"][1:])
    refused = call("run", "--resume", run_of("iteration of no loop"), "--trust", "-w", "flow.py:flow")
    assert refused.code == 1
    assert is_told(one_line(refused), "iteration of no loop", places["iteration of no loop"])
    refused = call("fork", "late-x", "--at", "3", "--trust", "--set", "nothing.there=1")
    assert refused.code == 2
    assert "nothing" in one_line(refused), "the events up to the third are no hindrance"
    said("quarantine", "late-x", "--reason", "a stranger wrote into it")
    assert "set aside by" in call("show", "late-x").out


@pytest.mark.parametrize("what", HARMLESS)
def test_a_request_that_cannot_be_made_is_told_in_a_line(what: str, places: Mapping[str, int]) -> None:
    refused = call("show", run_of(what), "--step", "Loop[1]/judge")
    assert refused.code == 1
    assert "has no critique at version 99" in one_line(refused)


ROUTES: Final[Mapping[str, int]] = {
    "/api/v1/runs/RUN": 200,
    "/api/v1/runs/RUN/tree": 200,
    "/api/v1/runs/RUN/history": 200,
    "/api/v1/runs/RUN/state": 200,
    "/api/v1/runs/RUN/drafts": 200,
    "/api/v1/runs/RUN/drafts/final": 200,
    "/api/v1/runs/RUN/drafts/99": 404,
    "/api/v1/runs/RUN/diff?a=1&b=1": 200,
    "/api/v1/runs/RUN/audit": 200,
    "/api/v1/runs/RUN/audit.html": 200,
    "/api/v1/runs/RUN/record.jsonl": 200,
    "/api/v1/runs/RUN/request?step=write": 200,
    "/api/v1/runs/RUN/whatif?until=score>=0.3": 200,
    "/runs/RUN": 200,
    "/runs/RUN?at=3": 200,
    "/runs/RUN/drafts/1": 200,
    "/runs/RUN/drafts/99": 404,
    "/runs/RUN/diff?a=1&b=1": 200,
    "/compare?a=RUN&b=RUN": 200,
    "/events?run=RUN": 200,
    "/whatif": 200,
}


@pytest.mark.parametrize("route", ROUTES)
def test_each_path_answers_about_runs_with_an_event_that_does_not_follow(
    route: str, server: Served, places: Mapping[str, int]
) -> None:
    for what in places:
        answered = server.client.get(server.url + route.replace("RUN", run_of(what)))
        assert answered.status_code == ROUTES[route], (what, answered.text)


def test_words_to_such_a_run_are_refused_over_http(server: Served, places: Mapping[str, int]) -> None:
    for what, version in places.items():
        words = {"guide": {"advice": "shorter"}, "cancel": {}, "fork": {"at": version, "trust": True}}
        for word, body in words.items():
            answered = server.client.post(f"/runs/{run_of(what)}/{word}", json=body)
            assert answered.status_code == 409, (what, word, answered.text)
            problem = answered.json()
            assert problem["type"].endswith(":unreadable")
            assert is_told(problem["detail"], what, version)


def test_a_page_that_is_open_goes_on_without_what_does_not_follow(folder: Path, bases: Bases) -> None:
    url = f"sqlite:///{folder / 'store.db'}"
    good = retold(bases["judging"], "growing-x")
    _, name, data = MISFITS["iteration of no loop"]

    async def look() -> list[int]:
        await put_rows(url, good)
        async with open_readonly(read_settings()) as log:
            growing = GrowingRun(log, "growing-x")
            seen = [len(await growing.events()), len(await growing.events())]
            await put_rows(url, appended(good, name, data)[-1:])
            return [*seen, len(await growing.events()), len(await growing.events())]

    assert asyncio.run(look()) == [len(good)] * 4


def test_who_waits_for_a_score_of_such_a_run_is_told(places: Mapping[str, int]) -> None:
    what = "iteration of no loop"

    async def wait() -> None:
        async with open_readonly(read_settings()) as log, asyncio.timeout(20):
            await log.client.wait(run_of(what), "score >= 0.9")

    with pytest.raises(SetAside) as caught:
        asyncio.run(wait())
    assert is_told(str(caught.value), what, places[what])


@pytest.mark.parametrize("verb", [("show", "last"), ("whatif", "--workflow", "flow", "--until", "score >= 0.3")])
def test_a_store_that_is_away_is_taken_for_no_bad_run(
    verb: Sequence[str], places: Mapping[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: object, **__: object) -> None:
        raise StoreError("the store is away")

    monkeypatch.setattr(EventStore, "entries", gone)
    monkeypatch.setattr(EventStore, "read", gone)
    refused = call(*verb)
    assert (refused.code, one_line(refused)) == (5, "the store is away")
