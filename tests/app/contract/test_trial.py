"""`redraft contract --check` tries workers: ours, one in JavaScript, and strangers that get the contract wrong."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import aio_pika
import pytest
from tests.app.cli_calls import call, one_line
from tests.app.deployments import DEADLINE, Deployment, deployment
from tests.app.node import LIBRARIES, ROOT, installed
from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq

from redraft.events.bus.port import INBOX, Depth, work_queue
from redraft.events.messages.plan import Role
from redraft.events.rabbit.survey import Survey
from redraft.events.rabbit.topology import Names

GUIDE = ROOT / "docs/other-languages.md"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as made:
        yield made


def tried(there: Deployment, actor: str, *options: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of a check, and what came of each request."""
    said = there.call("contract", "--check", actor, "--json", *options)
    assert said.err == ""
    return said.code, json.loads(said.out)["tried"]


def test_our_own_worker_fits(there: Deployment) -> None:
    there.settings = {"REDRAFT_REQUEST_BATCH_SIZE": "4"}
    there.start("worker", "worker", "loop.py:judge", "loop.py:write", "loop.py:improve", "loop.py:save")
    for actor, outcome in {"critic.judge": "critiqued", "generator.write": "generated"}.items():
        code, found = tried(there, actor)
        assert code == 0, found
        assert [each["answer"] for each in found] == [
            *[f"outcome.{outcome}.v1"] * 2,
            "step.confirm.v1",
            *[f"outcome.{outcome}.v1"] * 3,
        ]
    for actor in ("refiner.improve", "publisher.save"):
        said = there.call("contract", "--check", actor)
        assert said.code == 0, said.out
        assert len(said.out.splitlines()) == 6
        assert all(line.startswith("ok     ") for line in said.out.splitlines())


STEPS = """
from redraft.actors import WithState, condition, critic, step

@step(writes=["words"], isolation="process")
def count(draft, critique, history, context):
    return {"words": len(draft.text.split()), "said": critique.score} if "said" in context.state else {"words": 7}

@condition(isolation="process")
def long_enough(facts):
    return facts.score >= 0.5 and len(facts.draft.text) > 1000 or f"{facts.draft.text!r} is short"

@critic
def judge(draft):
    return WithState("say more", {"judged": draft.version})
"""


@pytest.mark.check
def test_our_own_worker_serves_free_steps_and_conditions(there: Deployment) -> None:
    (there.folder / "steps.py").write_text(STEPS)
    there.start("worker", "worker", "steps.py:count", "steps.py:long_enough", "steps.py:judge")
    for actor, outcome in {
        "step.count": "completed",
        "critic.long_enough": "critiqued",
        "critic.judge": "critiqued",
    }.items():
        code, found = tried(there, actor)
        assert code == 0, found
        answers = [each["answer"] for each in found]
        assert answers == [*[f"outcome.{outcome}.v1"] * 2, "step.confirm.v1", f"outcome.{outcome}.v1"]


class Stranger:
    """An actor that sends what `answer` makes of a command: bodies, each with its headers and other properties.

    Where that is None, it goes away with the command.
    """

    def __init__(self, prefix: str, answer: Any, role: Role) -> None:
        self._prefix = prefix
        self._answer = answer
        self._role = role
        self._ready, self._over = Event(), Event()
        self._thread = Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        names = Names(self._prefix)
        queue = names.there(work_queue(self._role, "stranger"))
        stated = json.loads(call("contract", "--json").out)["channels"]["work"]["bindings"]["amqp"]["queue"]
        arguments = stated["x-arguments"] | {"x-dead-letter-routing-key": names.dead_letters}
        async with await aio_pika.connect(URL) as connection:
            channel = await connection.channel()
            incoming = await channel.declare_exchange(names.incoming, durable=True)
            commands = await channel.declare_exchange(names.commands, durable=True)
            work = await channel.declare_queue(queue, durable=True, arguments=arguments)
            await work.bind(commands, f"{self._role}.stranger")

            async def work_on(message: aio_pika.abc.AbstractIncomingMessage) -> None:
                answers = self._answer(json.loads(message.body), message)
                if answers is None:
                    self._over.set()
                    return
                for body, headers, properties in answers:
                    given = {"delivery_mode": 2, **properties}
                    await incoming.publish(aio_pika.Message(body, headers=headers, **given), "inbox")
                await message.ack()

            await work.consume(work_on)
            self._ready.set()
            await asyncio.to_thread(self._over.wait)

    def __enter__(self) -> Stranger:
        self._thread.start()
        assert self._ready.wait(DEADLINE)
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()


