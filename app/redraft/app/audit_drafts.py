"""The drafts of a run as HTML: how each came about, what was changed, and what was said of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, assert_never

import msgspec

from redraft.app.audit_markup import NOTHING, Markup, folding, joined, tag, text
from redraft.events.content import Draft
from redraft.events.domain_events import DraftCritiqued, DraftEdited, DraftGenerated, DraftRefined
from redraft.events.envelope import Recorded
from redraft.events.texts import ERASED
from redraft.projections.diff import Added, Kept, Line, Removed, Skipped, Tally, Word, diff, folded, tally
from redraft.projections.plain import NAME_LENGTH, counted, plain, score_text

DRAFT_SHOWN: Final = 200_000
"""Characters of one draft, or of one diff, that a page shows at most."""
ALL_SHOWN: Final = 6_000_000
"""Characters of all drafts, diffs and critiques together; each has an equal share."""
DRAFTS_SHOWN: Final = 1_000
"""Drafts that have their own part: the first and the last half of so many."""
OPENED: Final = 8
"""Drafts up to which their diffs are open from the start."""
_LINE_COST: Final = 60
_PROSE: Final = frozenset({"", "text/plain", "text/markdown"})

Made: TypeAlias = DraftGenerated | DraftRefined | DraftEdited


class Version(msgspec.Struct, frozen=True):
    """A draft of the run: the event that brought it, the draft before it if there was one, and what was said of it."""

    made: Made
    before: Draft | None
    critiques: tuple[DraftCritiqued, ...]


def versions(events: Iterable[Recorded]) -> tuple[Version, ...]:
    """The drafts of a run in the order in which they were made."""
    drafts: dict[int, Made] = {}
    heard: dict[int, list[DraftCritiqued]] = {}
    for event in events:
        match event.data:
            case DraftGenerated() | DraftRefined() | DraftEdited():
                drafts[event.data.draft.version] = event.data
            case DraftCritiqued():
                heard.setdefault(event.data.draft.version, []).append(event.data)
            case _:
                pass
    return tuple(Version(made, _before(made, drafts), tuple(heard.get(key, ()))) for key, made in drafts.items())


def drafts_part(found: Sequence[Version], scored: Mapping[int, float], run: str) -> Markup:
    """A part for each draft, bounded in number and size; what is left out is said, with the command that shows it."""
    if not found:
        return tag("p", text("No draft was made."), cls="quiet")
    half = DRAFTS_SHOWN // 2
    shown = found if len(found) <= DRAFTS_SHOWN else (*found[:half], *found[-half:])
    share = min(DRAFT_SHOWN, ALL_SHOWN // len(shown))
    parts = [_version(each, scored, share, run, opened=len(shown) <= OPENED) for each in shown]
    if len(found) > len(shown):
        left_out = counted(len(found) - len(shown), "draft")
        parts.insert(
            half, tag("p", text(f"{left_out} are left out here: redraft diff {run} A B shows them."), cls="cut")
        )
    return joined(parts)


def letters(draft: Draft, kind: str = "draft") -> str:
    """The classes of a draft's text (or of its diff): anything but prose is set in letters of one width."""
    return kind if draft.media_type.partition(";")[0] in _PROSE else f"{kind} code"


def draft_text(value: str, most: int = DRAFT_SHOWN, cls: str = "draft") -> Markup:
    """A text as it stands, cut at `most` characters with a note."""
    note = (
        f"{len(value) - most:,} of {counted(len(value), 'character')} are left out here." if len(value) > most else ""
    )
    body = tag("pre", text(value[:most]), cls=cls, dir="auto", tabindex="0")
    return joined((body, tag("p", text(note), cls="cut"))) if note else body


def bar(score: float) -> Markup:
    """A score as a number, with a small bar that says the same."""
    width = f"{max(0.0, min(score, 1.0)) * 48:.1f}" if score == score else "0"
    full = tag("rect", cls="full", width="48", height="6", rx="3")
    part = tag("rect", cls="part", width=width, height="6", rx="3")
    return joined((tag("svg", full, part, cls="bar", viewBox="0 0 48 6", aria_hidden="true"), text(score_text(score))))


def _before(made: Made, drafts: dict[int, Made]) -> Draft | None:
    match made:
        case DraftGenerated():
            return None
        case DraftRefined(before=ref) | DraftEdited(before=ref):
            known = drafts.get(ref.version)
            return known.draft if known else None
        case _:
            assert_never(made)


