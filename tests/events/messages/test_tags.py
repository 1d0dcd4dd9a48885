"""Tags: what can be one, and that a message with another is refused wherever it comes from."""

from __future__ import annotations

import msgspec
import pytest

from redraft.events.errors import CodecError, InputError
from redraft.events.messages.codec import decode_message
from redraft.events.messages.commands import StartRun
from redraft.events.messages.content import Brief
from redraft.events.messages.plan import Plan
from redraft.events.messages.tags import check_tags

GOOD = ("spring", "v1.2", "team/docs", "for:ann", "A_b-c", "7", "x" * 64)
BAD = ("", " ", "two words", "-dash", "a,b", "größe", "tab\t", "end\n", "x" * 65)


def test_tags_are_kept_in_order_each_once() -> None:
    assert check_tags(("b", "a", "b")) == ("b", "a")
    assert check_tags(GOOD) == GOOD
    assert check_tags(()) == ()


@pytest.mark.parametrize("tag", BAD)
def test_what_is_no_tag_is_refused_by_name_here_and_in_a_message(tag: str) -> None:
    with pytest.raises(InputError, match="tag '"):
        check_tags(("fine", tag))
    with pytest.raises(CodecError, match=r"run\.start\.v1 cannot be read"):
        decode_message("run.start.v1", msgspec.json.encode(StartRun("r", Plan("p", ()), Brief("b"), "", ("fine", tag))))


def test_too_many_are_refused_here_and_in_a_message() -> None:
    tags = tuple(f"t{number}" for number in range(11))
    with pytest.raises(InputError, match="11 tags"):
        check_tags(tags)
    with pytest.raises(CodecError):
        decode_message("run.start.v1", msgspec.json.encode(StartRun("r", Plan("p", ()), Brief("b"), "", tags)))