def right(command: dict[str, Any], message: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The body and the headers of a good answer."""
    request, draft = command["request"], command["draft"]
    body = {
        **{name: request[name] for name in ("run", "path", "attempt")},
        "draft": {name: draft[name] for name in ("version", "sha256")},
        "critique": {"score": 0.5, "critic": "stranger"},
    }
    attributes = {
        "specversion": "1.0",
        "id": f"answer to {message.headers['cloudEvents:id']}",
        "source": "/redraft/critic%20stranger",
        "type": "outcome.critiqued.v1",
        "subject": request["run"],
        "causationid": message.headers["cloudEvents:id"],
    }
    return body, {f"cloudEvents:{name}": value for name, value in attributes.items()}


def changed(
    body: dict[str, Any] | None = None, headers: dict[str, Any] | None = None, raw: bytes | None = None, **more: Any
) -> Any:
    """A good answer with these changes; None takes a header out."""

    def answer(command: dict[str, Any], message: Any) -> list[tuple[bytes, dict[str, Any], dict[str, Any]]]:
        good, named = right(command, message)
        put = named | {f"cloudEvents:{name}": value for name, value in (headers or {}).items()}
        kept = {name: value for name, value in put.items() if value is not None}
        return [(json.dumps(good | (body or {})).encode() if raw is None else raw, kept, more)]

    return answer


def with_underscores(command: dict[str, Any], message: Any) -> list[tuple[bytes, dict[str, Any], dict[str, Any]]]:
    body, headers = right(command, message)
    return [(json.dumps(body).encode(), {n.replace(":", "_"): v for n, v in headers.items()}, {})]


def structured(command: dict[str, Any], message: Any) -> list[tuple[bytes, dict[str, Any], dict[str, Any]]]:
    body, headers = right(command, message)
    whole = {name.removeprefix("cloudEvents:"): value for name, value in headers.items()} | {"data": body}
    return [(json.dumps(whole).encode(), {}, {"content_type": "application/cloudevents+json"})]


@contextmanager
def stranger(answer: Any, role: Role = "critic") -> Iterator[str]:
    require_rabbitmq()
    prefix = new_prefix()
    try:
        with Stranger(prefix, answer, role):
            yield prefix
    finally:
        asyncio.run(clear(URL, prefix, [work_queue(role, "stranger"), INBOX]))


def checked(monkeypatch: pytest.MonkeyPatch, prefix: str, *options: str, role: Role = "critic") -> Any:
    monkeypatch.setenv("REDRAFT_BUS", URL)
    monkeypatch.setenv("REDRAFT_BROKER_PREFIX", prefix)
    return call("contract", "--check", f"{role}.stranger", "--timeout", "20", *options)


@pytest.mark.parametrize("answer", [changed(), with_underscores, structured])
def test_a_stranger_that_follows_the_contract_fits(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with stranger(answer) as prefix:
        said = checked(monkeypatch, prefix)
    assert (said.code, said.err) == (0, ""), said.out
    assert said.out.count("outcome.critiqued.v1") == 3


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (changed(headers={"specversion": None}), "its headers: 'cloudEvents:specversion' is a required property"),
        (changed(headers={"id": ""}), "its headers: cloudEvents:id: '' should be non-empty"),
        (changed(headers={"type": "critiqued"}), "is answered by outcome.critiqued.v1 or outcome.failed.v1 or step."),
        (changed(headers={"type": "outcome.refined.v1"}), "draft.critique.v1 is answered by outcome.critiqued.v1 or"),
        (changed(headers={"subject": "another"}), "its header cloudEvents:subject is 'another'; give the run, '"),
        (
            changed(headers={"causationid": None}),
            "its header cloudEvents:causationid is ''; give the cloudEvents:id of",
        ),
        (changed(raw=b"no JSON"), "its body is not JSON"),
        (changed(raw=b"[" * 50_000), "its body is not JSON"),
        (changed({"critique": {"score": 7, "critic": "stranger"}}), "its body: critique.score: 7 is greater than the"),
        (changed({"critique": {"critic": "stranger"}}), "its body: critique: 'score' is a required property"),
        (changed({"critique": {"score": 1}}), "its body: critique.critic is ''; give the actor, 'stranger'"),
        (
            changed({"critique": {"score": 1, "critic": "stranger", "issues": [{"text": "x", "quote": "a czech"}]}}),
            "a coordinator refuses it: quoted 'a czech', which is not in the draft; quote it word by word",
        ),
        (changed({"attempt": 9}), "its body: attempt is 9; the request has 1"),
        (changed({"draft": {"version": 1, "sha256": "0" * 64}}), "its body: draft is {'version': 1, 'sha256': '000"),
        (changed(delivery_mode=1), "it is not persistent (delivery mode 2): the broker would lose it when it restarts"),
        (
            changed({"kind": "error", "message": "no idea"}, {"type": "outcome.failed.v1"}),
            "the work failed, so its outcome could not be checked: error: no idea",
        ),
    ],
)
def test_what_is_wrong_is_said_in_plain_lines(answer: Any, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with stranger(answer) as prefix:
        said = checked(monkeypatch, prefix)
    assert (said.code, said.err) == (1, "")
    assert says in said.out
    assert said.out.startswith("wrong  a request: ")


def step_answer(state: object, **other: Any) -> Any:
    """The answer of a free step that changes these values of the state."""

    def answer(command: dict[str, Any], message: Any) -> list[tuple[bytes, dict[str, Any], dict[str, Any]]]:
        assert command["draft"]["text"] == "This is a check of the contract."
        body, named = right(command, message)
        kept = {name: body[name] for name in ("run", "path", "attempt")} | {"state": state} | other
        named |= {"cloudEvents:type": "outcome.completed.v1", "cloudEvents:source": "/redraft/step%20stranger"}
        return [(json.dumps(kept).encode(), named, {})]

    return answer


def test_a_stranger_that_serves_a_free_step_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    with stranger(step_answer({"sources": ["tides.org"], "checked": True}), "step") as prefix:
        said = checked(monkeypatch, prefix, role="step")
    assert (said.code, said.err) == (0, ""), said.out
    assert said.out.count("outcome.completed.v1") == 3


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (changed(), "step.run.v1 is answered by outcome.completed.v1 or outcome.failed.v1 or step.confirm.v1"),
        (step_answer(["sources"]), "its body: state: ['sources'] is not of type 'object'"),
        (step_answer({}, attempt=9), "its body: attempt is 9; the request has 1"),
        (step_answer({"two words": 1}), "a coordinator refuses it: changes the state: 'two words' cannot name a value"),
        (step_answer({"much": "x" * 300_000}), "a coordinator refuses it: changes the state: the state has 300,0"),
    ],
)
def test_what_is_wrong_with_the_answer_of_a_free_step(answer: Any, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with stranger(answer, "step") as prefix:
        said = checked(monkeypatch, prefix, role="step")
    assert (said.code, said.err) == (1, "")
    assert says in said.out


def test_a_critic_may_change_the_state_beside_its_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    with stranger(changed({"state": {"longest": 12}})) as prefix:
        assert checked(monkeypatch, prefix).code == 0
    with stranger(changed({"state": {"class": 12}})) as prefix:
        assert "changes the state: 'class' cannot name a value" in checked(monkeypatch, prefix).out


class InboxReader:
    """Reads the inbox, as the check before may still do by the broker's count, until it is told to leave."""

    def __init__(self, prefix: str) -> None:
        self._queue = Names(prefix).there(INBOX)
        self._reads, self._leaves, self.left = Event(), Event(), Event()
        self._thread = Thread(target=lambda: asyncio.run(self._read()), daemon=True)

    async def _read(self) -> None:
        async with await aio_pika.connect(URL) as connection:
            queue = await (await connection.channel()).get_queue(self._queue)
            await queue.consume(aio_pika.abc.AbstractIncomingMessage.nack)
            self._reads.set()
            await asyncio.to_thread(self._leaves.wait)
        self.left.set()

    def leave(self) -> None:
        self._leaves.set()
        assert self.left.wait(DEADLINE)

    def __enter__(self) -> InboxReader:
        self._thread.start()
        assert self._reads.wait(DEADLINE)
        return self

    def __exit__(self, *exception: object) -> None:
        self._leaves.set()
        self._thread.join()


@contextmanager
def looks(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object] = lambda: None) -> Iterator[list[int]]:
    """The numbers of readers of the inbox that a check sees, look by look; after the first one `then` is called."""
    seen: list[int] = []
    look = Survey.queue

    async def noting(self: Survey, name: str) -> Depth | None:
        found = await look(self, name)
        if name == INBOX and found is not None:
            seen.append(found.consumers)
            if len(seen) == 1:
                await asyncio.to_thread(then)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Survey, "queue", noting)
        yield seen


