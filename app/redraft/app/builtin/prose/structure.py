"""The gate `structure`: headings, links, code, tables, numbers and names of the brief must be unchanged in the draft.

It knows no dictionary and shares nothing with what finds and corrects mistakes: it reads blocks with markdown-it, and
the parts of a line with patterns of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

import msgspec
from markdown_it import MarkdownIt

from redraft.actors.workflow.context import Context
from redraft.actors.workflow.roles import critic
from redraft.app.builtin.prose.anchors import anchors, kept_anchors, without_anchors
from redraft.app.builtin.support.options import RELEASE, read_options
from redraft.app.builtin.support.per_file import is_folder, texts_of
from redraft.events.messages.content import Brief, Critique, Draft

_CODE: Final = re.compile(r"(?<!`)(`{1,9})(?!`)([^`]+)\1(?!`)")
_LINK: Final = re.compile(r"\](\([^()\n]*\)|\[[^\[\]\n]*\])")
_URL: Final = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s<>\"']+|\bwww\.[^\s<>\"']+|[^\s@<>(]{1,64}@[^\s@<>)]{1,255}")
_CHUNK: Final = re.compile(r"\S+")
_DIGIT: Final = re.compile(r"\d")
_NAME: Final = re.compile(r"(?<=[\w,;)] )[A-Z][\w'-]*|\b\w*[a-z_][A-Z]\w*|\b[A-Z]{2,}\w*|\b\w+_\w+")
_TAG: Final = re.compile(r"</?[A-Za-z][^<>]*>")
_LONGEST: Final = 60


class StructureOptions(msgspec.Struct, frozen=True):
    """There is no option."""


_PROSE: Final = (".md", ".markdown", ".rst", ".txt")


@critic(name="structure", version=RELEASE)
def structure_critic(draft: Draft, brief: Brief, context: Context) -> Critique:
    """A gate: headings, links, code, tables, numbers, addresses and names of the draft are those of the brief.

    Words of headings may differ if their anchors are kept. Raises PermanentError for an option.
    """
    read_options(StructureOptions, context.options, "structure")
    if not is_folder(draft):
        faults = find_differences(brief.text, draft.text)
    else:
        before, after = (texts_of(each, *_PROSE) for each in (brief, draft))
        faults = [f"{path}: {each}" for path in before for each in find_differences(before[path], after.get(path, ""))]
    return Critique(0.0 if faults else 1.0, errors=tuple(faults))


def find_differences(before: str, after: str) -> list[str]:
    """A sentence for each part of the structure that changed, with the first place where it did."""
    if before == after:
        return []
    lost = [anchor for anchor in anchors(before) if anchor not in {*anchors(after), *kept_anchors(after)}]
    faults = [f"headings: the anchor {_quote(lost[0])} is gone"] if lost else []
    bare = without_anchors(after)
    for (part, old), (_, new) in zip(_parts(before), _parts(bare), strict=True):
        differing = next((pair for pair in zip_longest(old, new) if pair[0] != pair[1]), None)
        if differing:
            faults.append(f"{part}: {_quote(differing[0])} became {_quote(differing[1])}")
    return faults


def _parts(text: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Each part of the structure with all that there is of it, in order."""
    headings, code, cells, references = _read_blocks(text)
    yield "headings", headings
    yield "code", [*code, *(found.group(2) for found in _CODE.finditer(text))]
    yield "tables", cells
    yield "references", references
    for part, pattern in (
        ("links", _LINK),
        ("addresses", _URL),
        ("tags", _TAG),
        ("names", _NAME),
    ):
        yield part, pattern.findall(text)
    yield "numbers", [chunk for chunk in _CHUNK.findall(text) if _DIGIT.search(chunk)]


def _read_blocks(text: str) -> tuple[Sequence[str], ...]:
    """The levels of headings, the content of code and HTML blocks, that of table cells, and definitions of links."""
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    headings: list[str] = []
    code: list[str] = []
    cells: list[str] = []
    before = ""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for token in parser.parse(text, found):
        match token.type:
            case "heading_open":
                headings.append(token.tag)
            case "fence" | "code_block" | "html_block":
                code.append(token.content)
            case "inline" if before in {"td_open", "th_open"}:
                cells.append(token.content)
            case _:
                pass
        before = token.type
    references = [f"[{label}]: {of['href']}" for label, of in found.get("references", {}).items()]
    return headings, code, cells, references


def _quote(part: str | None) -> str:
    return "nothing" if part is None else repr(part[:_LONGEST])
