"""The publisher `git`: a commit of the draft in a repository, made once however often it is asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.context import Context
from redraft.actors.workflow.roles import publisher
from redraft.app.builtin.publishers.files import ContentOptions, content_of, publication_key, save_file
from redraft.app.builtin.support.files import split_path
from redraft.app.builtin.support.options import RELEASE, read_options
from redraft.app.builtin.support.process import Finished, run_process
from redraft.events.errors import PermanentError, StepError
from redraft.events.messages.content import Brief, Draft, Receipt

TRAILER: Final = "Redraft-Key"
"""The trailer of a commit's message that holds the publication's idempotency key."""


class GitOptions(ContentOptions, frozen=True):
    """`path`: of the file, relative to the repository. `repository`: its folder, relative to the output folder.

    `message` is the commit's first line, in which `{run}` is the run's id and `{version}` the number of the draft;
    `author` is `Name <address>`.
    """

    path: str = ""
    repository: str = "."
    message: str = "Publish draft {version} of run {run}"
    author: str = "Redraft <redraft@localhost>"


def git_publisher(root: Path) -> Actor:
    """The actor `git`, which commits the draft to a repository below `root`, on the branch that is checked out.

    Options: GitOptions. Only this file is committed; what else is changed or staged stays as it is. A commit with the
    same key in its history is not made again, and one that would change nothing is not made. It does not push.
    """

    @publisher(name="git", version=RELEASE)
    async def commit(draft: Draft, brief: Brief, context: Context) -> Receipt:
        options = read_options(GitOptions, context.options, "git")
        if not options.path:
            raise PermanentError("git: no path is given; name the file in the repository that the draft is kept in")
        text = content_of(draft, context, whole=options.whole)
        git = _Git(_repository(root, options.repository), context.timeout)
        key = publication_key(draft, context, text)
        known = await git.found(key)
        if not known:
            known = await _commit_draft(git, options, draft, context, text, key)
        return Receipt(f"{git.folder}@{known[:12]}:{options.path}", f"commit {known}, version {draft.version}")

    return commit


async def _commit_draft(git: _Git, options: GitOptions, draft: Draft, context: Context, text: str, key: str) -> str:
    """The commit that now holds the draft; the last one when the file was so already."""
    path = "/".join(split_path(options.path))
    save_file("git", git.folder, path, text.encode(), draft.version)
    name, _, address = options.author.rstrip(">").partition(" <")
    subject = options.message.replace("{run}", context.run).replace("{version}", str(draft.version))
    message = f"{subject.splitlines()[0] if subject.strip() else 'Publish'}\n\n{TRAILER}: {key}\n"
    await git.call("add", "--", path)
    if (await git.call("diff", "--cached", "--quiet", "HEAD", "--", path, codes=(0, 1, 128))).code != 0:
        identity = ("-c", f"user.name={name}", "-c", f"user.email={address or 'redraft@localhost'}")
        await git.call(*identity, "commit", "--quiet", "--no-verify", "-m", message, "--", path)
    return (await git.call("rev-parse", "HEAD")).stdout.decode().strip()


def _repository(root: Path, folder: str) -> Path:
    parts = () if folder in ("", ".") else split_path(folder)
    found = root.joinpath(*parts)
    if found.resolve() != root.resolve().joinpath(*parts) or (found / ".git").is_symlink():
        raise PermanentError(f"git: {found} leads elsewhere through a symbolic link; name the repository itself")
    if not (found / ".git").exists():
        raise PermanentError(
            f"git: {found} is not a repository; make one with `git init`, or correct the option repository"
        )
    return found


class _Git:
    """Calls of git in one repository. No hook, editor, prompt or configuration of the user's takes part."""

    def __init__(self, folder: Path, timeout: float) -> None:
        self.folder = folder
        self._timeout = timeout
        self._environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

    async def found(self, key: str) -> str:
        """The commit with this key in its message; empty when there is none."""
        grep = ("log", "--format=%H", "--max-count=1", "--fixed-strings", f"--grep={TRAILER}: {key}")
        return (await self.call(*grep, codes=(0, 128))).stdout.decode().strip()

    async def call(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> Finished:
        """Returns the output of git. Raises StepError when it fails, PermanentError when there is no git."""
        off = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false")
        done = await run_process(
            ("git", *off, *arguments), timeout=self._timeout, cwd=self.folder, env=self._environment
        )
        if done.timed_out or done.code not in codes:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.code}"]
            raise StepError(f"git {arguments[0]}: {lines[-1]}")
        return done
