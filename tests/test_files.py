"""Attached files: found beside the suite or above, inside the root, and nowhere else."""

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from comparing import write
from limits import limited
from multiturn import Files
from multiturn.errors import AttachmentError, MultiturnError, OutsideRootError
from multiturn.files.finding import Texts
from multiturn_stages.resolve_segments import resolve_segments

LIMIT = 1_048_576


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    """Kill the process if a test waits for a pipe, or reads without an end."""
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.fixture
def root(root: Path) -> Path:
    """Return a root with a suite's folder in it, and with secrets around it."""
    write(root, {"top.md": "top", "evals/code.js": "code", "evals/deep/low.md": "low"})
    outside = ("secret.txt", "elsewhere/secret.txt", "rootling/secret.txt")
    write(root.parent, dict.fromkeys(outside, "SECRET"))
    return root


@pytest.fixture
def files(root: Path) -> Files:
    return Files(root / "evals", root)


def read(files: Files, written: str, max_bytes: int = LIMIT) -> str:
    return files.read(files.find(written), max_bytes)


def link(folder: Path, links: dict[str, str]) -> None:
    for name, target in links.items():
        (folder / name).symlink_to(target)


# Where a file is found


@pytest.mark.parametrize(
    ("written", "found"),
    [
        pytest.param("code.js", "evals/code.js", id="beside the suite"),
        pytest.param(".//code.js", "evals/code.js", id="beside the suite, with ./"),
        pytest.param("deep/../code.js", "evals/code.js", id="with .. inside the root"),
        pytest.param("./top.md", "top.md", id="in a parent, with ./"),
        pytest.param("../top.md", "top.md", id="in a parent, with .."),
        pytest.param("evals/code.js", "evals/code.js", id="by its path from the root"),
        pytest.param("/evals/code.js", "evals/code.js", id="from the root, with a leading /"),
        pytest.param("//top.md", "top.md", id="in the root, with two leading slashes"),
    ],
)
def test_finds(files: Files, written: str, found: str) -> None:
    assert files.find(written) == found


def test_the_file_beside_the_suite_comes_before_that_of_a_parent(root: Path) -> None:
    write(root, {"evals/top.md": "near", "evals/deep/lib/x": "", "lib/a.md": "far"})
    files = Files(root / "evals" / "deep", root)
    found = [files.find(written) for written in ("top.md", "/top.md", "lib/a.md")]
    assert found == ["evals/top.md", "top.md", "lib/a.md"]


def test_after_a_leading_slash_the_root_is_first_and_then_all_folders_from_the_suite_up(
    root: Path,
) -> None:
    places = ("deep/a.md", "deep/b.md", "a.md", "b.md", "c.md")
    write(root, {"a.md": "", **{f"evals/{place}": "" for place in places}})
    files = Files(root / "evals" / "deep", root)
    found = [files.find(written) for written in ("/a.md", "/b.md", "/c.md")]
    assert found == ["a.md", "evals/deep/b.md", "evals/c.md"]


@pytest.mark.parametrize("name", ["é漢😀.md", " x ", "~", "%2e%2e", "a\\b", "-rf", "...", "*"])
def test_a_name_is_taken_to_the_letter(root: Path, files: Files, name: str) -> None:
    write(root, {f"evals/{name}": "odd"})
    assert files.find(name) == f"evals/{name}"
    assert files.read(f"evals/{name}", LIMIT) == "odd"


@pytest.mark.skipif(sys.platform == "darwin", reason="both names are one there")
@pytest.mark.parametrize(
    ("form", "other", "folder", "others"),
    [
        pytest.param("\u00e9.txt", "e\u0301.txt", "", 0, id="a short name"),
        pytest.param("e\u0301.txt", "\u00e9.txt", "deep/", 0, id="in a folder"),
        pytest.param("\ud55c\uae00", "\u1112\u1161\u11ab\u1100\u1173\u11af", "/", 0, id="Korean"),
        pytest.param("\u00e9.txt", "e\u0301.txt", "", 200, id="among many names"),
    ],
)
def test_a_name_in_another_unicode_form_is_said_to_look_the_same(
    root: Path, files: Files, form: str, other: str, folder: str, others: int
) -> None:
    names = [other, *(f"{number}.txt" for number in range(others))]
    write(root, {f"evals/{folder}{name}": "" for name in names})
    with pytest.raises(AttachmentError) as caught:
        files.find(folder + form)
    assert str(caught.value).startswith(f"no file '{folder}{form}'. Looked in ")
    what = "a name there looks the same, in another Unicode form (NFC or NFD); copy or change it"
    assert str(caught.value).endswith(f"; {what}")


