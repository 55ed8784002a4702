"""What is made of files is made anew once they were replaced, and stays where they are no good."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from streamlink.errors import SecurityError
from streamlink.transport.reloading import Reloading, read_file


def number_in(*paths: Path) -> int:
    """Return the number all files hold."""
    numbers = {read_file("number", path) for path in paths}
    if len(numbers) > 1:
        raise SecurityError("they differ")
    return int(numbers.pop())


def write(path: Path, text: str) -> None:
    """Put a file in the place of another, as tools that renew certificates do."""
    beside = path.with_name("new")
    beside.write_text(text)
    os.replace(beside, path)


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_text("1")
    return paths


@pytest.fixture
def reloading(pair: list[Path]) -> Reloading[int]:
    return Reloading("the number", pair, lambda: number_in(*pair))


def test_files_that_stay_are_read_once(reloading: Reloading[int]) -> None:
    assert reloading.get() == 1
    assert reloading.reloaded() is None


def test_a_replaced_file_is_noticed_once(pair: list[Path], reloading: Reloading[int]) -> None:
    for path in pair:
        write(path, "2")
    assert reloading.reloaded() == 2
    assert reloading.reloaded() is None
    assert reloading.get() == 2


def test_half_a_pair_changes_nothing_and_is_warned_of_once(
    pair: list[Path], reloading: Reloading[int], caplog: pytest.LogCaptureFixture
) -> None:
    write(pair[0], "2")
    with caplog.at_level(logging.WARNING, "streamlink.security"):
        assert [reloading.get(), reloading.get()] == [1, 1]
    assert [record.message for record in caplog.records] == [
        "the number stays as it was: they differ"
    ]
    write(pair[1], "2")
    assert reloading.get() == 2


def test_a_file_that_is_gone_changes_nothing(pair: list[Path], reloading: Reloading[int]) -> None:
    pair[0].unlink()
    assert reloading.get() == 1


def test_files_that_are_no_good_from_the_beginning_are_refused_in_words(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(SecurityError, match=r"security\.number: .*absent: No such file"):
        Reloading("the number", [absent], lambda: number_in(absent))


class Replaced:
    """Reads one file. After each read, while there are texts left, it replaces the other file."""

    def __init__(self, path: Path, written: Path, texts: list[str]) -> None:
        self.path, self.written, self.texts = path, written, texts
        self.made: list[str] = []

    def __call__(self) -> str:
        self.made.append(self.path.read_text())
        if self.texts:
            write(self.written, self.texts.pop(0))
        return self.made[-1]


def test_a_file_that_is_replaced_while_it_is_read_anew_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("1")
    make = Replaced(path, path, [])
    reloading = Reloading("the number", [path], make)
    write(path, "2")
    make.texts = ["3", "4"]
    assert reloading.get() == "4"


def test_a_file_that_is_replaced_all_the_time_counts_as_it_was_when_it_was_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a"
    path.write_text("0")
    make = Replaced(path, path, [str(number) for number in range(1, 6)])
    reloading = Reloading("the number", [path], make)  # three readings, of which each is too old
    assert reloading.get() == "5"
    assert reloading.get() == "5"
    assert make.made == ["0", "1", "2", "3", "4", "5"]
    assert "stays as it was" not in caplog.text


def test_a_pair_that_is_written_all_the_time_changes_nothing(
    pair: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    make = Replaced(pair[0], pair[1], [])
    reloading = Reloading("the pair", pair, make)
    write(pair[0], "2")
    make.texts = ["2", "3", "4"]
    assert reloading.get() == "1"
    assert "the pair stays as it was: " in caplog.text
    assert reloading.get() == "2"  # nobody writes any more


def test_a_file_that_changes_while_it_is_first_read_is_read_again(tmp_path: Path) -> None:
    path, made = tmp_path / "a", []

    def make() -> int:
        made.append(int(path.read_text()))
        if len(made) == 1:
            write(path, "2")
        return made[-1]

    path.write_text("1")
    assert Reloading("the number", [path], make).get() == 2
    assert made == [1, 2]
