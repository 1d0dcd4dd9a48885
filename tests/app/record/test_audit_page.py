from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.streams import START, Told, article, article_told, book, recorded

from redraft.actors.editing.issues import locate_issues
from redraft.app.record.auditing import audit_drafts, audit_page
from redraft.app.record.auditing.audit_page import page_environment, render
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Brief, Critique, Issue, Receipt, new_draft
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    DraftRejected,
    IterationStarted,
    LoopEnded,
    RunEnded,
    RunGuided,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Parallel, Plan, Repeat, Step

VOID = {"meta", "br", "hr", "col"}
WRITTEN = """
html head title style body main header footer section article h1 h2 h3 h4 h5 p span code dl div dt dd table thead tbody
tr th td a details summary ul li pre ins del svg desc path circle rect polyline text
"""
ALLOWED = VOID | set(WRITTEN.split())
LOADING = {"src", "srcset", "data", "action", "formaction", "poster", "background", "xlink:href", "style", "manifest"}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'-alert(1)-'",
    "]]><!--",
    "</style></title></pre></details><svg onload=alert(1)>",
    "javascript:alert(1)",
    '<link rel="stylesheet" href="https://evil.example/x.css">',
    "&lt;b&gt; &amp;",
    "\x00\x1b[31m\r\n\x7f\x9b",
    "abc\u202egnp.exe\u2066\u200f",
    "\ufeff\u2028\u2029\U000e0041",
    "{{ 7 * 7 }}{% include 'audit.css' %}{# #}",
)


