"""Ruff as the critic `ruff` and the refiner `ruff-fix` for Python text."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace
from ruff import find_ruff_bin  # type: ignore[import-untyped]

from redraft.actors.workflow.context import Context
from redraft.actors.workflow.counting import families_of, is_of, ruff_measures
from redraft.actors.workflow.roles import critic, refiner
from redraft.app.builtin.programs.parsers import Finding, ruff_findings, ruff_issues, ruff_suggestions
from redraft.app.builtin.support.files import own_file, read_own_file
from redraft.app.builtin.support.module_names import inner_imports, needed_imports
from redraft.app.builtin.support.options import LISTED, RELEASE, changed_lines, listed, read_options
from redraft.app.builtin.support.per_file import changed_files, for_each, is_folder, merged, texts_of
from redraft.app.builtin.support.process import Finished, run_process
from redraft.app.builtin.support.workspace import (
    environment,
    read_last_lines,
    recordable,
    refuse_unfinished,
    working_time,
    workspace,
)
from redraft.events.errors import PermanentError
from redraft.events.messages.content import Brief, Critique, Draft, Issue, Number, Revision

_OUTPUT_LIMIT: Final = 16 * 1024 * 1024
_LARGEST_CONFIG: Final = 1024 * 1024
_LINES_AT_LEAST: Final = 10
_PYTHON: Final = (".py", ".pyi")
_SYNTAX: Final = "invalid-syntax"
_UNUSED: Final = "F401"
_UNTOLD: Final = Finding(0, 0, _SYNTAX, "")
_LEFT_ALONE: Final = ("I001", "UP", "RUF022", "RUF023", "PIE790")
"""Rules on order, on newer spellings and on a needless `pass`: what they change worked, and tests may depend on it."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][\w.-]{0,99}\.pyi?", re.ASCII)


class RuffOptions(msgspec.Struct, frozen=True):
    """The options of both actors. Without `config`, a configuration file, ruff reads none and uses its default rules.

    `select` and `ignore` are rules, such as `E` or `F401`; `target` is the oldest Python that the text is for, `py312`.
    """

    config: str = ""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    target: Annotated[str, msgspec.Meta(pattern="^(py3[0-9]{1,2})?$")] = ""


class FixOptions(RuffOptions, frozen=True):
    """Further options of the refiner: also apply fixes that may change what the code does; format as well."""

    unsafe: bool = False
    format: bool = False


def _count(findings: Sequence[Finding], options: Mapping[str, object]) -> dict[str, Number]:
    """Returns how many findings there are, and how many of each kind that was asked for."""
    counted: dict[str, Number] = dict.fromkeys(ruff_measures(options), 0)
    families = families_of(options)
    counted["findings"] = len(findings)
    for each in findings:
        rules = [rule for rule, kind in families.items() if each.code.startswith(rule) and is_of(each.code, kind)]
        kind = "syntax_errors" if each.code == _SYNTAX else families[max(rules, key=len)] if rules else ""
        if kind in counted:
            counted[kind] += 1
    return counted


@critic(name="ruff", version=RELEASE, measures=ruff_measures, hermetic=False)
async def ruff_critic(draft: Draft, brief: Brief, context: Context) -> Critique:
    """Judges Python text by ruff's findings; options: RuffOptions. See `ruff_score`; a syntax error scores 0.

    It counts the `findings`, the `syntax_errors` and, unless a configuration chooses the rules, those of each kind that
    is selected, `E` and `F` by default.

    An unused import that others may use through the module is only a suggestion. Of a draft of several files all that
    are Python are judged, each as a module by itself.

    Raises StepError past the deadline, PermanentError for wrong options or when ruff is missing.
    """
    options = read_options(RuffOptions, context.options, "ruff")
    if not is_folder(draft):
        return await _judge(draft.text, brief, options, context)
    modules = texts_of(draft, *_PYTHON)
    if not modules:
        raise PermanentError("ruff: no file of the draft is Python (.py, .pyi); judge it by another critic")
    said = await for_each(
        modules,
        lambda path, text: _judge(text, replace(brief, source=path), options, context),
    )
    whole = merged(draft, said, 0.0)
    if any(not each.score for each in said.values()):
        return whole
    text = "".join(modules.values())
    return replace(whole, score=ruff_score(int(whole.measures.get("findings", 0)), text))


