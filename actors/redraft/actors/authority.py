"""Checks that the user who sent a message may send it: workers for their actors, operators for people.

The broker vouches for the user of each message. A user stands for `operator`, for a role (`critic`) or for one actor
(`critic.judge`). The coordinators' own user may say everything: what fails or falls due they say to themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, get_args

from redraft.actors.values import shown
from redraft.events.commands import ANSWERS, ExpireStep, Message, RetryStep
from redraft.events.domain_events import StepRequested
from redraft.events.errors import InputError
from redraft.events.plan import Role

OPERATOR: Final = "operator"

_ROLES: Final = get_args(Role)


def require_parts(user: str, parts: Sequence[str]) -> None:
    """Raises InputError when a user is said to stand for what there is not."""
    for part in parts:
        role, dot, actor = part.partition(".")
        if part != OPERATOR and (role not in _ROLES or bool(dot) != bool(actor)):
            forms = f"{OPERATOR}, a role ({', '.join(_ROLES)}) or an actor such as critic.judge"
            raise InputError(f"user {user[:100]!r} stands for {part[:100]!r}: name {forms}")


class Authority:
    """`me` is the coordinators' user; `users` says for what each of the others stands."""

    def __init__(self, me: str, users: Mapping[str, Sequence[str]]) -> None:
        self._me = me
        self._parts = {user: frozenset(parts) for user, parts in users.items()}

    def require(self, user: str, message: Message) -> None:
        """Raises InputError when a user may not say this, whatever the run; of answers, the request decides."""
        if user == self._me or isinstance(message, ANSWERS):
            return
        if isinstance(message, RetryStep | ExpireStep):
            raise InputError(f"{_named(user)} may not keep time: only coordinators do")
        if OPERATOR not in self._parts.get(user, ()):
            raise InputError(f"{_named(user)} is no operator: the coordinators' setting `users` says who is")

    def refusal(self, user: str, asked: StepRequested) -> str:
        """Why a user may not answer a request; empty when it may."""
        parts = self._parts.get(user, ())
        if user == self._me or asked.role in parts or f"{asked.role}.{asked.actor}" in parts:
            return ""
        whom = f"the {asked.role} {shown(asked.actor)}"
        return f"{_named(user)} may not answer for {whom}: the coordinators' setting `users` says who may"


def _named(user: str) -> str:
    return f"the user {shown(user)}" if user else "a message that names no user"