# What is outside the root, or not there


@pytest.mark.parametrize(
    "written",
    [
        "../../secret.txt",
        "..//.././/secret.txt",
        "deep/../../../secret.txt",
        "../../rootling/secret.txt",
        "/../secret.txt",
        "//../secret.txt",
    ],
)
def test_two_dots_that_leave_the_root_are_refused(files: Files, written: str) -> None:
    with pytest.raises(OutsideRootError):
        files.find(written)


@pytest.mark.parametrize(
    "path", ["../secret.txt", "sub/../../secret.txt", "/etc/hostname", "", "..", "./a.txt", "a//b"]
)
@pytest.mark.parametrize("call", ["read", "known"])
def test_what_find_does_not_return_is_not_read(
    root: Path, files: Files, path: str, call: str
) -> None:
    (root.parent / "secret.txt").write_text("secret")
    arguments = (1_000,) if call == "read" else ()
    with pytest.raises(OutsideRootError, match="is outside the root"):
        getattr(files, call)(path, *arguments)


@pytest.mark.parametrize(
    "written",
    [
        *("../secret.txt", "..\\..\\secret.txt", "%2e%2e/%2e%2e/secret.txt", ".. /.. /secret.txt"),
        "\uff0e\uff0e/\uff0e\uff0e/secret.txt",  # full-width dots
        "..\u2215..\u2215secret.txt",  # a division slash
        *("/etc/passwd", "//etc/passwd", "/proc/self/environ", "file:///etc/passwd"),
        "ROOT/evals/code.js",  # an absolute path is from the root, even where it exists
        *("~root/.bashrc", "~/code.js", "$PWD/code.js", "Code.js", " code.js", "code.js/x", ""),
        *("code.js\0.md", "a\nb.txt", "\ud800"),
        *(pytest.param(piece * 5000, id=f"{piece}...") for piece in ("x", "x/")),
    ],
)
def test_any_other_spelling_is_an_error_of_one_line(root: Path, files: Files, written: str) -> None:
    with pytest.raises(MultiturnError) as caught:
        read(files, written.replace("ROOT", str(root)))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("links", "written"),
    [
        pytest.param({"a": "../../elsewhere"}, "a/secret.txt", id="a link to a folder"),
        pytest.param({"a": "b", "b": "../../secret.txt"}, "a", id="a chain of links"),
        pytest.param({"a": "b/c", "b": "deep", "deep/c": "../../../secret.txt"}, "a", id="turns"),
        pytest.param({"a": "../.."}, "a/secret.txt", id="a link above the root"),
        pytest.param({"a": "../../elsewhere"}, "a/../secret.txt", id="a link and .."),
        pytest.param({"a": "/etc"}, "a/passwd", id="an absolute link"),
        pytest.param({"a": "/dev/zero"}, "a", id="a link to a device without an end"),
        pytest.param({"../a": "../secret.txt"}, "a", id="a link in a parent of the suite"),
        pytest.param({"../a": "../secret.txt"}, "/a", id="a link in the root"),
        pytest.param({"a": "../../missing"}, "a", id="a dangling link"),
        pytest.param({"a": "missing"}, "a", id="a dangling link inside"),
        pytest.param({"top.md": "../../secret.txt"}, "top.md", id="a link beside a parent's file"),
        pytest.param({"a": "a"}, "a", id="a link to itself"),
        pytest.param({"a": "b/x", "b": "a/x"}, "b", id="two links that grow"),
    ],
)
def test_a_link_that_leads_outside_or_nowhere_is_refused(
    root: Path, files: Files, links: dict[str, str], written: str
) -> None:
    link(root / "evals", links)
    with pytest.raises(MultiturnError) as caught:
        read(files, written)
    leads_outside = any("../secret.txt" in target for target in links.values())
    assert isinstance(caught.value, OutsideRootError) or not leads_outside


@pytest.mark.parametrize(
    ("links", "written", "text"),
    [
        pytest.param({"a": "b", "b": "../top.md"}, "a", "top", id="a chain of links"),
        pytest.param({"a": "deep"}, "a/low.md", "low", id="a link to a folder"),
        pytest.param({"a": "deep"}, "a/../code.js", "code", id="a link to a folder and .."),
    ],
)
def test_a_link_inside_the_root_is_followed(
    root: Path, files: Files, links: dict[str, str], written: str, text: str
) -> None:
    link(root / "evals", links)
    assert read(files, written) == text


