"""Publishing to files: whole or not at all, inside one folder and nowhere else; and to a stream."""

from __future__ import annotations

import gc
import io
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from redraft.actors.workflow.context import Context
from redraft.app.builtin.publishers.files import file_publisher, stdout_publisher
from redraft.app.builtin.support.files import write_confined
from redraft.events.errors import PermanentError
from redraft.events.messages.content import Brief, Receipt, new_draft
from redraft.events.messages.plan import Option

DRAFT = new_draft(3, "Tides follow the moon.\r\n")
BRIEF = Brief("Tides", source="notes/essay.md")


def step(**options: Option) -> Context:
    return Context("run-7", "publish", 1, 30.0, "key", options)


def published(root: Path, brief: Brief = BRIEF, **options: Option) -> Receipt:
    receipt = file_publisher(root)(DRAFT, brief, step(**options))
    assert isinstance(receipt, Receipt)
    return receipt


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_the_file_is_named_after_the_source_and_holds_the_text_byte_for_byte(tmp_path: Path) -> None:
    receipt = published(tmp_path)

    assert receipt == Receipt(str(tmp_path / "essay.redraft.md"), "24 bytes, version 3")
    assert (tmp_path / "essay.redraft.md").read_bytes() == DRAFT.text.encode()
    assert names(tmp_path) == ["essay.redraft.md"]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("", "run-7.redraft.txt"),
        ("-", "run-7.redraft.txt"),
        ("<stdin>", "run-7.redraft.txt"),
        ("/", "run-7.redraft.txt"),
        ("..", "run-7.redraft.txt"),
        ("a\nb.md", "run-7.redraft.txt"),
        ("README", "README.redraft"),
        ("/etc/passwd.tar.gz", "passwd.tar.redraft.gz"),
        (".bashrc", "bashrc.redraft"),
        ("{run}.md", "{run}.redraft.md"),
    ],
)
def test_any_source_gives_a_name_in_the_folder(tmp_path: Path, source: str, name: str) -> None:
    published(tmp_path, Brief("x", source=source))

    assert names(tmp_path) == [name]


def test_the_path_may_name_folders_the_run_and_the_version(tmp_path: Path) -> None:
    receipt = published(tmp_path, path="out/{run}/v{version}-{version}.md")

    assert receipt.location == str(tmp_path / "out/run-7/v3-3.md")
    assert Path(receipt.location).read_text() == DRAFT.text.replace("\r\n", "\n")


def test_publishing_again_changes_nothing_and_gives_the_same_receipt(tmp_path: Path) -> None:
    first = published(tmp_path)
    before = (tmp_path / "essay.redraft.md").stat()

    assert published(tmp_path) == first
    after = (tmp_path / "essay.redraft.md").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_an_existing_file_is_replaced_and_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "essay.redraft.md"
    target.write_text("old")
    target.chmod(mode)

    published(tmp_path)

    assert target.read_bytes() == DRAFT.text.encode()
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_a_new_file_has_the_mode_that_the_umask_gives(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")

    published(tmp_path)

    assert (tmp_path / "essay.redraft.md").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    "paths",
    [
        ("sub/HEAD", "sub/refs/x", "sub/objects/x"),
        ("sub/objects/x", "sub/refs/x", "sub/head"),
        ("sub/commondir", "sub/HEAD"),
        ("HEAD", "objects/a/b", "refs/a"),
    ],
)
def test_no_folder_becomes_a_repository_that_git_does_what_it_says(tmp_path: Path, paths: tuple[str, ...]) -> None:
    for path in paths[:-1]:
        write_confined(tmp_path, path, b"x")
    with pytest.raises(PermanentError, match="the folder would be a Git repository, or is one"):
        write_confined(tmp_path, paths[-1], b"x")
    assert not (tmp_path / paths[-1]).exists()


