"""To which queue of the inbox answers go, by the turns of a coordinator."""

from __future__ import annotations

from redraft.actors.runtime.coordinating.answer_routes import AnswerRoutes
from redraft.events.bus.port import partition_of
from redraft.events.shares import Turn

RUN = "run-1"


def test_answers_go_to_the_partition_of_their_run_until_a_turn_says_who_reads_what() -> None:
    assert partition_of(RUN, 4) == 3
    routes = AnswerRoutes(4)
    assert routes.key(RUN) == "inbox.3"
    assert routes.queues(RUN) == {"redraft.inbox.3"}
    routes.follow(Turn((0, 1), (), (0, 0, 2, 2)))
    assert routes.key(RUN) == "inbox.2"
    assert routes.queues(RUN) == {"redraft.inbox.2", "redraft.inbox.3"}


def test_a_partition_that_no_turn_knows_yet_has_its_own_answers() -> None:
    routes = AnswerRoutes(4)
    routes.follow(Turn((0, 1), (), (0, 0)))
    assert routes.key(RUN) == "inbox.3"


def test_an_inbox_without_partitions_gets_all_answers() -> None:
    routes = AnswerRoutes(0)
    routes.follow(Turn((0, 1), (), (0, 0)))  # there were partitions once: they are read, and get nothing new
    assert routes.key(RUN) == ""
    assert routes.queues(RUN) == frozenset()
