"""The actors `llm`: a language model that writes, judges and improves. What it judges is data to it, never a rule."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Coroutine, Iterable, Sequence
from statistics import median
from typing import Final, TypeVar

import msgspec

from redraft.actors.editing.edits import check_only_issues
from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.context import Context
from redraft.actors.workflow.roles import critic, generator, refiner
from redraft.app.builtin.llm.prompt import (
    CriticOptions,
    LlmOptions,
    Prompt,
    RefinerOptions,
    check_options,
    is_hermetic,
    read_prompt,
)
from redraft.app.builtin.llm.reply import (
    CritiqueReply,
    PatchReply,
    Reply,
    RevisionReply,
    critique_fault,
    critique_reply,
    declined_of,
    folder_fault,
    patch_fault,
    patched,
    revision_fault,
)
from redraft.app.builtin.support.options import RELEASE, read_options
from redraft.app.builtin.support.per_file import is_folder
from redraft.app.models.configuration import INSTALL, Models
from redraft.app.models.estimates import CHARACTERS
from redraft.events.errors import ContentError, PermanentError
from redraft.events.messages.content import Brief, Critique, Draft, History, Issue, Mark, Revision
from redraft.events.messages.folders import FOLDER
from redraft.events.messages.plan import Criterion, measure_name
from redraft.events.messages.scales import UNIT, Scale, mean_of, on_scale, to_share

_CRITERIA = "Instead of one score, score each of these criteria, with a reason and a word-by-word quote from the draft:"
_ISSUES = """Instead of suggestions and errors, list issues: each one thing to change, with a quote from the draft.
Quote the place word by word, as short as it can be found by, and with what should be replaced: of a quote that stands
several times the first is meant. Where something is missing, quote the words at which it should stand."""

_MEASURES = "Also count each of these in the draft, and give the number:"
_LEFT_OUT = " (null where that cannot be said of this draft)"

_USUAL_MARGIN = 0.1
"""How near to the borderline a score is judged again, as a share of the scale."""

NO_HISTORY: Final = History()
"""The history of a step whose plan gives it none."""

T = TypeVar("T")
R = TypeVar("R", bound=str | Reply)


def llm_generator(models: Models) -> Actor:
    """The generator `llm`: writes what the brief asks for; options: LlmOptions, prompt `generator`."""

    @generator(name="llm")
    async def write(
        brief: Brief, context: Context, critique: Critique | None = None, history: History = NO_HISTORY
    ) -> str:
        options = read_options(LlmOptions, context.options, "llm")
        files = FILES if brief.media_type == FOLDER else ""
        prompt = read_prompt(options.prompt or "generator", _joined(files, options.instructions))
        said = remarks_on(critique, history, options.history)
        texts = {"BRIEF": brief.text, **said, **parts_of(context)}
        kind = brief.media_type
        return await ask_model(models, options, context, prompt, texts, str, lambda given: folder_fault(given, kind))

    return write


def llm_critic(models: Models) -> Actor:
    """The critic `llm`: judges a draft on its scale, once or as the median of several; options: CriticOptions.

    The verdict is left to the condition, unless the option `verdict` gives it to the model.
    """

    @critic(name="llm", version=RELEASE, hermetic=is_hermetic)
    async def judge(draft: Draft, brief: Brief, context: Context, history: History = NO_HISTORY) -> Critique:
        options = check_options(read_options(CriticOptions, context.options, "llm"))
        judged = _judged(options, context)
        texts = {"BRIEF": brief.text, "DRAFT": draft.text, **remarks_on(None, history, options.history)}
        first = await _judge_once(models, options, context, draft, texts, judged)
        if options.samples == 1 or not _is_borderline(judged.share(first), options, judged):
            return _critique([first], judged)
        asking = [_judge_once(models, options, context, draft, texts, judged) for _ in range(options.samples - 1)]
        return _critique([first, *await all_of(asking)], judged)

    return judge


def llm_refiner(models: Models) -> Actor:
    """The refiner `llm`: improves a draft by what was said of it; options: RefinerOptions, prompt `refiner`.

    It gives the text, or with `patch`, and for a draft of several files, edits of it, and the changes, or says what it
    would not change and why; when that is everything, it is done.
    """

    @refiner(name="llm")
    async def improve(
        draft: Draft, critique: Critique | None, history: History, brief: Brief, context: Context
    ) -> Revision:
        options = read_options(RefinerOptions, context.options, "llm")
        texts = {"BRIEF": brief.text, "DRAFT": draft.text, **remarks_on(critique, history, options.history)}
        texts |= parts_of(context)
        asked = _Asked(models, options, context, texts, FILES if is_folder(draft) else "")
        held = (context.only_issues or options.only_issues) and not history.advice
        if not options.patch and not is_folder(draft):
            return await _whole_text(asked, draft, critique, held=held)
        try:
            return await _patch(asked, draft, critique, held=held)
        except ContentError:
            whole = await _whole_text(asked, draft, critique, held=held)
            return msgspec.structs.replace(whole, changes=(*whole.changes, NO_PATCH))

    return improve


NO_PATCH: Final = "the edits did not apply, so the whole text was asked for"
"""The change that is noted where a patch was asked for in vain."""

PATCH_ASKS: Final = 2
"""How often edits are asked for, at most, before the whole text is."""

_ONLY_ISSUES = "Change nothing but what an issue of the critique quotes: everything else has to stay word by word."

_EDITS = """Do not write the text out: give edits. The quote of each stands in the draft exactly once, sign by sign, and
no two overlap; its replacement comes in its place, and everything outside of the quotes stays as it is."""

FILES: Final = """The draft has several files. Each begins with a line of `=== ` and its path, as in `=== src/name.py`;
what may stand there behind ` | ` says how the file is written, and is no part of the path. A line within a file that
would begin with `=== ` has a backslash before it. Paths are relative, and name nothing hidden."""

_FILE_EDITS = """Say in `file` which file an edit changes: its quote then stands exactly once in that file. To add a
file, give an edit without `file`: quote the line that begins another file, and put the new file's line and content
before it in the replacement. To take a file out, quote its line and all of it."""


class _Asked(msgspec.Struct, frozen=True):
    """The configured models, the options and the prompt material with which a refiner asks a model."""

    models: Models
    options: RefinerOptions
    context: Context
    texts: dict[str, str]
    files: str = ""

    def prompt(self, usual: str, *, held: bool, more: str = "") -> Prompt:
        """Returns the step's prompt, or else this one."""
        more = _joined(more, self.files, _ONLY_ISSUES if held else "", self.options.instructions)
        return read_prompt(self.options.prompt or usual, more)


