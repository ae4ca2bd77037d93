"""Paths and files that mean harm, named by a caller: attached files are in test_files.py."""

import io
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multiturn import Case, MultiturnError, load_pipeline, load_suite, load_target
from multiturn.documents.source import Source
from multiturn.providers.results import read_stored
from multiturn.suites.discovery import find_suites
from multiturn.suites.streaming import stream_documents

HELLO = "input_messages: [{role: user, content: Hello}]"
GIGABYTE = 2**30


def error_of(source: str | Path, **options: Any) -> MultiturnError:
    with pytest.raises(MultiturnError) as caught:
        list(load_suite(source, **options))
    return caught.value


@pytest.mark.parametrize(
    ("name", "size"), [("s.yaml", GIGABYTE), ("s.jsonl", GIGABYTE // 10), ("targets", GIGABYTE)]
)
def test_a_gigabyte_of_nothing_is_an_error(tmp_path: Path, name: str, size: int) -> None:
    path = tmp_path / name
    with path.open("w") as file:
        file.write("# a file\n")
        file.truncate(size)
    if name == "targets":
        with pytest.raises(MultiturnError, match=f"^{path}: .* of over 10,000,000 bytes"):
            load_target("t", file=str(path))
    else:
        assert str(error_of(path).where).startswith(f"{path}:")


def test_a_folder_with_a_large_suite_is_searched_in_little_memory(tmp_path: Path) -> None:
    with (tmp_path / "s.eval.yaml").open("w") as file:
        file.truncate(GIGABYTE // 10)
    tracemalloc.start()
    try:
        assert list(find_suites([str(tmp_path)])) == [str(tmp_path / "s.eval.yaml")]
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("nested", ['{"x":' + "[" * 100_000, '{"suite":' * 100_000])
def test_results_that_are_nested_deep_are_an_error(tmp_path: Path, nested: str) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(f"{nested}\n")
    with pytest.raises(MultiturnError, match="this is not a result"):
        read_stored(str(path))


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev/tty", "/"])
def test_targets_or_a_pipeline_that_are_no_file_are_an_error(path: str) -> None:
    for load in (lambda: load_target("t", file=path), lambda: load_pipeline(path)):
        with pytest.raises(MultiturnError) as caught:
            load()
        assert str(caught.value.where) == path


@pytest.mark.parametrize("named", ["suite", "root"])
def test_a_link_that_is_swapped_while_a_path_is_resolved_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    (tmp_path / "suite").write_text(HELLO)
    (tmp_path / "root").mkdir()
    real_path = os.path.realpath

    def swapped(path: str, **options: Any) -> str:
        if str(path).endswith(named):
            raise OSError(22, "Invalid argument")
        return real_path(path, **options)

    monkeypatch.setattr(os.path, "realpath", swapped)
    error = error_of(tmp_path / "suite", root=tmp_path / "root")
    assert str(error) == f"{tmp_path / named}: cannot read it: Invalid argument"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
@pytest.mark.parametrize("name", ["mem", "environ", "clear_refs"])
def test_a_file_of_proc_is_no_suite(name: str) -> None:
    path = f"/proc/self/{name}"
    assert str(error_of(path).where).startswith(path)


def test_a_suite_that_fails_while_it_is_read_is_an_error_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.yaml"
    cases = "".join(f"- {{id: c{number}, {HELLO}}}\n" for number in range(4_000))
    path.write_text(f"evalcases:\n{cases}")
    read = Source.read

    def fail_later(self: Source, size: int = -1, /) -> bytes:
        if self._file.tell() > 100_000:
            raise OSError(5, "Input/output error")
        return read(self, size)

    monkeypatch.setattr(Source, "read", fail_later)
    found: list[Case] = []
    errors: list[MultiturnError] = []
    found += load_suite(path, on_error=errors.append)
    assert found[0].id == "c0"
    assert [str(error) for error in errors] == [f"{path}: cannot read it: Input/output error"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda path: path.unlink(), id="vanishes"),
        pytest.param(lambda path: os.truncate(path, 1_000), id="is cut short"),
        pytest.param(lambda path: path.write_bytes(b"\xff" * 300_000), id="is overwritten"),
        pytest.param(lambda path: path.write_text("[" * 300_000), id="turns into another"),
    ],
)
def test_a_suite_that_changes_while_it_is_read_gives_cases_or_an_error(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "s.yaml"
    cases = "".join(f"- {{id: c{number}, {HELLO}}}\n" for number in range(4_000))
    path.write_text(f"evalcases:\n{cases}metadata: {{systemPrompt: L}}\n")
    errors: list[MultiturnError] = []
    reading = load_suite(path, on_error=errors.append)
    assert next(reading).id == "c0"
    change(path)
    for number, case in enumerate(reading, 1):
        assert case.id == f"c{number}"
    assert all(str(error.where).startswith(f"{path}:") for error in errors)


def test_a_suite_that_shrinks_between_two_readings_keeps_its_cases() -> None:
    text = f"evalcases:\n- {{id: a, {HELLO}}}\nmetadata: {{}}\n".encode()
    file = io.BytesIO(text)
    documents = stream_documents(Source(file, "s.yaml"))
    file.truncate(11)
    assert [list(document.cases or ()) for document in documents] == [[]]


@pytest.mark.parametrize("path", ["a\0b", "\0", "a\ud800b", "\udfff"])
def test_what_can_be_no_path_is_an_error(tmp_path: Path, path: str) -> None:
    (tmp_path / "s.yaml").write_text(HELLO)
    assert str(error_of(path).where) == ascii(path)
    assert "no path can have such a character" in str(error_of(tmp_path / "s.yaml", root=path))
    for load in (lambda: load_target("t", file=path), lambda: load_pipeline(path)):
        with pytest.raises(MultiturnError, match="no path can have such a character"):
            load()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_suite_without_permission_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HELLO)
    path.chmod(0)
    assert str(error_of(path)) == f"{path}: cannot read it: Permission denied"