async def _judge(text: str, brief: Brief, options: RuffOptions, context: Context) -> Critique:
    if not text.strip():
        return Critique(1.0, measures=_count([], context.options))
    report = await _report(text, options, brief, context, "ruff")
    if report is None:
        untold = (f"more findings than ruff can tell in {_OUTPUT_LIMIT:,} bytes; is it Python?",)
        return Critique(0.0, errors=untold, measures=_count([_UNTOLD], context.options))
    findings = ruff_findings(report)
    if broken := [each for each in findings if each.code == _SYNTAX]:
        errors, more = listed([str(each) for each in broken])
        located = _located(report, text, errors)
        return Critique(0.0, errors=errors, weaknesses=more, measures=_count(broken, context.options), issues=located)
    needed = _read_needed(text)
    faults = [each for each in findings if not _is_needed(each, needed)]
    errors, more = listed([str(each) for each in faults])
    kept = [
        f"{each}; kept, since its name or its effect may be needed" for each in findings if _is_needed(each, needed)
    ]
    return Critique(
        ruff_score(len(faults), text),
        errors=errors,
        weaknesses=more,
        suggestions=(*ruff_suggestions(report), *kept)[:LISTED],
        measures=_count(faults, context.options),
        issues=_located(report, text, errors),
    )


def _located(report: str, text: str, errors: Sequence[str]) -> tuple[Issue, ...]:
    """Returns the listed findings with their places, each once for each time that it is listed."""
    left = Counter(errors)
    found = []
    for each in ruff_issues(report, text):
        if left[each.text]:
            left[each.text] -= 1
            found.append(each)
    return tuple(found)


@refiner(name="ruff-fix", version=RELEASE)
async def ruff_refiner(draft: Draft, brief: Brief, context: Context) -> Revision:
    """Applies ruff's safe fixes; options: FixOptions. `changes` lists the findings that are gone.

    No import is removed that others may use through the module (that `__all__` lists or, without one, whose name is not
    private) or that may be there for what it does (of anything but Python's library); where such a one stands unused in
    a function, no import is. A text, or one file of several, with a syntax error comes back as it was. Raises as
    `ruff_critic` does.
    """
    options = read_options(FixOptions, context.options, "ruff-fix")
    if not is_folder(draft):
        return await _mend(draft.text, brief, options, context)
    made = await for_each(
        texts_of(draft, *_PYTHON),
        lambda path, text: _mend(text, replace(brief, source=path), options, context),
    )
    return changed_files(draft, made)


async def _mend(text: str, brief: Brief, options: FixOptions, context: Context) -> Revision:
    if not text.strip():
        return Revision(text)
    before = ruff_findings(await _report(text, options, brief, context, "ruff-fix") or "")
    if any(each.code == _SYNTAX for each in before):
        return Revision(text)
    unsafe = ("--unsafe-fixes",) if options.unsafe else ()
    needed = _read_needed(text)
    kept = (
        ("--unfixable", _UNUSED)
        if any(_is_needed(each, needed) and not needed[each.line, each.column] for each in before)
        else ()
    )
    argv = ("check", "--fix-only", *unsafe, *kept, *_rules(options))
    fixed = await _fix(argv, text, options, brief, context)
    after = ruff_findings(await _report(fixed, options, brief, context, "ruff-fix") or "")
    formatted = await _text(("format",), fixed, options, brief, context) if options.format else fixed
    return Revision(formatted, (*_list_fixed(before, after), *changed_lines(fixed, formatted, "ruff format")))


def ruff_score(findings: int, text: str) -> float:
    """`1 / (1 + 10 * findings / lines)`, where lines are those that are not blank, taken as 10 at least.

    So one finding in a hundred lines costs 0.09, one in ten lines 0.5, and each finding less always shows.
    """
    lines = sum(1 for line in text.splitlines() if line.strip())
    return round(1 / (1 + 10 * findings / max(lines, _LINES_AT_LEAST)), 6)


def _list_fixed(before: tuple[Finding, ...], after: tuple[Finding, ...]) -> tuple[str, ...]:
    left = Counter((each.code, each.message) for each in after)
    gone: list[str] = []
    for each in before:
        if left[each.code, each.message] > 0:
            left[each.code, each.message] -= 1
        else:
            gone.append(f"fixed {each}")
    first, more = listed(gone)
    return (*first, *more)


async def _report(text: str, options: RuffOptions, brief: Brief, context: Context, actor: str) -> str | None:
    """Ruff's JSON for a text; None when there is too much of it."""
    argv = ("check", "--output-format", "json", *_rules(options))
    finished = await _ruff(argv, text, options, brief, context, actor)
    return None if finished.truncated else finished.stdout.decode(errors="replace")


