"""The words of the trade that `prose` must not take for slips, collected for `harm.py` from the half to work with."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from harm_documents import Document

from redraft.app.builtin.prose.spelling.intended import COMMON_IF_LONG, SHORTEST
from redraft.app.builtin.prose.spelling.lexicon import read_lexicon
from redraft.app.builtin.prose.spelling.slips import find_neighbours

PACKAGES: int = 2
"""A word is of the trade if the documents of this many packages have it."""

_WORD = re.compile(rf"(?<![A-Za-z])[a-z]{{{SHORTEST},20}}(?![A-Za-z])")
_DEPTH = 5


def collect_terms(documents: Iterable[Document]) -> list[str]:
    """The words that no list knows, that several packages have, and that are a slip away from a common word."""
    lexicon = read_lexicon()
    if lexicon is None:
        raise SystemExit("install redraft[spelling] first")
    seen: defaultdict[str, set[str]] = defaultdict(set)
    for each in documents:
        package = "/".join(each.path.split("/")[:_DEPTH])
        for word in set(_WORD.findall(each.text)) - lexicon.frequencies.keys() - lexicon.sure.keys():
            seen[word].add(package)
    return sorted(
        word
        for word, packages in seen.items()
        if len(packages) >= PACKAGES
        and any(
            lexicon.frequencies.get(each, 0) >= COMMON_IF_LONG and each[0] == word[0] for each in find_neighbours(word)
        )
    )
