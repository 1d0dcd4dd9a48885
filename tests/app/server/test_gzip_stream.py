"""Pieces of gzip streams: any of them fit together, and only who asked for them gets them."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.app.server.gzip_stream import HEADER, accepts_gzip, compress_piece


@given(st.lists(st.binary(max_size=2_000), max_size=6))
def test_each_piece_is_readable_when_it_has_come_and_needs_none_before_it(texts: list[bytes]) -> None:
    reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    assert reader.decompress(HEADER) == b""
    for text in texts:
        assert reader.decompress(compress_piece(text)) == text


@pytest.mark.parametrize(
    "value", ["gzip", "gzip, deflate, br", "br;q=1.0, GZIP;q=0.8, *;q=0.1", "deflate,gzip ;q=0.001", "gzip; q=1"]
)
def test_gzip_is_accepted(value: str) -> None:
    assert accepts_gzip(value)


@pytest.mark.parametrize("value", ["", "identity", "br", "gzip;q=0", "gzip; q=0.000, br", "x-gzip2", "notgzip", "*"])
def test_gzip_is_not_accepted(value: str) -> None:
    assert not accepts_gzip(value)
