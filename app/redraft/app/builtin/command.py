"""Any program as an actor named `command`: a critic, a generator or a refiner. A plan has to name it and its program.

- critique: {actor: command, with: {run: [mypy, "{file}"], input: file, suffix: .py, parser: mypy}}
- refine: {actor: command, with: {run: [black, -q, "-"]}}
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from redraft.actors.roles import Context, critic, generator, refiner
from redraft.app.builtin.command_options import CriticOptions, WriterOptions, command_options
from redraft.app.builtin.command_run import Answer, run_command
from redraft.app.builtin.parsers import PARSERS
from redraft.app.builtin.release import RELEASE
from redraft.app.builtin.summary import changed_lines, listed
from redraft.events.content import Brief, Critique, Draft, Revision
from redraft.events.errors import PermanentError, StepError

_SECRET_LENGTH: Final = 8
"""Characters from which a passed variable's value in a text is taken for the secret itself."""


@critic(name="command", version=RELEASE)
async def command_critic(draft: Draft, brief: Brief, context: Context) -> Critique:
    """Runs a program on the draft and reads its exit code and output; options: CriticOptions.

    With parser `exit` the score is 1 when the exit code is in `ok_codes`, else 0 with the last lines of output as the
    error. With any other it is `max(0, 1 - cost_per_finding * findings)`, and a program that fails without a finding
    scores 0. The verdict is left to the condition. Raises StepError past the deadline, PermanentError for wrong
    options, a program that cannot be started, or output above the limit.
    """
    options = command_options(CriticOptions, context.options)
    answer = await run_command(options, draft.text, brief.source, context)
    parse = None if options.parser == "exit" else PARSERS[options.parser]
    findings = [finding for stream in answer.printed for finding in parse(stream)] if parse else []
    if findings:
        score = max(0.0, round(1 - options.cost_per_finding * len(findings), 6))
        errors, more = listed([str(each) for each in findings])
        return Critique(score, errors=errors, weaknesses=more)
    if options.is_ok(answer.code):
        return Critique(1.0)
    return Critique(0.0, errors=(answer.failure,))


@generator(name="command", version=RELEASE)
async def command_generator(brief: Brief, context: Context) -> str:
    """Runs a program on the brief's text and gives what it wrote; options and errors are the refiner's."""
    options = command_options(WriterOptions, context.options)
    return _written(await run_command(options, brief.text, brief.source, context), options)


@refiner(name="command", version=RELEASE)
async def command_refiner(draft: Draft, critique: Critique | None, brief: Brief, context: Context) -> Revision:
    """Runs a program on the draft and gives what it wrote; options: WriterOptions. `{critique}` is a JSON file.

    Raises StepError when the program passes the deadline, ends with a code that is not in `ok_codes`, or writes
    nothing; PermanentError for wrong options, a program that cannot be started, or an output that is too large, not
    UTF-8, or holds the value of a variable in `env_pass`.
    """
    options = command_options(WriterOptions, context.options)
    said = msgspec.json.encode(critique or Critique(0.0))
    answer = await run_command(options, draft.text, brief.source, context, critique=said)
    text = _written(answer, options)
    return Revision(text, changed_lines(draft.text, text, Path(options.run[0]).name))


def _written(answer: Answer, options: WriterOptions) -> str:
    if not options.is_ok(answer.code):
        raise StepError(f"{answer.name}: {answer.failure}; the text is as it was")
    raw = answer.stdout if options.output == "stdout" else answer.file
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise PermanentError(
            f"{answer.name}: byte {error.start + 1} of what it wrote is not UTF-8; make it write UTF-8"
        ) from None
    if not text.strip():
        raise StepError(f"{answer.name}: it wrote nothing; the text is as it was")
    for name in options.env_pass:
        if len(os.environ.get(name, "")) >= _SECRET_LENGTH and os.environ[name] in text:
            raise PermanentError(f"{answer.name}: it wrote the value of {name} into the text; see that it does not")
    return text