@pytest.mark.check
def test_one_check_right_after_the_other_waits_for_its_reader_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    with stranger(changed()) as prefix:
        for _ in range(2):
            assert checked(monkeypatch, prefix).code == 0
        with InboxReader(prefix) as reader, looks(monkeypatch, reader.leave) as seen:
            said = checked(monkeypatch, prefix)
    assert (said.code, said.err) == (0, ""), said.out
    assert seen[0] > 0, "the reader of the check before was there"
    assert seen[-1] == 0


@pytest.mark.check
def test_a_reader_that_never_goes_is_reported_in_one_line_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    with stranger(changed()) as prefix:
        assert checked(monkeypatch, prefix).code == 0
        with InboxReader(prefix) as reader, looks(monkeypatch) as seen:
            said = checked(monkeypatch, prefix)
            assert not reader.left.is_set()
    assert (said.code, said.out) == (2, "")
    assert f"a coordinator reads {prefix}.inbox, and would take the answers; give the worker" in one_line(said)
    assert len(seen) > 2, "it looked again and again before it said so"
    assert all(seen)


def test_an_answer_that_does_not_come_and_one_that_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    with stranger(lambda command, message: []) as prefix:
        said = checked(monkeypatch, prefix, "--timeout", "0.5")
    assert (said.code, said.out) == (1, "wrong  a request\n       no answer came within 0.5 s\n")

    def twice(command: dict[str, Any], message: Any) -> Any:
        return changed()(command, message) * 2

    with stranger(twice) as prefix:
        said = checked(monkeypatch, prefix)
    assert said.code == 1
    assert "it answers attempt 1 once more; a request has one answer" in said.out