async def _text(argv: tuple[str, ...], text: str, options: FixOptions, brief: Brief, context: Context) -> str:
    """The text as ruff rewrites it; as it was when nothing would be left, since a draft cannot be empty."""
    finished = await _ruff(argv, text, options, brief, context, "ruff-fix")
    refuse_unfinished(finished, "ruff-fix", context.timeout, _OUTPUT_LIMIT)
    rewritten = finished.stdout.decode()
    return rewritten if rewritten.strip() else text


async def _fix(argv: tuple[str, ...], text: str, options: FixOptions, brief: Brief, context: Context) -> str:
    """The text with ruff's fixes; a last line that uses the imports that are needed holds them while ruff works."""
    needed = sorted({*_read_needed(text).values()} - {""})
    if not needed:
        return await _text(argv, text, options, brief, context)
    end = "" if text.endswith("\n") else "\n"
    guard = f"{end}_redraft_needs = ({', '.join(needed)},)\n"
    fixed = await _text(argv, text + guard, options, brief, context)
    return fixed.removesuffix(guard) if fixed.endswith(guard) else text


def _read_needed(text: str) -> dict[tuple[int, int], str]:
    """The imports that stay, and the names by which others may use them; those within functions have no such name.

    There are none where the text is no Python of the version that Redraft runs on.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
            return {**dict.fromkeys(inner_imports(tree), ""), **needed_imports(tree)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}


def _is_needed(finding: Finding, needed: dict[tuple[int, int], str]) -> bool:
    return finding.code == _UNUSED and (finding.line, finding.column) in needed


async def _ruff(
    argv: tuple[str, ...], text: str, options: RuffOptions, brief: Brief, context: Context, actor: str
) -> Finished:
    configuration = await asyncio.to_thread(_configuration, options.config, actor) if options.config else ""
    async with workspace() as folder:
        common = await asyncio.to_thread(_common, options, configuration, folder)
        finished = await run_process(
            (_program(actor), *argv, *common, "--stdin-filename", _file_name(brief.source), "-"),
            stdin=text.encode(),
            timeout=working_time(context.timeout),
            output_limit=_OUTPUT_LIMIT,
            cwd=folder,
            env=environment(folder, (), os.environ, actor),
        )
        if finished.timed_out:
            refuse_unfinished(finished, actor, context.timeout, _OUTPUT_LIMIT)
        if not finished.truncated and finished.code not in (0, 1):
            message = read_last_lines(finished, partial(recordable, folder=folder))
            raise PermanentError(f"{actor}: {message}; correct the options config, select, ignore or target")
    return finished


def _program(actor: str) -> str:
    try:
        return str(find_ruff_bin())
    except FileNotFoundError:
        raise PermanentError(f"{actor}: ruff is not installed beside Redraft; install it: pip install ruff") from None


def _rules(options: RuffOptions) -> tuple[str, ...]:
    """The flags that choose rules. What works is left alone, as formatting is, unless it is asked for."""
    is_chosen = options.select or options.config or (isinstance(options, FixOptions) and options.format)
    ignored = options.ignore if is_chosen else (*options.ignore, *_LEFT_ALONE)
    chosen = (("--select", options.select), ("--ignore", ignored))
    return tuple(f"{flag}={','.join(rules)}" for flag, rules in chosen if rules)


def _common(options: RuffOptions, configuration: str, folder: Path) -> tuple[str, ...]:
    """The flags of every call: no cache, one configuration file or none, the oldest Python to support."""
    target = (f"--target-version={options.target}",) if options.target else ()
    if not options.config:
        return ("--isolated", "--no-cache", *target)
    file = folder / PurePath(options.config).name
    file.write_text(configuration, encoding="utf-8")
    return (f"--config={file}", "--no-cache", *target)


def _configuration(name: str, actor: str) -> str:
    """Returns what is in a configuration file; raises PermanentError for one that leads to another file."""
    what = f"{actor}: option config"
    if not own_file(name, what).is_file():
        raise PermanentError(f"{what} names {name!r}, and there is no such file in {Path.cwd()}")
    text = read_own_file(name, what, _LARGEST_CONFIG)
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PermanentError(f"{what}: {name!r} is not TOML: {error}; correct it") from None
    project = found.get("tool", {})
    own = project.get("ruff", {}) if isinstance(project, dict) else {}
    if "extend" in found or (isinstance(own, dict) and "extend" in own):
        raise PermanentError(f"{what}: {name!r} extends another file; write its rules into this one")
    return text


def _file_name(source: str) -> str:
    name = PurePath(source).name
    return name if _NAME.fullmatch(name) else "draft.py"