def test_nothing_is_written_into_a_bare_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "mirror"], check=True)
    before = (tmp_path / "mirror" / "config").read_bytes()
    with pytest.raises(PermanentError, match="the folder would be a Git repository, or is one"):
        write_confined(tmp_path, "mirror/config", b"[core]")
    assert (tmp_path / "mirror" / "config").read_bytes() == before


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/etc/essay.md", "is absolute"),
        ("//etc/essay.md", "is absolute"),
        ("../essay.md", "leads up"),
        ("out/../../essay.md", "leads up"),
        ("out/..", "leads up"),
        ("..", "leads up"),
        (".", "names a folder"),
        (".git/config", "'.git', which is hidden"),
        ("site/.GIT/hooks/pre-commit", "'.GIT', which is hidden"),
        ("GIT~1/config", "'GIT~1', which is hidden"),
        ("mirror.git/hooks/post-receive", "leads into a repository's own folder"),
        (".envrc", "'.envrc', which is hidden"),
        (".github/workflows/run.yml", "'.github', which is hidden"),
        ("redraft.toml", "a file of Redraft's settings"),
        ("folder/Redraft.toml", "a file of Redraft's settings"),
        ("./", "names a folder"),
        ("out/", "names a folder"),
        ("out/.", "names a folder"),
        ("~/essay.md", "starts in a home folder"),
        ("a\0b.md", "characters that no file name should"),
        ("a\nb.md", "characters that no file name should"),
        ("\ud800.md", "characters that no file name should"),
        ("..\\essay.md", "characters that no file name should"),
        ("{home}/essay.md", "option path holds {home}; choose from run, version"),
        ("{versoin}.md", "did you mean 'version'?"),
        ("{run.__class__}.md", "option path holds {run.__class__}"),
        ("x" * 300 + ".md", "File name too long"),
        ("folder", "is a folder"),
        ("file.txt/essay.md", "there is a file where a folder is needed"),
        ("fifo", "is no plain file"),
        ("read-only.md", "is read-only"),
        ("link-out/essay.md", "'link-out' on the way to the file is a symbolic link"),
        ("folder/link-up/essay.md", "'link-up' on the way to the file is a symbolic link"),
        ("link-inside/essay.md", "is a symbolic link"),
        ("link-nowhere/essay.md", "is a symbolic link"),
        ("link.md", "'link.md' is a symbolic link"),
        ("dangling.md", "'dangling.md' is a symbolic link"),
    ],
)
def test_paths_that_lead_away_or_to_no_plain_file_are_refused(tmp_path: Path, path: str, said: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "folder", outside):
        folder.mkdir(parents=True)
    (outside / "victim.md").write_text("untouched")
    (root / "file.txt").write_text("a file")
    (root / "read-only.md").write_text("keep")
    (root / "read-only.md").chmod(0o444)
    (root / "link-out").symlink_to(outside)
    (root / "folder" / "link-up").symlink_to("../../outside")
    (root / "link-inside").symlink_to("folder")
    (root / "link-nowhere").symlink_to(tmp_path / "nowhere")
    (root / "link.md").symlink_to(outside / "victim.md")
    (root / "dangling.md").symlink_to(outside / "new.md")
    os.mkfifo(root / "fifo")
    before = names(tmp_path)

    with pytest.raises(PermanentError) as raised:
        published(root, path=path)

    assert str(raised.value).startswith("file: ")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert names(tmp_path) == before
    assert (outside / "victim.md").read_text() == "untouched"


def test_a_folder_that_becomes_a_link_while_we_look_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "out").mkdir(parents=True)
    outside.mkdir()

    def swapped(path: str, **how: Any) -> os.stat_result:
        found = look(path, **how)
        if path == "out" and not (root / "out").is_symlink():
            (root / "out").rmdir()
            (root / "out").symlink_to(outside)
        return found

    look = os.stat
    monkeypatch.setattr("redraft.app.builtin.support.files.os.stat", swapped)

    with pytest.raises(PermanentError, match=r"'out/essay\.md' cannot be written"):
        published(root, path="out/essay.md")
    assert list(outside.iterdir()) == []


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="make the output folder first"):
        published(tmp_path / "nowhere")
    assert names(tmp_path) == []


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="file: there is no option 'pth'; did you mean 'path'"):
        published(tmp_path, pth="x")


def in_a_process(script: str, *arguments: str) -> str:
    code = textwrap.dedent(script)
    finished = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


FULL_DISK = """
    import resource, sys
    from pathlib import Path
    from redraft.app.builtin.support.files import write_confined
    from redraft.events.errors import PermanentError
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    try:
        write_confined(Path(sys.argv[1]), "essay.md", b"x" * 100_000)
    except PermanentError as error:
        print(error)
"""


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "essay.md").write_text("old")

    said = in_a_process(FULL_DISK, str(tmp_path))

    assert said.startswith("'essay.md' cannot be written in ")
    assert said.endswith("File too large; free some space, or name another path")
    assert (tmp_path / "essay.md").read_text() == "old"
    assert names(tmp_path) == ["essay.md"]