async def waiting(queue: str) -> int:
    async with await aio_pika.connect(URL) as connection:
        found = await (await connection.channel()).declare_queue(queue, passive=True)
        return found.declaration_result.message_count or 0


@pytest.mark.check
def test_what_a_worker_left_in_its_queue_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with stranger(lambda command, message: None) as prefix:
        said = checked(monkeypatch, prefix, "--timeout", "5")
        assert (said.code, said.out) == (1, "wrong  a request\n       no answer came within 5 s\n")
        assert asyncio.run(waiting(f"{prefix}.critic.stranger")) == 0


def test_nobody_serves_the_actor(there: Deployment) -> None:
    code, [found] = tried(there, "critic.nobody", "--timeout", "0.3")
    assert code == 1
    assert found["faults"][0].startswith(f"nobody reads {there.prefix}.critic.nobody: start the worker, with the ")


@pytest.mark.check
def test_a_check_beside_a_coordinator_is_refused(there: Deployment) -> None:
    there.start("coordinator", "coordinator")
    there.serving("coordinator")
    there.until("it reads the inbox", lambda: there.call("contract", "--check", "critic.judge").code == 2)
    said = there.call("contract", "--check", "critic.judge")
    assert said.code == 2
    assert f"a coordinator reads {there.prefix}.inbox, and would take the answers" in one_line(said)


def test_a_check_where_messages_wait_is_refused(there: Deployment) -> None:
    there.submit()
    said = there.call("contract", "--check", "critic.judge")
    assert said.code == 2
    assert f"1 messages wait in {there.prefix}.inbox; give the worker and the check names of their own" in one_line(
        said
    )


@pytest.mark.parametrize(
    ("actor", "bus", "code", "says"),
    [
        (
            "judge",
            URL,
            2,
            "--check judge: give the role and the name of an actor, as critic.judge; roles are generator",
        ),
        ("critics.judge", URL, 2, "roles are generator, critic, refiner, publisher, step"),
        ("critic.judge", "local:", 2, "setting 'bus': local: is inside one process"),
        ("critic.judge", "amqp://127.0.0.1:1", 5, "cannot reach RabbitMQ at 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_checked_is_told_in_one_line(
    actor: str, bus: str, code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDRAFT_BUS", bus)
    said = call("contract", "--check", actor)
    assert (said.code, said.out) == (code, "")
    assert says in one_line(said)


@contextmanager
def documented(there: Deployment) -> Iterator[None]:
    """The critic of the guide in JavaScript, which knows the contract alone."""
    [program] = re.findall(r"```js\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(program.splitlines()) <= 40
    folder = installed(LIBRARIES, there.folder)
    (folder / "critic.mjs").write_text(program)
    (folder / "contract.json").write_text(there.call("contract", "--json").out)
    environment = {**os.environ, "REDRAFT_BUS": URL}
    with subprocess.Popen(["node", "critic.mjs"], cwd=folder, env=environment) as process:
        try:
            yield
        finally:
            process.kill()


@pytest.mark.check
@pytest.mark.parametrize("queues", ["quorum", "classic"])
def test_the_critic_in_javascript_fits_and_works_in_a_workflow(tmp_path: Path, queues: Any) -> None:
    with deployment(tmp_path, queues=queues) as there, documented(there):
        code, found = tried(there, "critic.sentences")
        assert code == 0, found
        there.start("coordinator", "coordinator")
        there.start("worker", "worker", "source")
        [plan] = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
        (tmp_path / "short.yaml").write_text(plan)
        essay = "Short. " + "word " * 30 + "end. Short again."
        said = there.call("submit", "short.yaml", essay, "--wait", "--json")
        assert said.code == 0, said.err
        [critique] = [
            e.data.critique for e in there.history(json.loads(said.out)["run"]) if hasattr(e.data, "critique")
        ]
        assert (critique.critic, critique.score) == ("sentences", 0.5)
        (issue,) = critique.issues
        assert (issue.text, issue.severity, essay[slice(*issue.span)]) == ("split this sentence", "note", issue.quote)
        assert critique.suggestions == (f"“{issue.quote}”: split this sentence",)