def _version(each: Version, scored: Mapping[int, float], share: int, run: str, *, opened: bool) -> Markup:
    draft = each.made.draft
    score = bar(scored[draft.version]) if draft.version in scored else tag("span", text("not judged"), cls="quiet")
    title = tag("h3", text(f"Draft {draft.version}"), tag("span", score, cls="score"))
    meta = tag("p", text(_origin(each)), tag("br"), tag("code", text(f"sha256 {draft.sha256}")), cls="quiet")
    whole = folding(text("The text"), draft_text(draft.text, share, letters(draft)))
    change = _change(each.before, draft, share, run, opened=opened) if each.before else whole
    critiques = joined(_critique(critique, share // len(each.critiques)) for critique in each.critiques)
    return tag("article", title, meta, _changes(each.made, share), change, critiques, id=f"draft-{draft.version}")


def _origin(each: Version) -> str:
    draft = each.made.draft
    words = "its text is erased" if draft.text == ERASED else counted(len(draft.text.split()), "word")
    match each.made:
        case DraftGenerated(path=path):
            return f"written by {plain(path, NAME_LENGTH * 2)} \u00b7 {words}"
        case DraftRefined(before=before, path=path):
            return f"made from draft {before.version} by {plain(path, NAME_LENGTH * 2)} \u00b7 {words}"
        case DraftEdited(before=before, by=by):
            return f"made from draft {before.version} by {plain(by, NAME_LENGTH)}, by hand \u00b7 {words}"
        case _:
            assert_never(each.made)


def _changes(made: Made, share: int) -> Markup:
    match made:
        case DraftRefined(changes=changes) if changes:
            return _list("Changes", changes, share // 4)
        case DraftRefined() | DraftGenerated() | DraftEdited():
            return NOTHING
        case _:
            assert_never(made)


def _change(before: Draft, after: Draft, share: int, run: str, *, opened: bool) -> Markup:
    """What a refinement changed, to be opened and closed; its rows end when `share` characters are full."""
    if after.text == ERASED:
        return tag("p", text("What was changed is erased."), cls="quiet change")
    if before.sha256 == after.sha256:
        return tag("p", text(f"The same text as draft {before.version}."), cls="quiet change")
    left, came, went = share, 0, 0
    rows: list[Markup] = []
    end = Kept(before.text.count("\n") + 1, after.text.count("\n") + 1, "")
    for line in folded(diff(before.text, after.text)):
        words = Tally(0, 0) if isinstance(line, Skipped) else tally((line,))
        came, went = came + words.added, went + words.removed
        if line != end:
            rows.append(_row(line, left))
        left -= _length(line) + _LINE_COST
        if left < 0:
            break
    note = f"The rest is left out here: redraft diff {run} {before.version} {after.version} shows it."
    cut = tag("p", text(note), cls="cut") if left < 0 else NOTHING
    body = tag("div", *rows, cls=letters(after, "diff"), dir="auto")
    told = f"{'at least ' if cut else ''}{counted(came, 'word')} came, {went:,} went"
    return folding(text(f"What changed since draft {before.version}: {told}"), body, cut, opened=opened, cls="change")


def _row(line: Line | Skipped, most: int) -> Markup:
    match line:
        case Kept(after=number, text=kept):
            return _line("kept", str(number), " ", text(kept[:most]))
        case Removed(before=number, words=words):
            return _line("removed", str(number), "\u2212", joined(_words(words, "del", most)))
        case Added(after=number, words=words):
            return _line("added", str(number), "+", joined(_words(words, "ins", most)))
        case Skipped(lines=count):
            return _line("skipped", "\u22ef", " ", text(counted(count, "unchanged line")))
        case _:
            assert_never(line)


def _line(kind: str, number: str, sign: str, content: Markup) -> Markup:
    return tag(
        "div",
        tag("span", text(number), cls="number"),
        tag("span", text(sign), cls="sign"),
        tag("span", content, cls="words"),
        cls=f"line {kind}",
    )


def _words(words: Iterable[Word], name: str, most: int) -> Iterator[Markup]:
    for word in words:
        shown = word.text[:most]
        most -= len(shown)
        if shown:
            yield tag(name, text(shown)) if word.changed else text(shown)


def _length(line: Line | Skipped) -> int:
    match line:
        case Kept(text=kept):
            return len(kept)
        case Removed(words=words) | Added(words=words):
            return sum(len(word.text) for word in words) + 15 * len(words)
        case Skipped():
            return 0
        case _:
            assert_never(line)


def _critique(event: DraftCritiqued, share: int) -> Markup:
    said = event.critique
    verdict = {True: " \u00b7 approved", False: " \u00b7 not approved", None: ""}[said.approved]
    who = plain(said.critic, NAME_LENGTH) or plain(event.path, NAME_LENGTH * 2)
    title = tag("h4", text(f"Critic {who}"), tag("span", bar(said.score), text(verdict), cls="score"))
    parts = (("Errors", said.errors), ("Weaknesses", said.weaknesses), ("Suggestions", said.suggestions))
    lists = [_list(name, lines, share // 4) for name, lines in (*parts, ("Strengths", said.strengths)) if lines]
    return tag("section", title, *lists, cls="critique")


def _list(name: str, lines: Sequence[str], share: int) -> Markup:
    """The lines that fit into `share` characters, each cut to a sane length, and how many more there are."""
    left = share
    items: list[Markup] = []
    for line in lines:
        shown = plain(line)
        left -= len(shown) + _LINE_COST
        if left < 0:
            break
        items.append(tag("li", text(shown)))
    if len(items) < len(lines):
        items.append(tag("li", text(f"and {len(lines) - len(items):,} more"), cls="cut"))
    return tag("div", tag("h5", text(name)), tag("ul", *items, dir="auto"), cls=f"said {name.lower()}")
