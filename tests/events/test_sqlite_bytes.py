"""The bytes of a file as another process reads them: so that no lock of this process is given up."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from redraft.events.sqlite_bytes import AHEAD, bytes_of


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "50% of ü?#.db"
    path.write_bytes(random.Random(1).randbytes(3 * AHEAD + 17))
    return path


def test_any_part_of_a_file_is_read(file: Path):
    whole, chance = file.read_bytes(), random.Random(2)
    with bytes_of(file) as found:
        for count in (0, 1, 4096, AHEAD, AHEAD + 1, len(whole), len(whole) + 1):
            for at in (0, 1, AHEAD - 1, len(whole) - 1, len(whole), len(whole) + 5, chance.randrange(len(whole))):
                found.seek(at)
                assert found.read(count) == whole[at : at + count]
                assert found.read(7) == whole[at + count : at + count + 7]


def test_what_is_read_next_to_it_is_not_asked_for_again(file: Path):
    with bytes_of(file) as found:
        first = found.read(10)
        file.write_bytes(bytes(100))
        assert found.read(AHEAD - 10) != bytes(AHEAD - 10)
    with bytes_of(file) as found:
        assert first != found.read(10) == bytes(10)


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="No such file"), bytes_of(tmp_path / "nothing"):
        pass


def test_a_folder_cannot_be_read(tmp_path: Path):
    with pytest.raises(IsADirectoryError), bytes_of(tmp_path):
        pass


def test_this_process_does_not_open_the_file(file: Path):
    with bytes_of(file) as found:
        found.read(1)
        for each in os.listdir("/dev/fd"):  # noqa: PTH208  each is a number
            try:
                there = os.fstat(int(each))
            except OSError:
                continue  # that of the folder itself
            assert there.st_ino != file.stat().st_ino or there.st_dev != file.stat().st_dev
