"""The publisher `pdf`: the draft as a PDF, by pandoc and the engine that it finds."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
from markdown_it import MarkdownIt

from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.context import Context
from redraft.actors.workflow.roles import publisher
from redraft.app.builtin.publishers.files import ContentOptions, content_of, save_file
from redraft.app.builtin.support.options import RELEASE, read_options
from redraft.app.builtin.support.process import run_process
from redraft.events.errors import PermanentError, StepError
from redraft.events.messages.content import Brief, Draft, Receipt


class PdfOptions(ContentOptions, frozen=True):
    """`path`: relative to the output folder (default: the run's id and `.pdf`).

    `engine` is pandoc's `--pdf-engine`, by its name alone: a path could be any program.
    """

    path: str = ""
    title: str = ""
    engine: Annotated[str, msgspec.Meta(pattern="^[a-z0-9-]{0,35}$")] = ""


def pdf_publisher(root: Path) -> Actor:
    """The actor `pdf`, which writes the draft below `root` as a PDF; options: PdfOptions.

    It raises PermanentError when pandoc is not installed or the path may not be written, StepError when pandoc fails.
    HTML and TeX in the text are shown as they stand, and images are left out: an engine would fetch what they name.
    """

    @publisher(name="pdf", version=RELEASE)
    async def save(draft: Draft, brief: Brief, context: Context) -> Receipt:
        options = read_options(PdfOptions, context.options, "pdf")
        if shutil.which("pandoc") is None:
            raise PermanentError("pdf: pandoc is not installed here; install it and a PDF engine (https://pandoc.org)")
        text = content_of(draft, context, whole=options.whole)
        page = await _make_pdf(text, options, context)
        return save_file("pdf", root, options.path or f"{context.run}.pdf", page, draft.version)

    return save


def plain_html(markdown: str) -> str:
    """The text without anything that an engine would load."""
    return str(MarkdownIt("commonmark", {"html": False}).enable("table").disable("image").render(markdown))


async def _make_pdf(text: str, options: PdfOptions, context: Context) -> bytes:
    with tempfile.TemporaryDirectory(prefix="redraft-pdf-") as folder:
        target = Path(folder) / "draft.pdf"
        engine = [f"--pdf-engine={options.engine}"] if options.engine else []
        title = [f"--metadata=title:{options.title}"] if options.title else []
        argv = ["pandoc", "--from=html", "--sandbox", "--standalone", *engine, *title, f"--output={target}"]
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8"}
        html = await asyncio.to_thread(plain_html, text)
        done = await run_process(argv, timeout=context.timeout, cwd=Path(folder), env=environment, stdin=html.encode())
        if done.code or not target.exists():
            lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.code}"]
            raise StepError(f"pandoc: {lines[-1]}")
        return target.read_bytes()