def _joined(*parts: str) -> str:
    return "\n\n".join(filter(None, parts))


async def _whole_text(asked: _Asked, draft: Draft, critique: Critique | None, *, held: bool) -> Revision:
    issues = critique.issues if critique else ()

    def fault(given: RevisionReply) -> str:
        if wrong := revision_fault(given, draft.text):
            return wrong
        text = revision(given, draft, issues).text
        try:
            if held:
                check_only_issues(draft.text, text, issues)
        except ContentError as error:
            return f"You {error}."
        return folder_fault(text, draft.media_type)

    prompt = asked.prompt("refiner", held=held)
    reply = await ask_model(asked.models, asked.options, asked.context, prompt, asked.texts, RevisionReply, fault)
    return revision(reply, draft, issues)


async def _patch(asked: _Asked, draft: Draft, critique: Critique | None, *, held: bool) -> Revision:
    """Returns the edits that a model gives. Raises ContentError when they do not apply."""
    options = msgspec.structs.replace(asked.options, asks=min(asked.options.asks, PATCH_ASKS))
    more = _joined(_EDITS if options.prompt else "", _FILE_EDITS if asked.files else "")
    prompt = asked.prompt("patch", held=held, more=more)

    def fault(given: PatchReply) -> str:
        if wrong := patch_fault(given, draft.text, critique, only_issues=held):
            return wrong
        return folder_fault(patched(given, draft.text, critique).text, draft.media_type)

    reply = await ask_model(asked.models, options, asked.context, prompt, asked.texts, PatchReply, fault)
    made = patched(reply, draft.text, critique)
    written = sum(len(each.model_dump_json()) for each in reply.edits)
    return msgspec.structs.replace(made, saved_tokens=max(0, len(made.text) - written) // CHARACTERS)


def revision(reply: RevisionReply, draft: Draft, issues: Sequence[Issue] = ()) -> Revision:
    """A refiner's reply as a Revision of this draft; it keeps the draft's last line end, and adds no code fence."""
    text = draft.text if reply.text is None else _as_before(reply.text, draft.text)
    declined, refusals = declined_of(reply.declined, issues)
    changed = tuple(reply.changes)
    return Revision(text, changes=changed, exit=text == draft.text, declined=declined, refusals=refusals)


def remarks_on(critique: Critique | None, history: History, rounds: int | None = None) -> dict[str, str]:
    """Returns the critiques of the draft and the latest rounds (None: all), with the texts of their earlier drafts if
    these are there, as texts for a model.
    """
    shown = history.rounds if rounds is None else history.rounds[max(0, len(history.rounds) - rounds) :]
    tried = msgspec.structs.replace(history, rounds=shown, advice=(), drafts=(), own=None)
    of_rounds = {each.draft for each in shown}
    return {
        "ADVICE OF PEOPLE": "\n".join(history.advice),
        "CRITIQUE": _json(critique) if critique else "",
        "HISTORY": _json(tried) if shown else "",
    } | {f"DRAFT {each.version}": each.text for each in history.drafts if each.ref in of_rounds}


def parts_of(context: Context) -> dict[str, str]:
    """The finished parts of a larger whole, such as the chapters before this one."""
    return {f"FINISHED PART {number}": each.text for number, each in enumerate(context.outputs, 1)}


def values_of(context: Context, names: Sequence[str]) -> dict[str, str]:
    """Returns these values of the run's state as a text for a model; those that are not there are left out."""
    known = {name: context.state[name] for name in names if name in context.state}
    return {"STATE": msgspec.json.format(msgspec.json.encode(known)).decode()} if known else {}


async def ask_model(
    models: Models,
    options: LlmOptions,
    context: Context,
    prompt: Prompt,
    texts: dict[str, str],
    reply: type[R],
    fault: Callable[[R], str] = lambda _: "",
) -> R:
    """See `ask.ask`; the model is given the values of the state that its options name, and lessons.

    The library that speaks to models takes a second to import: beside the event loop.
    """
    try:
        module = await asyncio.to_thread(importlib.import_module, "redraft.app.builtin.llm.ask")
    except ImportError:
        raise PermanentError(f"llm: {INSTALL}") from None
    texts = texts | values_of(context, options.state)
    if context.lessons and options.lessons:
        texts["LESSONS OF EARLIER RUNS"] = msgspec.json.format(msgspec.json.encode(context.lessons)).decode()
    answer: R = await module.ask(models, options, context, prompt, texts, reply, fault)
    return answer


async def all_of(asking: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Returns the results of these calls, made in parallel.

    When one fails it still waits for the others, as they are paid for.
    """
    replies = await asyncio.gather(*asking, return_exceptions=True)
    for each in replies:
        if isinstance(each, BaseException):
            raise each
    return [each for each in replies if not isinstance(each, BaseException)]


class _Judged(msgspec.Struct, frozen=True):
    """The scale and criteria of a critic: those of the plan or, if it declares none, the options' scale, as shares.

    `measures` are what the plan has it count, each with a sentence that says what is meant. It may leave out a number
    of one whose name ends with `?`.
    """

    scale: Scale
    criteria: tuple[Criterion, ...]
    declared: bool
    measures: dict[str, str] = {}

    def share(self, reply: CritiqueReply) -> float:
        """The score of a reply as a share, 0..1."""
        if reply.score is not None:
            return to_share(reply.score, self.scale)
        marks = reply.marks
        shares = [to_share(marks[each.name].score, each.scale or self.scale) for each in self.criteria]
        return mean_of(shares, [each.weight for each in self.criteria])

    @property
    def given_on(self) -> Scale:
        """The scale of the scores that the critic returns."""
        return self.scale if self.declared else UNIT

    def given(self, share: float) -> float:
        """A share as the score that the critic returns."""
        return on_scale(share, self.scale) if self.declared else share


def _judged(options: CriticOptions, context: Context) -> _Judged:
    low, high = options.scale
    said = {measure_name(name): says for name, says in options.measures.items()}
    measures = {name: said.get(measure_name(name)) or measure_name(name) for name in context.measures}
    if context.scale is not None or context.criteria:
        return _Judged(context.scale or UNIT, context.criteria, declared=True, measures=measures)
    if options.criteria:
        raise PermanentError("llm: the plan does not declare the criteria of its options; begin another run")
    return _Judged((low, high), (), declared=False, measures=measures)


async def _judge_once(
    models: Models, options: CriticOptions, context: Context, draft: Draft, texts: dict[str, str], judged: _Judged
) -> CritiqueReply:
    low, high = judged.scale
    lines = "\n".join(
        f"- {each.name}: {each.says or each.name} (from {of[0]:g} to {of[1]:g})"
        for each in judged.criteria
        for of in [each.scale or judged.scale]
    )
    counts = "\n".join(
        f"- {measure_name(name)}: {says}{_LEFT_OUT if name.endswith('?') else ''}"
        for name, says in judged.measures.items()
    )
    wanted = (
        _ISSUES if options.issues else "",
        f"{_CRITERIA}\n{lines}" if lines else "",
        f"{_MEASURES}\n{counts}" if counts else "",
        FILES if is_folder(draft) else "",
        options.instructions,
    )
    asked = _joined(*wanted)
    prompt = read_prompt(options.prompt or "critic", asked, {"low": f"{low:g}", "high": f"{high:g}"})
    reply = critique_reply(
        judged.scale, judged.criteria, judged.measures, verdict=options.verdict, issues=options.issues
    )
    return await ask_model(
        models, options, context, prompt, texts, reply, lambda given: critique_fault(given, draft.text)
    )


def _is_borderline(share: float, options: CriticOptions, judged: _Judged) -> bool:
    """Returns whether a score is near the borderline, which is on the declared scale; where it cannot be, a share."""
    if options.borderline is None:
        return True
    scale = judged.given_on
    if not scale[0] <= options.borderline <= scale[1]:
        scale = UNIT
    if not scale[0] <= options.borderline <= scale[1]:
        low, high = judged.given_on
        raise PermanentError(
            f"llm: option borderline is {options.borderline:g}; write a score from {low:g} to {high:g}"
        )
    margin = _USUAL_MARGIN if options.margin is None else options.margin / (scale[1] - scale[0])
    return abs(share - to_share(options.borderline, scale)) <= margin + 1e-9


def _critique(replies: Sequence[CritiqueReply], judged: _Judged) -> Critique:
    """Returns the reply whose score is the median, with the median of each criterion and measure."""
    shares = [judged.share(each) for each in replies]
    reply = replies[shares.index(median(shares))]
    scores = tuple(map(judged.given, shares))
    return Critique(
        judged.given(median(shares)),
        tuple(reply.strengths),
        tuple(reply.weaknesses),
        tuple(reply.suggestions),
        approved=reply.approved,
        samples=scores if len(scores) > 1 else (),
        criteria=tuple(
            Mark(name, median(each.marks[name].score for each in replies), mark.confidence, mark.reason, mark.quote)
            for name, mark in reply.marks.items()
        ),
        measures={
            name: median(each.counts[name] for each in replies if name in each.counts)
            for name in map(measure_name, judged.measures)
            if any(name in each.counts for each in replies)
        },
        issues=tuple(
            Issue(each.message, each.quote, None, each.criterion, each.severity, each.replacement)
            for each in reply.located
        ),
    )


def _json(value: msgspec.Struct) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def _as_before(text: str, before: str) -> str:
    """The text as the draft before was framed: without a fence that was not there, and with the same end."""
    if text.startswith("```") and not before.startswith("```") and text.rstrip().endswith("```"):
        text = text.rstrip()[:-3].partition("\n")[2]
    ending = before[len(before.rstrip("\n")) :]
    return text.rstrip("\n") + ending
