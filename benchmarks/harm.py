"""A trial of whether `prose` and `code` harm documents and modules of a Debian machine.

    python benchmarks/harm.py prose --root /usr/share/doc --documents 1500   # writes what was replaced, for two readers
    python benchmarks/harm.py plant --root /usr/share/doc                    # the share of planted mistakes mended
    python benchmarks/harm.py code --modules 100                             # the standard library, and its tests
    python benchmarks/harm.py table                                          # the table, from what two readers said
    python benchmarks/harm.py terms --root /usr/share/doc                    # writes the words of the trade anew

Documents belong to one of two halves by a hash of their path: `look` to work with, `final` for the figure.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from harm_documents import HALVES, Document, Replacement, find_documents, refine_all, replacements
from harm_planted import plant
from harm_reasons import find_reason
from harm_terms import collect_terms

FOLDER: Final = Path(__file__).with_name("harm")
JUDGED: Final = FOLDER / "replacements.tsv"
FIGURES: Final = FOLDER / "figures.json"
READERS: Final = ("one", "other")
TERMS: Final = Path(__file__).parents[1] / "app/redraft/app/builtin/prose/spelling/terms.txt"
PLANTED: Final = 300


def main(arguments: Sequence[str]) -> None:
    given = _read_arguments(arguments)
    FOLDER.mkdir(exist_ok=True)
    match given.command:
        case "prose":
            _try_prose(given)
        case "plant":
            _try_planted(given)
        case "code":
            from harm_modules import try_modules

            _keep("code", try_modules(given.modules, given.skip, given.seed, FOLDER / "modules.jsonl"))
        case "terms":
            TERMS.write_text("".join(f"{each}\n" for each in collect_terms(find_documents(given.root, "look"))))
        case _:
            print(table())


def _read_arguments(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("command", choices=("prose", "plant", "code", "table", "terms"))
    parser.add_argument("--root", type=Path, nargs="+", default=[Path("/usr/share/doc")], help="folders of documents")
    parser.add_argument("--half", choices=("look", "final"), default="final")
    parser.add_argument(
        "--seen", type=Path, nargs="*", default=[], help="folders of documents that were looked at already"
    )
    parser.add_argument("--skip", type=int, default=0, help="documents or modules that were tried already")
    parser.add_argument("--documents", type=int, default=1500)
    parser.add_argument("--modules", type=int, default=100)
    parser.add_argument("--seed", type=int, default=15)
    return parser.parse_args(arguments)


def _find(given: Namespace) -> list[Document]:
    """The documents that are asked for, without those whose text or name was looked at already."""
    seen = [each for half in HALVES for each in find_documents(given.seen, half)]
    known = {each.text for each in seen} | {each.path for each in seen}
    found = [each for each in find_documents(given.root, given.half) if not known & {each.text, each.path}]
    return found[given.skip :][: given.documents]


def _drop_repeated(found: Iterable[Replacement]) -> list[Replacement]:
    """Each replacement of a sentence once: packages of one source have the same change logs."""
    return list({(each.original, each.replacement, each.sentence): each for each in found}.values())


def _try_prose(given: Namespace) -> None:
    """Refines documents, and writes each replacement with its sentence for readers who see nothing else."""
    documents = _find(given)
    with tempfile.TemporaryDirectory() as folder:
        refined = list(refine_all(documents, Path(folder)))
    found = _drop_repeated(sorted(replacements(refined), key=lambda each: (each.path, each.sentence)))
    with JUDGED.open("w", encoding="utf-8", newline="") as file:
        file.write("number\toriginal\treplacement\tsentence\n")
        for number, each in enumerate(found, 1):
            file.write(
                "\t".join((str(number), *map(_in_line, (each.original, each.replacement, each.sentence)))) + "\n"
            )
    figures = {
        "documents": len(documents),
        "bytes": sum(len(each.text.encode()) for each in documents),
        "licences": sum(each.is_legal for each in documents),
        "documents_changed": len({each.path for each in found}),
        "replacements": len(found),
        "replacements_in_licences": sum(each.is_legal for each in found),
        "accepted_worse": sum(each.got_worse for each in refined),
    }
    _keep("prose", figures)


def _in_line(text: str) -> str:
    return " ".join(text.split())


def _try_planted(given: Namespace) -> None:
    """Plants mistakes in texts in which nothing is found, and counts those that are mended and nothing else changed."""
    documents = _find(given)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        clean = {each.document.path for each in refine_all(documents, Path(one)) if each.text == each.document.text}
        planted = plant([each for each in documents if each.path in clean], PLANTED, given.seed)
        texts = {each.path: each.text for each in documents}
        refined = list(refine_all([each.as_document() for each in planted], Path(other)))
    kinds = {each.document.path: each.kind for each in planted}
    right = {each.document.path for each in refined if each.text == texts[each.document.path]}
    mended = Counter(kinds[path] for path in right)
    all_kinds = Counter(kinds.values())
    missed = [each for each in planted if each.document.path not in right]
    reasons = Counter(find_reason(each) for each in missed)
    figures: dict[str, Any] = {
        "planted": len(planted),
        "mended": mended.total(),
        "share": mended.total() / len(planted),
    }
    figures["changed_wrongly"] = sum(
        each.text not in {texts[each.document.path], each.document.text} for each in refined
    )
    figures["kinds"] = {kind: [mended[kind], count] for kind, count in sorted(all_kinds.items())}
    _keep("planted", {**figures, "left_alone": dict(reasons.most_common())})


def _keep(part: str, figures: dict[str, Any]) -> None:
    """Prints figures and keeps them for the table."""
    known = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    FIGURES.write_text(json.dumps({**known, part: figures}, indent=1) + "\n")
    print(json.dumps(figures, indent=1))


def table() -> str:
    """The table of what was measured and what two readers said, in Markdown."""
    figures = json.loads(FIGURES.read_text())
    rows = [
        (f"{part}: {name.replace('_', ' ')}", _shown(value))
        for part, values in figures.items()
        for name, value in values.items()
    ]
    verdicts = [_read_verdicts(FOLDER / f"reader_{reader}.tsv") for reader in READERS]
    harmful = [number for number in verdicts[0] if not all(all(each[number]) for each in verdicts)]
    rows.append(("judged by two readers", _shown(len(verdicts[0]))))
    rows.append(
        ("harmful: not both called the original an error and the replacement what was meant", _shown(len(harmful)))
    )
    return "\n".join(("| What | Figure |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)))


def _read_verdicts(path: Path) -> dict[int, tuple[bool, bool]]:
    """By number: whether the original is an error, and whether the replacement is what was meant."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row and row[0].isdigit()]
    return {int(number): (error == "yes", meant == "yes") for number, error, meant, *_ in rows}


def _shown(value: object) -> str:
    match value:
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.0%}"
        case dict():
            return ", ".join(
                f"{name} {count}" if isinstance(count, int) else f"{name} {count[0]} of {count[1]}"
                for name, count in value.items()
            )
        case _:
            return str(value)


if __name__ == "__main__":
    main(sys.argv[1:])
