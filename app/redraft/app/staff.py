"""Who works in a plan: the user's own actors, and those that ship with Redraft."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from redraft.actors.plan_paths import steps_in
from redraft.actors.roles import Actor, Seat
from redraft.app.builtin.options import nearest
from redraft.app.models import Models
from redraft.app.outlets import Outlets, file_actor, stdout_actor
from redraft.events.errors import ActorError
from redraft.events.plan import Plan

SHIPPED: Final[tuple[Seat, ...]] = (
    ("generator", "command"),
    ("generator", "llm"),
    ("generator", "source"),
    ("critic", "agreement"),
    ("critic", "command"),
    ("critic", "forbidden-words"),
    ("critic", "json-schema"),
    ("critic", "length"),
    ("critic", "llm"),
    ("critic", "pattern"),
    ("critic", "prose"),
    ("critic", "pytest"),
    ("critic", "python"),
    ("critic", "ruff"),
    ("critic", "sql"),
    ("critic", "verify"),
    ("refiner", "command"),
    ("refiner", "llm"),
    ("refiner", "prose-fix"),
    ("refiner", "ruff-fix"),
    ("publisher", "file"),
    ("publisher", "git"),
    ("publisher", "html"),
    ("publisher", "pdf"),
    ("publisher", "stdout"),
    ("publisher", "webhook"),
)
"""The actors that ship with Redraft. Each is made available only to a plan that names it."""


def staff(plan: Plan, own: Iterable[Actor], outlets: Outlets) -> tuple[Actor, ...]:
    """An actor for every step of a plan: the user's own first, then shipped ones, of which only those named are made.

    Raises ActorError when a step's actor is provided by nobody, or by two different functions of the user's.
    """
    mine: dict[Seat, list[Actor]] = {}
    for actor in own:
        same = mine.setdefault((actor.role, actor.name), [])
        if actor not in same:
            same.append(actor)
    found: dict[Seat, Actor] = {}
    for path, step in steps_in(plan.steps):
        seat = (step.role, step.actor)
        if seat not in found:
            found[seat] = _seated(path, seat, mine, outlets)
    return tuple(found.values())


def _seated(path: str, seat: Seat, mine: dict[Seat, list[Actor]], outlets: Outlets) -> Actor:
    match mine.get(seat, []):
        case [actor]:
            return actor
        case []:
            if seat not in SHIPPED:
                raise ActorError(f"{path}: {_nobody(seat, [*mine, *SHIPPED])}")
            return _shipped(seat, outlets)
        case _:
            raise ActorError(f"{path}: two different {seat[0]}s are named {seat[1]!r}; give one of them another name=")


def _nobody(seat: Seat, known: Sequence[Seat]) -> str:
    role, name = seat
    if others := [other for other, named in known if named == name]:
        return f"{name} is a {others[0]}, and the plan wants a {role} of this name; name another actor"
    same = sorted({named for other, named in known if other == role})
    where = "name the file of its function, with --workflow file.py:name or --actors file.py"
    return f"there is no {role} {name!r}; {nearest(name, same)}, or {where}"


def _shipped(seat: Seat, outlets: Outlets) -> Actor:
    role, name = seat
    match role:
        case "publisher":
            return _publisher(name, outlets)
        case "generator" | "critic" | "refiner":
            return next(actor for actor in _module(name, outlets.models) if (actor.role, actor.name) == seat)
        case _:
            assert_never(role)


def _publisher(name: str, outlets: Outlets) -> Actor:
    match name:
        case "stdout":
            return stdout_actor(outlets.stream, outlets.before)
        case "html":
            from redraft.app.builtin.publish_web import html_publisher

            return html_publisher(outlets.folder)
        case "webhook":
            from redraft.app.builtin.publish_web import webhook_publisher

            return webhook_publisher(outlets.webhook_hosts)
        case "git":
            from redraft.app.builtin.publish_git import git_publisher

            return git_publisher(outlets.folder)
        case "pdf":
            from redraft.app.builtin.publish_pdf import pdf_publisher

            return pdf_publisher(outlets.folder)
        case _:
            return file_actor(outlets.folder)


def _module(name: str, models: Models) -> tuple[Actor, ...]:
    """The actors that ship in one module with the actor of this name; no other module is imported."""
    match name:
        case "source":
            from redraft.app.builtin.source import source

            return (source,)
        case "command":
            from redraft.app.builtin.command import command_critic, command_generator, command_refiner

            return command_critic, command_generator, command_refiner
        case "ruff" | "ruff-fix":
            from redraft.app.builtin.ruff_actors import ruff_critic, ruff_refiner

            return ruff_critic, ruff_refiner
        case "llm":
            from redraft.app.builtin.llm import llm_critic, llm_generator, llm_refiner

            return llm_generator(models), llm_critic(models), llm_refiner(models)
        case "verify":
            from redraft.app.builtin.verify import verify_critic

            return (verify_critic(models),)
        case "agreement":
            from redraft.app.builtin.agreement import agreement_critic

            return (agreement_critic,)
        case "length" | "forbidden-words" | "pattern":
            from redraft.app.builtin.gate_text import length_critic, pattern_critic, words_critic

            return length_critic, words_critic, pattern_critic
        case "json-schema" | "python":
            from redraft.app.builtin.gate_program import python_critic, schema_critic

            return schema_critic, python_critic
        case "sql":
            from redraft.app.builtin.gate_sql import sql_critic

            return (sql_critic,)
        case "pytest":
            from redraft.app.builtin.pytest_actor import pytest_critic

            return (pytest_critic,)
        case _:
            from redraft.app.builtin.prose import prose_critic, prose_refiner

            return prose_critic, prose_refiner