UNWRITABLE = """
    import os, sys
    from pathlib import Path
    from redraft.app.builtin.support.files import write_confined
    from redraft.events.errors import PermanentError
    if os.getuid() == 0:
        os.setegid(65534)
        os.seteuid(65534)
    try:
        write_confined(Path(sys.argv[1]), "essay.md", b"new")
    except PermanentError as error:
        print(error)
"""


def test_a_folder_that_may_not_be_written_is_said_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    with_all_access = Path(os.environ.get("TMPDIR", "/tmp")).resolve()
    folder = with_all_access / f"redraft-test-{os.getpid()}"
    folder.mkdir(mode=0o555)
    try:
        said = in_a_process(UNWRITABLE, str(folder))
        left = names(folder)
    finally:
        folder.chmod(0o755)
        folder.rmdir()

    assert said.endswith("Permission denied; allow the worker to write there, or name another path")
    assert left == []


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from redraft.app.builtin.support.files import write_confined
    root, new = Path(sys.argv[1]), b"new" * 50_000

    def write_and_die(at):
        lines = 0
        def trace(frame, event, arg):
            nonlocal lines
            if frame.f_code.co_filename.endswith("support/files.py") and event == "line":
                lines += 1
                if lines == at:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace
        sys.settrace(trace)
        write_confined(root, "essay.md", new)
        os._exit(0)

    seen, at, status = [], 0, None
    while status != 0:
        at += 1
        (root / "essay.md").write_bytes(b"old")
        child = os.fork()
        if child == 0:
            write_and_die(at)
        _, status = os.waitpid(child, 0)
        seen.append({b"old": "old", new: "new"}.get((root / "essay.md").read_bytes(), "broken"))
    print(*seen)
"""


def test_killed_at_any_line_the_file_is_the_old_or_the_new(tmp_path: Path) -> None:
    seen = in_a_process(KILLED, str(tmp_path)).split()

    assert len(seen) > 30
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {"old", "new"}


def test_many_writers_at_once_leave_one_whole_text(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    texts = [bytes([65 + number]) * 200_000 for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda text: write_confined(tmp_path, "a/b/essay.md", text), texts))

    assert (tmp_path / "a/b/essay.md").read_bytes() in texts
    assert names(tmp_path) == ["a", "a/b", "a/b/essay.md"]


def test_no_file_handle_is_left_open(tmp_path: Path) -> None:
    handles = Path("/proc/self/fd")
    published(tmp_path, path="a/b/essay.md")
    gc.collect()  # what earlier tests left open
    before = len(list(handles.iterdir()))

    published(tmp_path, path="a/b/other.md")
    published(tmp_path, path="a/b/other.md")
    with pytest.raises(PermanentError):
        published(tmp_path, path="a/b")

    assert len(list(handles.iterdir())) == before


def test_the_stream_gets_the_text_exactly() -> None:
    stream = io.StringIO(newline="")

    receipt = stdout_publisher(stream)(DRAFT, step())

    assert stream.getvalue() == DRAFT.text
    assert receipt == Receipt("stdout", "24 characters, version 3")


def test_a_stream_that_cannot_hold_the_text_gets_none_of_it() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")

    with pytest.raises(PermanentError, match=r"stdout: ascii has no '☃'; set PYTHONIOENCODING=utf-8"):
        stdout_publisher(stream)(new_draft(1, "snow \N{SNOWMAN}"), step())
    stream.flush()
    assert raw.getvalue() == b""


def test_a_closed_stream_and_a_gone_reader_are_said() -> None:
    closed = io.StringIO()
    closed.close()
    read, write = os.pipe()
    os.close(read)

    with pytest.raises(PermanentError, match="stdout: the text cannot be written: I/O operation on closed file"):
        stdout_publisher(closed)(DRAFT, step())
    gone = os.fdopen(write, "w")
    with pytest.raises(PermanentError, match=r"stdout: the text cannot be written: .*Broken pipe"):
        stdout_publisher(gone)(DRAFT, step())
    with pytest.raises(BrokenPipeError):
        gone.close()


def test_stdout_has_no_options() -> None:
    with pytest.raises(PermanentError, match="stdout: there is no option 'path'"):
        stdout_publisher(io.StringIO())(DRAFT, step(path="x"))
