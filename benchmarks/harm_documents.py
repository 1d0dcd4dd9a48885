"""Documents of a machine for `harm.py`: finding them, refining them as a user does, and what was replaced in them."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any, Final, Literal, TypeAlias

Half: TypeAlias = Literal["look", "final"]
HALVES: Final[tuple[Half, Half]] = ("look", "final")

_NAMES: Final = re.compile(
    r"readme|change|news|copying|licen[cs]e|copyright|todo|install|faq|howto|contributing|authors|hacking"
)
_SUFFIXES: Final = (".md", ".markdown", ".rst", ".txt", ".pod", "")
_MEDIA: Final = {".md": "text/markdown", ".markdown": "text/markdown"}
SMALLEST: Final = 200
LARGEST: Final = 300_000
"""Bytes of the smallest and of the largest document."""

_TOKEN: Final = re.compile(r"\s+|\w+(?:['\u2019-]\w+)*|[^\w\s]")
_ANCHOR: Final = re.compile(r'<a id="[^"]*"></a>')
_LEGAL_FILE: Final = re.compile(r"copyright|copying|licen[cs]e", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Document:
    """A document: where it lies, its text, and its media type."""

    path: str
    text: str
    media_type: str

    @property
    def is_legal(self) -> bool:
        return bool(_LEGAL_FILE.search(PurePath(self.path).name))


@dataclass(frozen=True, slots=True)
class Replacement:
    """A replacement in a document, and the sentence around it."""

    original: str
    replacement: str
    sentence: str
    path: str
    is_legal: bool


@dataclass(frozen=True, slots=True)
class Refined:
    """A document, the text that its run published, and whether that was accepted with a lower score than at first."""

    document: Document
    text: str
    got_worse: bool


def half_of(path: str) -> Half:
    """The half that a document belongs to for ever: `look` to work with, `final` for the figure."""
    return "look" if int(sha256(path.encode()).hexdigest(), 16) % 2 == 0 else "final"


def find_documents(roots: Sequence[Path], half: Half) -> list[Document]:
    """The documents below some folders in this half, each text once, in the order of their hashes.

    A text that lies in both halves belongs to `look`.
    """
    halves: dict[Half, dict[str, Document]] = {"look": {}, "final": {}}
    for root in roots:
        for path in sorted(root.rglob("*")):
            if text := _read(path):
                name = _place(path, root)
                suffix = PurePath(path.name.removesuffix(".gz")).suffix.lower()
                document = Document(name, text, _MEDIA.get(suffix, "text/plain"))
                halves[half_of(name)].setdefault(sha256(text.encode()).hexdigest(), document)
    found = halves[half]
    return [found[key] for key in sorted(found) if half == "look" or key not in halves["look"]]


def _place(path: Path, root: Path) -> str:
    """Returns the path of a file below the first `usr`: the same on every machine."""
    parts = path.parts
    return "/" + "/".join(parts[parts.index("usr") :]) if "usr" in parts else str(path.relative_to(root))


def _read(path: Path) -> str:
    """The text of a document; empty for any other file."""
    name = path.name.lower().removesuffix(".gz")
    suffix = PurePath(name).suffix
    is_named = bool(_NAMES.search(name)) and (suffix in _SUFFIXES or suffix[1:2].isdigit() or suffix == ".debian")
    if not (is_named or suffix in _SUFFIXES[:-1]) or path.is_symlink() or not path.is_file():
        return ""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    except (OSError, EOFError, UnicodeDecodeError):
        return ""
    return text if SMALLEST <= len(text.encode()) <= LARGEST and "\0" not in text and text.strip() else ""


def refine_all(documents: Sequence[Document], folder: Path) -> Iterator[Refined]:
    """Runs `redraft run --batch` with the workflow `prose` for all documents; `folder` takes the files of it."""
    briefs = folder / "briefs.jsonl"
    with briefs.open("w", encoding="utf-8") as file:
        for number, each in enumerate(documents):
            file.write(json.dumps({"id": str(number), "text": each.text, "media_type": each.media_type}) + "\n")
    command = [
        str(Path(sys.executable).with_name("redraft")),
        "run",
        "--batch",
        str(briefs),
        "prose",
        "--json",
        "--quiet",
    ]
    store = ["--store", f"sqlite:///{folder / 'harm.db'}"]
    with subprocess.Popen([*command, *store], stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stdout is not None  # noqa: S101 - for the type checker
        for line in process.stdout:
            ended = json.loads(line)
            yield _refined(documents[int(ended["id"])], ended)
    if process.returncode not in (0, 3):
        raise SystemExit(f"redraft run ended with {process.returncode}")


def _refined(document: Document, ended: dict[str, Any]) -> Refined:
    scores = [each["critique"]["score"] for each in ended["critiques"] if each["critique"].get("critic") == "prose"]
    got_worse = ended["outcome"] == "accepted" and len(scores) > 1 and scores[-1] < scores[0]
    return Refined(document, ended["draft"]["text"] if ended.get("draft") else document.text, got_worse)


def replacements(refined: Iterable[Refined]) -> Iterator[Replacement]:
    """All that differs between documents and their drafts, found by comparing the texts; no added anchors."""
    for each in refined:
        for original, replacement, sentence in compare(each.document.text, without_new_anchors(each)):
            yield Replacement(original, replacement, sentence, each.document.path, each.document.is_legal)


def without_new_anchors(refined: Refined) -> str:
    """The text of a draft without the anchors that its document has not; those of the document stay."""
    own = set(_ANCHOR.findall(refined.document.text))
    return _ANCHOR.sub(lambda found: found.group() if found.group() in own else "", refined.text)


def compare(before: str, after: str) -> Iterator[tuple[str, str, str]]:
    """Returns the replacements and their sentences; words are compared within the lines that differ."""
    if before == after:
        return
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    for tag, first, last, begin, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            one, other = (_TOKEN.findall("".join(lines)) for lines in (old[first:last], new[begin:end]))
            yield from _compare_words(one, other, before, starts[first])


def _compare_words(old: list[str], new: list[str], text: str, start: int) -> Iterator[tuple[str, str, str]]:
    for tag, first, last, begin, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        at = start + len("".join(old[:first]))
        to = at + len("".join(old[first:last]))
        if tag == "delete":  # a doubled word: show the pair
            word = "".join(old[first:last]).strip()
            yield f"{word} {word}", word, _sentence(text, at, to)
        else:
            yield "".join(old[first:last]), "".join(new[begin:end]), _sentence(text, at, to)


def _sentence(text: str, start: int, end: int) -> str:
    """The words around a place, in one line, with the place in brackets."""
    before = " ".join(text[max(0, start - 120) : start].split())
    after = " ".join(text[end : end + 120].split())
    is_apart = text[max(0, start - 1) : start + 1].strip() != text[max(0, start - 1) : start + 1]
    goes_on = text[end - 1 : end + 1].strip() == text[end - 1 : end + 1]
    return f"{before}{' ' if is_apart else ''}[{' '.join(text[start:end].split())}]{'' if goes_on else ' '}{after}"
