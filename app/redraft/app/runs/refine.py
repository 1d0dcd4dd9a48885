"""`await refine(workflow, brief)`: one run in this process, from brief to result."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from redraft.actors.workflow.workflow import Workflow, pin_versions
from redraft.app.client.client import Client
from redraft.app.client.result import Result, as_brief
from redraft.app.models.configuration import actor_keys, check_models, models_of
from redraft.app.process.files import read_at_most
from redraft.app.settings.settings import Settings, read_settings
from redraft.app.wiring.local import LocalRuntime, open_local
from redraft.app.workflows.actor_registry import build_actor_registry
from redraft.app.workflows.publish_targets import ActorEnvironment
from redraft.app.workflows.sources import prepare
from redraft.events.errors import CodecError, ContentError, InputError, RedraftError, SetAside, Tampered
from redraft.events.messages.codec import UNREADABLE
from redraft.events.messages.commands import StartRun
from redraft.events.messages.content import MAX_DRAFT_BYTES, Brief, Files, checked
from redraft.events.messages.plan import Plan
from redraft.events.messages.run_state import Values
from redraft.events.messages.tags import check_tags


async def refine(
    workflow: Workflow,
    brief: Brief | str,
    *,
    key: str = "",
    tags: Iterable[str] = (),
    state: Values | None = None,
    settings: Settings | None = None,
) -> Result:
    """Runs a workflow for a brief and gives the result; every step is recorded in the store of the settings.

    With the same `key` it is the same run: one that was interrupted goes on, one that has ended gives its result
    again. `tags` are words to find it by, `state` are values with which its state begins. Actors that ship with Redraft
    are there for a plan that names them, such as `step("llm", role="critic")`; where a step names no model, that of the
    settings is asked, and kept with the run.
    Raises PlanError for a faulty plan, ActorError for an actor that nobody provides, ContentError for a brief that is
    empty or too large, InputError for a tag that is none, for values that the plan's state does not have, for a key
    that was used for something else, where a model is wanted and none is configured, and for a budget of money where
    nobody knows what a model costs, StoreError.
    """
    chosen = settings or read_settings()
    models = models_of(chosen)
    environment = ActorEnvironment(sys.stdout, Path.cwd(), models=models, webhook_hosts=chosen.webhook_hosts)
    actors = build_actor_registry(workflow.plan, workflow.actors.values(), environment)
    own = actor_keys(workflow.actors.values())
    check_models(workflow.plan, models, own)
    plan = pin_versions(prepare(workflow.plan, as_brief(brief), models, own), actors)
    async with open_local(chosen, actors) as runtime:
        return await refine_on(runtime.client, plan, brief, key=key, tags=tags, state=state)


async def refine_on(
    client: Client,
    workflow: Workflow | Plan,
    brief: Brief | str,
    *,
    key: str,
    tags: Iterable[str] = (),
    state: Values | None = None,
    by: str = "refine",
) -> Result:
    """Submits a run to a client and gives its result. Raises InputError for a key that another brief has, too."""
    sent: list[StartRun] = []
    run = await client.submit(workflow, brief, key=key, tags=tags, state=state, by=by, sent=sent.append)
    await client.require_own(sent[0])
    return await client.wait(run)


CONCURRENCY: Final = 16
"""The number of runs that go on at the same time, by default."""

MAX_BYTES: Final = 512 * 1024 * 1024
"""The size of a file of briefs above which it is refused."""

_FORM: Final = 'write a text in quotes, or an object: {"text": "…", "id": "…", "tags": ["…"]}'


class Item(msgspec.Struct, frozen=True):
    """A brief of a batch: its `line` in the file (from 1), and its `id`, the line's number unless the file names one.

    `seed` tells its key from those of others: the id that the file names, or which of several equal texts it is.
    """

    line: int
    id: str
    brief: Brief
    tags: tuple[str, ...] = ()
    seed: str = ""


class Ended(msgspec.Struct, frozen=True):
    """The end of one brief of a batch. `end` is the result of its run, or the error because of which there is none.

    The error is SetAside, CodecError or Tampered for a run that was set aside or cannot be read, and InputError for a
    brief that was refused. `run` is the run's id; empty if none was begun.
    """

    line: int
    id: str
    run: str
    end: Result | RedraftError


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    id: str = ""
    media_type: str = "text/plain"
    source: str = ""
    tags: tuple[str, ...] = ()
    state: Values = {}


def read_batch(path: Path, limit: int = MAX_DRAFT_BYTES, tags: tuple[str, ...] = ()) -> tuple[Item, ...]:
    """The briefs of a JSON Lines file, each a text or an object. `limit` is the largest in bytes; all get the `tags`.

    Raises InputError naming the line and the remedy.
    """
    try:
        lines = read_at_most(path, MAX_BYTES).split(b"\n")
    except ValueError as error:
        raise InputError(f"{path}: {error}; split it") from None
    except OSError as error:
        raise InputError(f"--batch {path}: {error.strerror}; name a file with a brief on each line") from None
    items = tuple(_item(path, number, line, limit, tags) for number, line in enumerate(lines, 1) if line.strip())
    if not items:
        raise InputError(f"--batch {path}: there is no brief in it; {_FORM}")
    seen: dict[str, int] = {}
    for item in items:
        if seen.setdefault(item.id, item.line) != item.line:
            raise InputError(f"{path}:{item.line}: the id {item.id!r} is that of line {seen[item.id]}; name another")
    return seed_items(items)


def seed_items(items: Sequence[Item]) -> tuple[Item, ...]:
    """The items with their seeds, which stay the same when lines are put between them."""
    times: Counter[str] = Counter()
    seeded = []
    for item in items:
        times[item.brief.text] += 1
        number = f"#{times[item.brief.text]}"
        seeded.append(msgspec.structs.replace(item, seed=number if item.id == str(item.line) else item.id))
    return tuple(seeded)


def _item(path: Path, number: int, line: bytes, limit: int, tags: tuple[str, ...]) -> Item:
    try:
        decoded = msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"), type=str | _Written)
        item = _Written(decoded) if isinstance(decoded, str) else decoded
        checked(item.text, "brief", limit)
        own = check_tags((*tags, *item.tags))
    except UNREADABLE as error:
        raise InputError(f"{path}:{number}: {error}; {_FORM}") from None
    except (ContentError, InputError) as error:
        raise InputError(f"{path}:{number}: {error}") from None
    brief = Brief(item.text, item.media_type, item.source, item.state)
    return Item(number, item.id or str(number), brief, own)


def key_of(plan: Plan, item: Item, prefix: str = "") -> str:
    """The key of a brief's run: the same for the same workflow, text, seed and values of its state."""
    state = (item.brief.state,) if item.brief.state else ()
    written = msgspec.json.encode((plan, item.seed, item.brief.text, *state))
    return f"{prefix or 'batch'}/{sha256(written).hexdigest()[:32]}"


async def run_batch(
    runtime: LocalRuntime,
    plan: Plan,
    items: Sequence[Item],
    keys: Sequence[str],
    concurrency: int,
    ended: Callable[[Ended], None],
    files: Files = Files(),  # noqa: B008 - frozen
) -> None:
    """Runs all briefs, `concurrency` (at least 1) of them at a time; `ended` is told of each as it ends.

    One that is refused or set aside ends so, and the others go on. `files`, which a run of this process alone keeps,
    name the files of its functions.
    """
    client = runtime.client
    waiting = iter(zip(items, keys, strict=True))

    async def end_of(item: Item, key: str) -> Ended:
        run, sent, by = "", list[StartRun](), "redraft run --batch"
        try:
            run = await client.submit(plan, item.brief, key=key, tags=item.tags, by=by, files=files, sent=sent.append)
            await client.require_own(sent[0])
            return Ended(item.line, item.id, run, await client.wait(run))
        except InputError as error:
            return Ended(item.line, item.id, "", error)
        except (SetAside, CodecError, Tampered) as error:
            return Ended(item.line, item.id, run, error)

    async def work() -> None:
        for item, key in waiting:
            ended(await end_of(item, key))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(items))):
            group.create_task(work())
