"""The harness of harm sees what changed in a document and nothing else; what readers called harmful is left alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from redraft.app.builtin.prose.actors import read

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from harm_documents import Document, Refined, replacements


def test_anchors_of_the_document_are_no_replacement_and_a_lost_one_is():
    before = '<a id="lint"></a>\n### Lint\n\nIt was the the last one.\n'
    after = '<a id="lint"></a>\n### <a id="new"></a>Lint\n\nIt was the last one.\n'
    document = Document("/usr/share/doc/a/README.md", before, "text/markdown")
    assert [each.replacement for each in replacements([Refined(document, after, False)])] == ["the"]
    lost = after.replace('<a id="lint"></a>', "")
    assert len(list(replacements([Refined(document, lost, False)]))) == 2


@pytest.mark.parametrize(
    ("sentence", "mended"),
    [
        ("The port is old. Is is now supported on both of the systems that we have.", None),
        ("This is the last of the the changes that we made to it for you.", "the changes"),
    ],
)
def test_real_sentences(sentence: str, mended: str | None):
    rewritten = read(sentence, headings=False).rewritten
    assert rewritten == (sentence if mended is None else sentence.replace(f"the {mended}", mended))
