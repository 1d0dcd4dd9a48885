"""The harness of harm sees what changed and nothing else; what is right, or half right, in real texts is left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tests.app.cli_calls import spawn

from redraft.app.builtin.prose.actors import read

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import harm
from harm_documents import Document, Refined, replacements
from harm_modules import LIBRARY, find_lost
from harm_planted import WORDS, plant, slip
from harm_reasons import find_reason
from tests.services import missing


def test_anchors_of_the_document_are_no_replacement_and_a_lost_one_is():
    before = '<a id="lint"></a>\n### Lint\n\nIt was the the last one.\n'
    after = '<a id="lint"></a>\n### <a id="new"></a>Lint\n\nIt was the last one.\n'
    document = Document("/usr/share/doc/a/README.md", before, "text/markdown")
    assert [each.replacement for each in replacements([Refined(document, after, False)])] == ["the"]
    lost = after.replace('<a id="lint"></a>', "")
    assert len(list(replacements([Refined(document, lost, False)]))) == 2


@pytest.mark.parametrize(
    "sentence",
    [
        "The port is old. Is is now supported on both of the systems that we have.",
        "All values are printed in a column; is is possible to suppress messages about it.",
        "The locate program will will read old databases, though this will be removed.",
        "The helper functions we have have been annotated to catch such mistakes.",
        "In the first approach, your template object doubles as as Webware servlet.",
        "To use it on a system that has two of them you you may use the other command.",
        "It is a guide on how to read upstream relases notes, as all apply for what is now new.",
        "To export the cache to a local directy, you should specify the type of the cache.",
        "As advertised in the precendent version, all the features were removed from it.",
        "We fixed a retart of it where the version was not defined when it is used.",
        "The instances of the class are associated with two datas that you can see.",
        "We fixed the problems of linking it to ncursesw on the machines that have it.",
        "There is an argument that is not NULL now in the call to execl to avoid a warning.",
        "Refresh the pofiles of the manual for the version that is in the archive.",
        "In this version we add find-extreams, which can find the elements of the data.",
        "Add the keys :weight and :intertia-tensor to the list of keys that it has.",
        "This is a bug fix for what fails in the new version of it, thanks to florine forine.",
        "The last of the things is the mtach that you can attach to with the program.",
    ],
)
def test_what_may_be_right_or_mean_another_word_is_left_alone(sentence: str):
    assert read(sentence).rewritten == sentence


@pytest.mark.parametrize(
    ("sentence", "wrong", "right"),
    [
        ("This is the last of the the changes that we made to it for you.", "the the", "the"),
        ("All numbers between the two are assigned by by the server that has them.", "by by", "by"),
        ("If you want these files, then they can be be found in the archive.", "be be", "be"),
        ("This is an upgrade to the new upsteam version of the library.", "upsteam", "upstream"),
        ("The sentence that we recieved from the other side is the last.", "recieved", "received"),
        ("In the end it is too much for the members of the adress list.", "adress", "address"),
        ("It is a performence that no other program on the system has.", "performence", "performance"),
        ("We fix the retart of it: the restart of the server is now safe.", "retart", "restart"),
        ("The values that are set here are non-existant in the other file.", "non-existant", "non-existent"),
    ],
)
def test_what_can_only_be_one_mistake_is_mended(sentence: str, wrong: str, right: str):
    assert read(sentence).rewritten == sentence.replace(wrong, right)


@pytest.mark.parametrize("name", ["ssl", "decimal", "locale", "secrets"])
def test_real_modules_keep_their_names(name: str, tmp_path: Path):
    source, target = LIBRARY / f"{name}.py", tmp_path / f"{name}.py"
    said = spawn("run", str(source), "--out", str(target), folder=tmp_path)
    assert said.code in (0, 3), said.err
    assert find_lost(name, source, target) == ()
    subprocess.run([sys.executable, "-c", f"import {name}"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("first", ["", "import no_such_module_anywhere\n"])
def test_a_lost_name_is_seen_also_where_a_module_cannot_be_imported(first: str, tmp_path: Path):
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_text(f"{first}import json\nfrom os import path\n\nx = 1\n")
    after.write_text(f"{first}from os import path\n\nx = 1\n")
    assert find_lost("module", before, after) == ("json",)
    assert find_lost("module", before, before) == ()


def test_a_planted_mistake_is_the_only_change_and_has_a_reason_when_it_is_left_alone():
    if not WORDS.exists():
        missing(f"{WORDS} is not there; install a list of English words, such as Debian's package wamerican")
    text = "The people of the town go to the river with the children when it rains too much.\n" * 3
    documents = [Document(f"/usr/share/doc/{each}/README", f"{text}\n{each}\n", "text/plain") for each in range(20)]
    planted = plant(documents, 8, 15)
    assert [each.kind for each in planted].count("doubled") == 2
    for each in planted:
        right = each.text[: each.at] + each.right + each.text[each.at + len(each.wrong) :]
        assert right == each.document.text
        assert each.wrong != each.right
        assert find_reason(each)


def test_a_slip_is_never_another_word():
    words = frozenset({"form", "from", "forms"})
    assert not {slip("form", Random(seed), words)[0] for seed in range(200)} & words


def test_a_replacement_is_harmful_unless_both_readers_say_that_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(harm, "FOLDER", tmp_path)
    monkeypatch.setattr(harm, "FIGURES", tmp_path / "figures.json")
    (tmp_path / "figures.json").write_text('{"prose": {"replacements": 4}}')
    (tmp_path / "reader_one.tsv").write_text('1\tyes\tyes\t\n2\tno\tno\t"a name\n3\tyes\tyes\t\n4\tyes\tyes\t\n')
    (tmp_path / "reader_other.tsv").write_text("1\tyes\tyes\t\n2\tno\tno\t\n3\tyes\tno\t\n4\tyes\tyes\tnot sure\n")
    rows = harm.table().splitlines()
    assert rows[2] == "| prose: replacements | 4 |"
    assert rows[-2:] == [
        "| judged by two readers | 4 |",
        "| harmful: not both called the original an error and the replacement what was meant | 2 |",
    ]
