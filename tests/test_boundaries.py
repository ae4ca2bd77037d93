"""Limits: what is exactly as large as one is taken, and what is larger by one is not."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from multiturn import Files, Media, MultiturnError
from multiturn.documents.input import lines_of, read_at_most
from multiturn.documents.json_lines import read_json_lines, read_value
from multiturn.documents.node import Repeats
from multiturn.documents.yaml_reader import read_documents, read_plain
from multiturn.errors import nearly, quoted
from multiturn.suites.guideline_patterns import guideline_matcher
from multiturn.text import size_in_words

PNG = b"\x89PNG\r\n\x1a\n"


def yaml(text: str, most_values: int = 1000) -> object:
    return list(read_documents(text, "x.yaml", most_values))


def attach(folder: Path, size: int, most: int) -> object:
    (folder / "a.txt").write_bytes(b"x" * size)
    return Files(folder, folder).read("a.txt", most)


def attach_media(folder: Path, size: int, most: int) -> object:
    (folder / "a.png").write_bytes(PNG.ljust(size, b"x"))
    return Files(folder, folder).attached("a.png", "a.png", 1, most, False)


def lines(monkeypatch: pytest.MonkeyPatch, module: str, name: str, most: int) -> None:
    monkeypatch.setattr(f"multiturn.documents.{module}.{name}", most)


# Each: what takes a size, and the largest that it takes.
LIMITS: dict[str, tuple[Callable[[Path, int], object], int]] = {
    "a file of defaults": (lambda _, n: read_at_most(7, io.BytesIO(b"x" * n), "x", "it"), 7),
    "an attached text": (lambda folder, n: attach(folder, n, 20), 20),
    "an attached image": (lambda folder, n: attach_media(folder, n, 30), 30),
    "an image of bytes": (lambda _, n: Media.of(PNG.ljust(n, b"x"), max_bytes=30), 30),
    "a guideline pattern": (lambda _, n: guideline_matcher(("a" * n,)), 1000),
    "the digits of a number in YAML": (lambda _, n: read_plain("1" * n), 1000),
    "the digits of a number in JSON": (lambda _, n: read_value("1" * n), 1000),
    "the levels of YAML": (lambda _, n: yaml("[" * n + "]" * n), 100),
    "the values of YAML": (lambda _, n: yaml(f"[{', '.join('1' * (n - 1))}]", 12), 12),
    "the directives of YAML": (
        lambda _, n: yaml("".join(f"\n%TAG !a{at}! b" for at in range(n)) + "\n--- 1"),
        100,
    ),
    "the path of an attachment": (
        lambda folder, n: Files(folder, folder).find(
            "./" * ((n - 5) // 2) + "a" * ((n - 5) % 2) + ".text"
        ),
        4096,
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_the_largest_that_is_taken(tmp_path: Path, name: str) -> None:
    take, most = LIMITS[name]
    for file in (".text", "a.text"):
        (tmp_path / file).touch()
    take(tmp_path, most)
    with pytest.raises((MultiturnError, ValueError)):
        take(tmp_path, most + 1)


def test_a_line_may_be_as_long_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    lines(monkeypatch, "input", "MAX_RESULT_LINE", 4)
    assert list(lines_of(io.BytesIO(b"abc\nabcd"), "x")) == [b"abc\n", b"abcd"]
    with pytest.raises(MultiturnError):
        list(lines_of(io.BytesIO(b"abcd\n"), "x"))
    lines(monkeypatch, "json_lines", "MAX_CASE_LINE", 6)
    for line, is_taken in ((b"[1,2]\n", True), (b"[1,2]", True), (b"[1, 2]", False)):
        (found,) = read_json_lines(io.BytesIO(line), "x")
        assert isinstance(found, MultiturnError) is not is_taken


def test_levels_of_json_are_counted_from_the_outermost() -> None:
    assert read_value("[" * 100 + "]" * 100)
    with pytest.raises(ValueError, match="nested deeper"):
        read_value("[" * 101 + "]" * 101)


def test_a_document_repeats_as_many_values_as_it_may() -> None:
    for length, most in ((0, 1_000_000), (10, 1_000_040)):
        repeats = Repeats(length)
        assert not repeats.add(most)
        assert repeats.add(1)


def test_words_change_at_the_number_that_they_name() -> None:
    assert [len(quoted("x" * size)) for size in (200, 201)] == [202, 203]
    assert [size_in_words(size) for size in (999, 1_000, 999_499, 999_500)] == [
        *("999 bytes", "1 kB", "999 kB", "1.0 MB"),
    ]


def test_a_key_is_a_slip_of_another_up_to_two_letters() -> None:
    assert nearly("guidelinesxx", ["guidelines"]) == "guidelines"
    assert nearly("guidelinesxxx", ["guidelines"]) is None