def test_a_root_may_be_behind_a_link_or_relative(root: Path) -> None:
    (other := root.parent / "link").symlink_to(root)
    evals = other / "evals"
    for folder, top in ((evals, other), (root / "evals", other), (evals, root), ("evals", "")):
        files = Files(Path(folder), Path(top))
        assert read(files, "code.js") == "code"
        assert files.find("top.md") == "top.md"
        with pytest.raises(OutsideRootError):
            files.find("../../secret.txt")


def test_the_root_may_be_the_whole_file_system(root: Path) -> None:
    files = Files(root / "evals", Path("/"))
    written = str((root / "evals" / "code.js").resolve())
    assert files.find(written) == files.find("code.js") == written[1:]


@pytest.mark.parametrize("folder", ["elsewhere", "rootling"])
def test_a_suite_outside_the_root_reads_nothing_beside_itself(root: Path, folder: str) -> None:
    files = Files(root.parent / folder, root)
    for written in ("secret.txt", "./secret.txt", "/secret.txt", "../secret.txt"):
        with pytest.raises(MultiturnError):
            files.find(written)
    assert read(files, "/top.md") == "top"


# Swapped between finding and reading


@pytest.mark.parametrize(
    ("swap", "error"),
    [
        pytest.param(lambda path: path.symlink_to("../../secret.txt"), OutsideRootError, id="link"),
        pytest.param(os.mkfifo, AttachmentError, id="a pipe, which is not waited for"),
        pytest.param(lambda path: None, AttachmentError, id="nothing"),
    ],
)
def test_a_file_swapped_for_something_else_is_refused(
    root: Path, files: Files, swap: Callable[[Path], None], error: type[Exception]
) -> None:
    found = files.find("code.js")
    (root / found).unlink()
    swap(root / found)
    with pytest.raises(error):
        files.read(found, LIMIT)


@pytest.mark.parametrize(
    ("swap", "error"),
    [
        (lambda path: path.symlink_to("../elsewhere"), "^'.*' became a symbolic link"),
        (lambda path: path.write_text("a file"), "^cannot read '.*': Not a directory$"),
    ],
)
def test_a_folder_swapped_for_something_else_is_refused(
    root: Path, files: Files, swap: Callable[[Path], None], error: str
) -> None:
    write(root, {"evals/secret.txt": "harmless"})
    found = files.find("secret.txt")
    (root / "evals").rename(root / "moved")
    swap(root / "evals")
    with pytest.raises(MultiturnError, match=error):
        files.read(found, LIMIT)


def test_a_link_that_is_swapped_while_it_is_resolved_is_an_error_of_the_file(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swapped(_: str, **__: Any) -> str:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os.path, "realpath", swapped)
    with pytest.raises(AttachmentError, match=r"^cannot read 'code.js': Invalid argument$"):
        files.find("code.js")


# What may hold keys


@pytest.mark.parametrize(
    "name",
    [
        *(".git/config", ".git/hooks/a.sample", "deep/.git/config", ".GIT/config", ".git"),
        *(".env", ".env.local", "deep/.env.production", ".ENV", ".env.example.local"),
    ],
)
def test_what_may_hold_keys_is_never_attached(root: Path, files: Files, name: str) -> None:
    write(root / "evals", {name: "SECRET"})
    link(root / "evals", {"link.txt": name})
    for written in (name, f"./{name}", f"/evals/{name}", "link.txt"):
        with pytest.raises(MultiturnError, match="never attached") as caught:
            read(files, written)
        assert not isinstance(caught.value, AttachmentError)  # which an option leaves out


@pytest.mark.parametrize(
    "name", [".env.example", ".env.sample", ".env.template", ".envrc", ".github/a.md", "x.env"]
)
def test_what_is_named_nearly_like_it_is_attached(root: Path, files: Files, name: str) -> None:
    write(root / "evals", {name: "text"})
    assert read(files, name) == "text"