class Page(HTMLParser):
    """Reads a page as a browser would, and keeps what a test asks about."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.style = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        assert len(dict(attrs)) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.words.append(data)

    def handle_comment(self, data: str) -> None:
        pytest.fail(f"a comment: {data}")

    def unknown_decl(self, data: str) -> None:
        pytest.fail(f"a declaration: {data}")

    @property
    def told(self) -> str:
        return "".join(self.words)


def checked(page: str) -> Page:
    """A page that is balanced, made of the elements that we write and no other, and neither loads nor runs anything."""
    read = Page(page)
    assert read.open == []
    assert {tag for tag, _ in read.tags} <= ALLOWED
    for _, attributes in read.tags:
        assert not set(attributes) & LOADING
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith("#")
    assert "<script" not in page
    assert "url(" not in read.style
    assert "@import" not in read.style
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert page.encode()
    return read


def refined_run(texts: Sequence[str], critique: Critique | None = None) -> tuple[Recorded, ...]:
    """A run with a refinement for each text after the first, and the same critique of each draft."""
    drafts = [new_draft(number, text) for number, text in enumerate(texts, start=1)]
    told: list[Told] = [*article_told()[:1], ("write", DraftGenerated("write", 1, drafts[0]))]
    for before, after in pairwise(drafts):
        path = f"Refinement[{before.version}]"
        told += [
            ("c", IterationStarted("Refinement", before.version)),
            ("judge", DraftCritiqued(f"{path}/judge", 1, before.ref, critique or Critique(0.5))),
            ("c", StepRequested(f"{path}/improve", "refiner", "improve", 1, START, before.ref)),
            ("improve", DraftRefined(f"{path}/improve", 1, before.ref, after)),
        ]
    return recorded("r", told)


def test_a_page_tells_all_of_a_run():
    read = checked(render(article(), verified=True))
    for words in (
        "article",
        "accepted",
        "the condition holds: score 0.931 >= 0.9",
        "22 events, 3 drafts",
        "Verified: 22 events, each as it was recorded",
        "Refinement",
        "What changed since draft 1: 5 words came, 4 went",
        "fixed 3 spellings",
        "say how much the sun does",
        "the model is busy (503)",
        "publisher save published draft 3 to out/essay.md (1 file)",
        "The brief from essay.md",
    ):
        assert words in read.told
    for event in article():
        assert event.hash in read.told
        assert event.id in read.told
        assert f"{event.time:%H:%M:%S}" in read.told
    assert article()[-2].data.draft.sha256 in read.told


def test_a_page_has_the_diff_of_every_attempt_marked_by_word():
    page = render(article(), verified=True)
    assert page.count('<details class="change" open="">') == 2
    assert "<del>Teh</del> sea" in page
    assert "<ins>The</ins> sea" in page


def test_a_page_says_below_a_change_which_issues_it_answers():
    issues = (Issue("misspelled", "Teh", severity="error"), Issue("<b>dull</b>", "calm"), Issue("no title"))
    critique = locate_issues(Critique(0.5, issues=issues), "Teh tide.\nThe sea is calm.", ())
    page = checked(render(refined_run(["Teh tide.\nThe sea is calm.", "The tide.\nThe sea is calm."], critique), True))
    assert "answers error “Teh”: misspelled" in page.told
    assert page.told.count("answers ") == 1
    both = checked(render(refined_run(["Teh tide.\nThe sea is calm.", "The tide.\nThe sea is wild."], critique), True))
    assert "answers warning “calm”: <b>dull</b>" in both.told


def test_a_page_says_so_when_nothing_was_verified():
    told = checked(render(article(), verified=False)).told
    assert "Not verified" in told
    assert "\u2713" not in told


def test_the_policy_allows_the_one_style_sheet_and_nothing_else():
    read = Page(render(article(), verified=True))
    policy = next(each["content"] for tag, each in read.tags if each.get("http-equiv") == "Content-Security-Policy")
    known = b64encode(sha256(read.style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{known}'; base-uri 'none'; form-action 'none'"
    assert [tag for tag, _ in read.tags].count("style") == 1


def test_links_lead_to_drafts_that_are_in_the_page():
    read = checked(render(book(), verified=True))
    ids = {each["id"] for _, each in read.tags if "id" in each}
    links = {each["href"][1:] for tag, each in read.tags if tag == "a"}
    assert links
    assert links <= ids


@pytest.mark.parametrize("run", [article(), book()])
def test_every_prefix_of_a_run_has_a_page(run):
    for length in range(len(run) + 1):
        checked(render(run[:length], verified=True))


def test_a_page_of_a_run_that_goes_on_says_how_far_it_is():
    told = checked(render(article()[:13], verified=True)).told
    assert "not ended" in told
    assert "after the first 13 events" in told
    assert "to be tried again" in told


@pytest.mark.check
@given(st.text(), st.text(min_size=1))
@example(HOSTILE[0], HOSTILE[4])
def test_any_words_are_shown_and_none_works(name, words):
    texts = (f"{words} one", f"{words} two\n{words}", f"three {words}")
    page = render(recorded(words, article_told(texts, actor=name, name=words)), verified=True)
    checked(page)


@pytest.mark.parametrize("evil", HOSTILE)
def test_hostile_words_stay_words(evil):
    texts = (f"{evil} a moon", f"{evil} the moon\n{evil}", f"{evil} the sun")
    page = render(recorded(evil, article_told(texts, actor=evil, name=evil)), verified=True)
    read = checked(page)
    if evil.isascii() and evil.isprintable():
        assert f"{evil} the sun" in read.told
    assert not set(page) & set("\x00\x1b\r\x7f\x9b\u202e\u2066\u200f\ufeff\u2028\u2029\U000e0041")


def hostile_run(evil: str) -> tuple[Recorded, ...]:
    """A run in which whatever somebody from outside can say is this."""
    first, second, third = (new_draft(number, f"{evil} draft {number}\n{evil}") for number in (1, 2, 3))
    critic, refiner = Step("critic", evil, evil), Step("refiner", f"{evil} improve", evil)
    loop = Repeat(evil, score >= 0.9, 2, (Parallel(f"{evil} critics", (critic,)), refiner))
    plan = Plan(evil, (Step("generator", f"{evil} write", evil), loop, Step("publisher", f"{evil} save", evil)))
    critique = Critique(0.5, (evil,), (evil,), (evil,), (evil,), approved=False, critic=evil)
    improve = f"{evil}[1]/{evil} improve"
    told: list[Told] = [
        (evil, RunStarted(plan, Brief(evil, evil, source=evil), START, key=evil)),
        (evil, StepRequested(f"{evil} write", "generator", evil, 1, START)),
        (evil, StepFailed(f"{evil} write", 1, "error", evil, START)),
        (evil, DraftGenerated(f"{evil} write", 1, first)),
        (evil, IterationStarted(evil, 1)),
        (evil, DraftCritiqued(f"{evil}[1]/{evil} critics/{evil}", 1, first.ref, critique)),
        (evil, RunGuided(evil, evil, evil, evil)),
        (evil, StepRequested(improve, "refiner", evil, 1, START, first.ref)),
        (evil, DraftRefined(improve, 1, first.ref, second, (evil,), declined=(evil,))),
        (evil, DraftRejected(evil, second.ref, evil, evil)),
        (evil, DraftEdited(third, second.ref, evil, evil)),
        (evil, LoopEnded(evil, "exhausted", evil, 1, third.ref, 0.5)),
        (evil, DraftPublished(f"{evil} save", 1, third.ref, Receipt(evil, evil))),
        (evil, RunEnded("exhausted", evil, 1, third.ref, 0.5)),
    ]
    started, *rest = recorded(evil, told)
    return (replace(started, data=replace(started.data, tags=(evil,))), *rest)  # a tag like it cannot be recorded


@pytest.mark.parametrize("evil", HOSTILE)
def test_no_text_of_a_run_works_wherever_it_stands(evil):
    run = hostile_run(evil)
    read = checked(render(run, verified=True))
    if evil.isascii() and evil.isprintable():
        assert read.told.count(evil) > 80
    for length in range(len(run)):
        checked(render(run[:length], verified=False))


def test_no_template_takes_anything_for_safe():
    environment = page_environment()
    assert environment.autoescape is True
    shipped = ["audit.css", "audit.html", "audit_drafts.html", "chart.svg", "decision.html"]
    assert sorted(environment.list_templates()) == shipped
    for name in environment.list_templates():
        source = (files("redraft.app.record") / "templates" / name).read_text(encoding="utf-8")
        assert not re.search(r"\bsafe\s*[}|)]|autoescape|Markup", source), name


def test_hidden_characters_are_shown_by_sign_or_number():
    shown = page_environment().from_string("{{ it }}").render(it="a\x1b\x00\u202eb\x7f\ud800\t\n")
    assert shown == "a\u241b\u2400\u27e8U+202E\u27e9b\u2421\u27e8U+D800\u27e9\t\n"


def test_an_attribute_cannot_be_left():
    link = page_environment().from_string('<a href="{{ it }}">{{ it }}</a>').render(it='"><b onclick=1>')
    assert link == '<a href="&#34;&gt;&lt;b onclick=1&gt;">&#34;&gt;&lt;b onclick=1&gt;</a>'


def test_a_long_draft_is_cut_with_a_note():
    texts = ("word " * 100_000, "word " * 100_000 + "x")
    page = render(refined_run(texts), verified=True)
    told = checked(page).told
    assert "300,000 of 500,000 characters are left out here." in told
    assert "The rest is left out here: redraft diff r 1 2 shows it." in told
    assert len(page) < 450_000


@pytest.mark.check
def test_many_drafts_share_the_room_and_some_are_left_out(monkeypatch):
    monkeypatch.setattr(audit_drafts, "DRAFTS_SHOWN", 10)
    monkeypatch.setattr(audit_drafts, "ALL_SHOWN", 20_000)
    texts = [f"{'line of words ' * 50}\n{number}\n" * 60 for number in range(40)]
    said = Critique(0.5, errors=("wrong " * 100,) * 500)
    page = render(refined_run(texts, said), verified=True)
    told = checked(page).told
    assert "30 drafts are left out here: redraft diff r A B shows them." in told
    assert re.search(r"and 49\d more", told)
    assert page.count("<article") == 10
    assert len(page) < 250_000


def test_long_tables_show_their_ends_and_say_what_is_missing(monkeypatch):
    monkeypatch.setattr(audit_page, "ROWS", 10)
    read = checked(render(article(), verified=True))
    assert "12 rows are left out here; the JSON lines of the export have every event." in read.told
    assert article()[0].hash in read.told
    assert article()[10].hash not in read.told


def test_a_text_that_did_not_change_is_said_to_be_the_same():
    told = checked(render(refined_run(("same", "same")), verified=True)).told
    assert "The same text as draft 1." in told


def test_the_same_events_give_the_same_page():
    assert render(article(), verified=True) == render(article(), verified=True)
