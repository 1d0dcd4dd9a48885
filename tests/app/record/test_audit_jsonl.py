from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.streams import article, article_told, book_told, stored

from redraft.app.record.copying.archive import export_jsonl
from redraft.events.errors import Tampered
from redraft.events.messages.codec import decode_event
from redraft.events.messages.domain_events import RunEnded

RUN = "01JQ-article"
LINES = list(export_jsonl(RUN, stored(RUN, article_told())))


def check(lines: Sequence[bytes]) -> None:
    """The recipe in docs/audit.md, with what any language has: JSON and SHA-256."""
    previous = "0" * 64
    for number, line in enumerate(lines, start=1):
        event, rest = json.loads(line), line.rstrip(b"\n").split(b'"hash":"', 1)[1][66:]
        place = f"{event['run']}\n{event['version']}\n{event['name']}\n{{".encode()
        assert hashlib.sha256(place + rest).hexdigest() == event["hash"]
        assert event["previous"] == previous
        assert event["version"] == number
        previous = event["hash"]


def as_bytes(lines: Sequence[str]) -> list[bytes]:
    return [line.encode() for line in lines]


def test_a_reader_without_redraft_can_check_the_chain():
    check(as_bytes(LINES))
    check(as_bytes(list(export_jsonl("b", stored("b", book_told())))))


@pytest.mark.parametrize("number", range(len(LINES)))
def test_a_reader_without_redraft_finds_a_changed_and_a_missing_line(number):
    lines = as_bytes(LINES)
    changed = lines[number].replace(b'"actor":"', b'"actor":"x', 1)
    with pytest.raises(AssertionError):
        check([*lines[:number], changed, *lines[number + 1 :]])
    if number < len(lines) - 1:
        with pytest.raises(AssertionError):
            check([*lines[:number], *lines[number + 1 :]])


def test_a_line_has_all_of_the_envelope_and_the_event():
    line = json.loads(LINES[-1])
    event = article()[-1]
    assert list(line)[:5] == ["position", "run", "version", "name", "hash"]
    assert (line["position"], line["run"], line["version"], line["name"]) == (122, RUN, 22, "run.ended.v1")
    assert (line["hash"], line["previous"], line["id"]) == (event.hash, event.previous, event.id)
    assert (line["actor"], line["causation"], line["correlation"]) == ("coordinator", f"{RUN}/21", RUN)
    assert line["time"] == "2025-03-09T14:30:38.875000Z"
    assert line["data"]["outcome"] == "accepted"
    assert isinstance(event.data, RunEnded)


def test_the_stored_bytes_are_in_the_line_as_they_are():
    for line, (_, _, state, _) in zip(LINES, stored(RUN, article_told()), strict=True):
        assert line.encode().endswith(state[1:] + b"\n")


@given(st.text(), st.text())
def test_any_names_and_texts_stay_one_line_that_can_be_checked(run, words):
    told = article_told([f"{words} a", f"{words} b\n", f"{words} c\u2028"], actor=words, name=words)
    lines = list(export_jsonl(run, stored(run, told)))
    assert all(line.count("\n") == 1 and line.endswith("\n") for line in lines)
    assert all(json.loads(line)["run"] == run for line in lines)
    check(as_bytes(lines))


def test_a_name_that_looks_like_a_hash_does_not_mislead_the_reader():
    run = '","hash":"' + "0" * 64 + '",'
    check(as_bytes(list(export_jsonl(run, stored(run, article_told())))))


@pytest.mark.parametrize(
    "state", [b"", b"{}", b'{"id":"1"}', b'{"hash":"\xff"}', b'{"hash":"0"}\n{"hash":"0"}', b'{"hash":"0"']
)
def test_bytes_that_are_no_stored_event_are_named(state):
    with pytest.raises(Tampered, match=r"event 7 of run r \(run\.ended\.v1\) is not what was recorded"):
        list(export_jsonl("r", [(7, "run.ended.v1", state, 9)]))


def test_events_written_by_the_codec_read_back_from_their_lines():
    for line, (version, name, state, position) in zip(LINES, stored(RUN, article_told()), strict=True):
        event = decode_event(RUN, version, name, state, position)
        assert json.loads(line)["hash"] == event.hash


def test_the_chain_begins_with_sixty_four_zeros():
    assert json.loads(LINES[0])["previous"] == "0" * 64