# What can be read


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(b"", "", id="an empty file"),
        pytest.param(b"x\n\n\n", "x", id="newlines at the end"),
        pytest.param(b"\n\n x  \n \n", "\n\n x  \n ", id="blank lines and spaces stay"),
        pytest.param(b"a\r\nb\nc\r\n", "a\nb\nc", id="mixed line ends"),
        pytest.param(b"a\rb\r\r\nc\r", "a\rb\r\nc\r", id="a lone CR stays"),
        pytest.param(b"\xef\xbb\xbf\xef\xbb\xbfx", "\ufeffx", id="the second BOM is text"),
        pytest.param("é😀\u2028b\x85".encode(), "é😀\u2028b\x85", id="other line ends stay"),
        pytest.param(b"a\tb\x1b[0m\x00", "a\tb\x1b[0m\x00", id="control characters stay"),
    ],
)
def test_text_of_a_file(root: Path, files: Files, content: bytes, text: str) -> None:
    (root / "x.txt").write_bytes(content)
    assert read(files, "x.txt") == text


@pytest.mark.parametrize("content", [b"0123456789", b"01234567\r\n", "ééééé".encode()])
def test_the_limit_is_of_bytes_as_they_are_on_disk(
    root: Path, files: Files, content: bytes
) -> None:
    (root / "x.txt").write_bytes(content)
    for _ in ("read", "read before"):
        assert read(files, "x.txt", 10)
        with pytest.raises(AttachmentError, match=r"^'x.txt' is larger than 9 bytes"):
            read(files, "x.txt", 9)


def test_the_limit_is_one_mebibyte_unless_told() -> None:
    assert signature(resolve_segments).parameters["max_file_bytes"].default == LIMIT


@pytest.mark.parametrize("grows", [False, True])
def test_a_sparse_file_is_refused_in_little_memory(
    root: Path, files: Files, monkeypatch: pytest.MonkeyPatch, grows: bool
) -> None:
    """By its size, and also if it grows only after that was seen."""
    with (root / "x.txt").open("wb") as sparse:
        sparse.truncate(1 << 40)
    if grows:
        before = SimpleNamespace(st_mode=(root / "x.txt").stat().st_mode, st_size=0)
        monkeypatch.setattr(os, "fstat", lambda _: before)
    with limited(megabytes=10), pytest.raises(AttachmentError):
        read(files, "x.txt")


def test_a_folder_or_a_pipe_is_an_error(
    root: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root / "evals")  # a socket's path is short
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for written in ("deep", "deep/", ".", "..", "/", "pipe", "socket"):
            with pytest.raises(AttachmentError):
                read(files, written)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs devices")
@pytest.mark.parametrize("written", ["zero", "null"])
def test_a_device_is_an_error_even_inside_the_root(written: str) -> None:
    with pytest.raises(AttachmentError):
        read(Files(Path("/dev"), Path("/dev")), written)


def test_an_error_of_the_system_is_an_error_of_the_attachment(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_options: object) -> int:
        raise PermissionError(13, "Permission denied")

    found = files.find("code.js")
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(AttachmentError, match=r"code\.js.*Permission denied"):
        files.read(found, LIMIT)


def test_no_file_is_left_open(root: Path, files: Files) -> None:
    (root / "evals" / "latin.txt").write_bytes(b"\xff")
    os.mkfifo(root / "evals" / "pipe")
    opened = "/proc/self/fd" if Path("/proc/self/fd").exists() else "/dev/fd"
    before = os.listdir(opened)
    assert read(files, "code.js") == "code"
    for name in ("latin.txt", "pipe", "deep"):
        with pytest.raises(AttachmentError):
            read(files, name)
    with pytest.raises(AttachmentError):
        read(files, "top.md", 1)
    assert os.listdir(opened) == before


# Once per run


def test_a_file_is_read_once_by_whatever_path(root: Path) -> None:
    link(root / "evals", {"link.md": "../top.md"})
    texts = Texts()
    for folder, top in ((root / "evals", root), (root, root), (root, root.parent)):
        files = Files(folder, top, texts)
        for written in ("top.md", "./top.md", "/top.md", "/evals/link.md"):
            assert read(files, written) == "top"
        write(root, {"top.md": "changed", "evals/deep/top.md": "another"})
    assert read(files, "evals/deep/top.md") == "another"


@pytest.mark.parametrize("text", ["end\n\n", ""])
def test_a_file_is_read_once_with_and_without_its_newlines(
    root: Path, files: Files, text: str
) -> None:
    write(root, {"end.md": text})
    assert files.known("end.md") is None
    assert files.read("end.md", LIMIT, trailing_newlines=True) == text
    write(root, {"end.md": "changed"})
    assert files.read("end.md", LIMIT) == files.known("end.md") == text.rstrip()
