"""Who may say what, by the users that the broker knows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from redraft.actors.runtime.admission import Authority
from redraft.app.settings.settings import read_settings
from redraft.events.errors import InputError
from redraft.events.messages.commands import (
    CancelRun,
    ConfirmStep,
    EraseRun,
    ExpireStep,
    Generated,
    Message,
    PauseRun,
    QuarantineRun,
    RetryStep,
    StartRun,
    StrikeLesson,
)
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import StepRequested
from redraft.events.messages.plan import Plan, Role, Step

AUTHORITY = Authority("me", {"ann": ["operator"], "judge": ["critic.judge", "critic.second.look"], "all": ["critic"]})
PLAN = Plan("p", (Step("generator", "write", "write"),))
WORDS: list[Message] = [
    StartRun("r", PLAN, Brief("b")),
    CancelRun("r", "why"),
    PauseRun("r"),
    EraseRun("r", "ann"),
    QuarantineRun("r", "ann", "why"),
    StrikeLesson("r", "a1", "ann"),
]


def asked(role: Role, actor: str) -> StepRequested:
    return StepRequested("path", role, actor, 1, datetime(2026, 3, 1, tzinfo=UTC))


@pytest.mark.parametrize("word", WORDS)
def test_only_operators_and_coordinators_say_what_people_say(word: Message) -> None:
    for user in ("ann", "me"):
        AUTHORITY.require(user, word)
    for user in ("judge", "all", "nobody", ""):
        with pytest.raises(InputError, match="is not an operator: the coordinators' setting `users` says who is"):
            AUTHORITY.require(user, word)


@pytest.mark.parametrize("word", [RetryStep("r", "path", 1), ExpireStep("r", "path", 1)])
def test_only_coordinators_keep_time(word: Message) -> None:
    AUTHORITY.require("me", word)
    with pytest.raises(InputError, match="the user 'ann' may not send timer messages: only coordinators may"):
        AUTHORITY.require("ann", word)


@pytest.mark.parametrize("answer", [Generated("r", "path", 1, "a"), ConfirmStep("r", "path", 1, 1)])
def test_of_answers_the_request_decides(answer: Message) -> None:
    AUTHORITY.require("nobody", answer)


@pytest.mark.parametrize(
    ("role", "actor", "users"),
    [
        ("critic", "judge", {"me", "judge", "all"}),
        ("critic", "second.look", {"me", "judge", "all"}),
        ("critic", "jud", {"me", "all"}),
        ("refiner", "judge", {"me"}),
    ],
)
def test_an_answer_is_taken_from_who_stands_for_the_actor(role: Role, actor: str, users: set[str]) -> None:
    everybody = ("me", "ann", "judge", "all", "nobody", "")
    assert {user for user in everybody if not AUTHORITY.refusal(user, asked(role, actor))} == users
    told = (
        f"a message that names no user may not answer for the {role} {actor!r}: the coordinators' setting `users` says"
    )
    assert AUTHORITY.refusal("", asked(role, actor)).startswith(told)


@pytest.mark.parametrize("part", ["critics", "operator.ann", "critic.", ".judge", ""])
def test_what_a_user_cannot_stand_for_is_refused_where_it_is_set(part: str) -> None:
    with pytest.raises(
        InputError, match=r"user 'ann' the right .*, which is none: give operator, a role \(generator, critic, "
    ):
        read_settings(users={"ann": [part]})
