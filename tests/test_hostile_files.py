"""Paths and files that mean harm, named by a caller: attached files are in test_files.py."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import run
from comparing import write
from limits import limited
from loading import HI
from multiturn import MultiturnError, load_pipeline, load_suite, load_target
from multiturn.engine.batches import BatchState
from multiturn.providers.results import StoredResults
from multiturn.suites.discovery import find_suites

GIGABYTE = 2**30
CASES = "".join(f"- {{id: c{number}, {HI}}}\n" for number in range(4_000))


def error_of(load: Callable[..., Any], *arguments: Any, **options: Any) -> MultiturnError:
    with pytest.raises(MultiturnError) as caught:
        list(load(*arguments, **options))
    return caught.value


# A suite is read as a whole, and its first zero is the error, however many follow.
@pytest.mark.parametrize(
    ("name", "size"),
    [("s.yaml", GIGABYTE // 10), ("s.jsonl", GIGABYTE // 10), ("targets", GIGABYTE)],
)
def test_a_gigabyte_of_nothing_is_an_error(root: Path, name: str, size: int) -> None:
    write(root, {name: "# a file\n"})
    os.truncate(name, size)
    if name == "targets":
        assert "of over 10,000,000 bytes" in str(error_of(load_target, "t", file=name))
    else:
        assert str(error_of(load_suite, name).where).startswith(f"{name}:")


@pytest.mark.parametrize("text", ["", "- " + "[" * 200_000])
def test_a_folder_with_large_suites_is_searched_at_once(root: Path, text: str) -> None:
    names = ["a.eval.yaml", "b.eval.yaml"]
    write(root, dict.fromkeys(names, text))
    os.truncate(names[0], GIGABYTE // 50)
    with limited(megabytes=5):
        assert list(find_suites(["."])) == names


@pytest.mark.parametrize("nested", ['{"x":' + "[" * 100_000, '{"suite":' * 100_000])
def test_results_that_are_nested_deep_are_an_error(root: Path, nested: str) -> None:
    write(root, {"results.jsonl": f"{nested}\n"})
    assert "this is not a result" in str(error_of(StoredResults, "results.jsonl"))


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev/tty", "/"])
def test_what_is_no_file_is_an_error(path: str) -> None:
    errors = error_of(load_target, "t", file=path), error_of(load_pipeline, path)
    assert [str(error.where) for error in errors] == [path, path]
    if path in ("/dev/zero", "/dev/null"):
        assert "not a regular file" in str(error_of(load_suite, path))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)])
@pytest.mark.parametrize(
    "load", [StoredResults, lambda path: BatchState(path.removesuffix(".batch"))]
)
def test_results_and_states_of_batches_are_regular_files(
    root: Path, make: Callable[[str], None], load: Callable[[str], object]
) -> None:
    make("out.batch")
    with limited(megabytes=5), pytest.raises(MultiturnError) as caught:
        load("out.batch")
    assert str(caught.value) == "out.batch: this is not a regular file"


@pytest.mark.parametrize(
    "load", [StoredResults, lambda path: BatchState(path.removesuffix(".batch"))]
)
def test_a_line_without_end_is_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch, load: Callable[[str], object]
) -> None:
    monkeypatch.setattr("multiturn.documents.input.MAX_RESULT_LINE", 1_000_000)
    write(root, {"out.batch": "\n" if load is not StoredResults else ""})
    os.truncate("out.batch", GIGABYTE)
    with (
        limited(megabytes=5),
        pytest.raises(MultiturnError, match="a line of over 1,000,000 bytes"),
    ):
        load("out.batch")


def test_a_suite_in_a_results_file_may_be_no_path(root: Path) -> None:
    line = '{"suite":"/\\u0000/a","id":"a","target":"t","digest":"d","error":null}\n'
    write(root, {"results.jsonl": line})
    assert list(StoredResults("results.jsonl").stored.values()) == ["d"]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
@pytest.mark.parametrize("name", ["mem", "environ", "clear_refs"])
def test_a_file_of_proc_is_no_suite(name: str) -> None:
    path = f"/proc/self/{name}"
    assert str(error_of(load_suite, path).where).startswith(path)


@pytest.mark.parametrize("named", ["suite", "top"])
def test_a_link_that_is_swapped_while_a_path_is_resolved_is_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    write(root, {"suite": HI, "top/x": ""})
    real_path = os.path.realpath

    def swapped(path: str, **options: Any) -> str:
        if str(path).endswith(named):
            raise OSError(22, "Invalid argument")
        return real_path(path, **options)

    monkeypatch.setattr(os.path, "realpath", swapped)
    error = error_of(load_suite, "suite", root="top")
    assert str(error) == f"{named}: cannot read it: Invalid argument"


@pytest.mark.parametrize("path", ["a\0b", "\0", "a\ud800b", "\udfff"])
def test_what_can_be_no_path_is_an_error(root: Path, path: str) -> None:
    write(root, {"s.yaml": HI})
    assert str(error_of(load_suite, path).where) == ascii(path)
    for error in (
        error_of(load_suite, "s.yaml", root=path),
        error_of(load_target, "t", file=path),
        error_of(load_pipeline, path),
    ):
        assert "no path can have such a character" in str(error)


# While it is read


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
    root: Path, change: Callable[[Path], None]
) -> None:
    write(root, {"s.yaml": f"evalcases:\n{CASES}metadata: {{systemPrompt: L}}\n"})
    errors: list[MultiturnError] = []
    reading = load_suite("s.yaml", on_error=errors.append)
    assert next(reading).id == "c0"
    change(root / "s.yaml")
    for number, case in enumerate(reading, 1):
        assert case.id == f"c{number}"
    assert all(str(error.where).startswith("s.yaml:") for error in errors)


# Text that a runner of GitHub Actions would take for a command

STOP = "::stop-commands::tok"
HOSTILE = f"""\
"##[stop-commands]t": 1
evalcases:
- {{id: a, "\\n  {STOP}": 2, {HI}}}
- {{id: "b\\n{STOP}", {HI}}}
- {{id: c, input_messages: [{{role: user, content: {{type: file, value: "##[stop-commands]t"}}}}]}}
"""


def commands_in(text: str) -> set[str]:
    """Return the commands that a runner finds in what a step prints."""
    found = set()
    for line in text.splitlines():
        if match := re.match(r"::([\w-]+)", line.lstrip()):
            found.add(match[1])
        else:  # it does not look further in a line with such a command
            found.update(re.findall(r"##\[([\w-]+)", line))
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        ("check", "-v"),
        ("check", "--debug"),
        ("check", "##[stop-commands]t"),
        ("snapshot", "--check"),
        ("snapshot", "--check", "--debug", "--strict"),
    ],
)
def test_no_text_is_a_command_to_a_runner(root: Path, arguments: tuple[str, ...]) -> None:
    write(root, {f"a\n  {STOP}.eval.yaml": HOSTILE})
    assert run("snapshot", ".", folder=root).returncode == 1
    write(root, {f"a\n  {STOP}.eval.yaml": HOSTILE.replace("Hi", f"'##[stop-commands]t {STOP}'")})
    done = run(*arguments, "--format", "github", ".", folder=root)
    assert commands_in(done.stdout + done.stderr) <= {"error", "warning", "notice"}
    is_strict = "--strict" in arguments
    is_usage = arguments[-1].startswith("##")
    assert done.stdout.count("::warning ") == (0 if is_strict or is_usage else 2)
    assert done.stdout.count("::error ") >= 1 - is_usage
