"""The memory of texts as it is counted: no less than Python takes, also for wide characters."""

from __future__ import annotations

import json
from collections.abc import Callable
from sys import getsizeof

import msgspec
import pytest

from redraft.events.messages.memory import memory_decoded, text_memory

FACE = "\U0001f600"
TEXTS = ["a" * 10_000, "ä" + "a" * 10_000, "Ā" + "a" * 10_000, "漢" * 10_000, FACE + "a" * 10_000, FACE * 99, "\ud800"]
WELL = TEXTS[:-1]


def fresh(text: str) -> str:
    """The same text, of which nobody asked for the UTF-8."""
    return "".join([text[:1], text[1:]])


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_counts_with_what_it_takes_whatever_was_done_with_it(text: str) -> None:
    used = fresh(text)
    counted = text_memory(used)
    assert getsizeof(used) <= counted
    if text in WELL:
        msgspec.json.encode(used)
    assert getsizeof(used) <= counted <= getsizeof(used) + 100
    assert text_memory(used) == counted


@pytest.mark.parametrize("text", WELL)
@pytest.mark.parametrize("encode", [msgspec.json.encode, lambda text: json.dumps(text).encode()])
def test_a_body_counts_with_what_its_text_will_take(text: str, encode: Callable[[str], bytes]) -> None:
    assert getsizeof(fresh(text)) - 100 <= memory_decoded(encode(text))


def test_a_body_of_utf8_counts_about_once() -> None:
    counted = [memory_decoded(msgspec.json.encode(text)) / getsizeof(fresh(text)) for text in WELL]
    assert [round(each) for each in counted] == [1] * len(WELL)
