"""Comparing with a revision: repositories of every kind are read as they were, and left alone."""

import gc
import io
import os
import pickle
import re
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Mapping
from linecache import getline
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace as replace_fields

from comparing import run, run_process, summary, title, write
from multiturn import Media
from multiturn.engine import revision
from multiturn.engine.revision import SmallPickler, reading_at, requests_of
from multiturn.engine.selection import select
from multiturn.errors import Place
from multiturn.explaining.spans import Span
from repositories import FILES, SUITE, TONE, commit, git, replace

SHOP, LIST = "evals/shop.eval.yaml", "evals/list.txt"
TORN = f"a: [}}\n{SUITE}"
ONE = "evalcases: [{id: one, input_messages: [{role: user, content: One}]}]\n"
OTHER = ONE.replace("One", "Other")
State = Mapping[str, str | Path | None]


def become(repository: Path, state: State) -> None:
    """Write files; a path is a link to it, absolute from the repository, and None is nothing."""
    for name, text in state.items():
        file = repository / name
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        file.unlink(missing_ok=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, Path):
            file.symlink_to(repository / f".{text}" if text.is_absolute() else text)
        elif text is not None:
            file.write_text(text)


# What was then, what is now, which suites are compared, and what is said.
THEN: dict[str, tuple[State, State, str, list[str]]] = {
    "a case that is gone can be asked for": (
        *({}, {SHOP: SUITE.replace("id: bye", "id: farewell")}),
        *("evals --case=bye", [": 1 removed.\n"]),
    ),
    "a suite may be new or gone in its folder": (
        *({"new/notes.md": "None yet."}, {"new/a.eval.yaml": ONE, SHOP: None}),
        *("new evals", [": 1 added, 3 removed.\n"]),
    ),
    "or by its name": (
        *({}, {"a.eval.yaml": ONE, SHOP: None}),
        *(f"a.eval.yaml {SHOP}", [": 1 added, 3 removed.\n"]),
    ),
    "a suite that could not be read then is not added": (
        *({SHOP: TORN}, {SHOP: SUITE}, "evals"),
        [
            f"## 3 cases changed; 1 cause: <code>{SHOP}&#58; it could not be converted before",
            "<code>at HEAD (",
            f"{SHOP}&#58;1&#58;5&#58; not YAML",
        ],
    ),
    "nor is a case that had no id then": (
        *({SHOP: SUITE.replace("- id: bye", "- idd: bye")}, {SHOP: SUITE}),
        *("evals", [": 1 changed, 2 same.\n"]),
    ),
    "a link leads where it led then": (
        {"a.eval.yaml": ONE, "b.eval.yaml": OTHER, "run.yaml": Path("a.eval.yaml")},
        {"run.yaml": Path("b.eval.yaml")},
        *("run.yaml", [": 1 added, 1 removed.\n"]),
    ),
    "an absolute link leads out, because the files of today are elsewhere": (
        {LIST: Path("/evals/real.txt"), "evals/real.txt": "A book: 10"},
        {"evals/real.txt": "A book: 12"},
        *("evals", [f"1 cause: <code>{SHOP}&#58; it could not be converted before</code>"]),
    ),
    "an attached file is not read outside": (
        {LIST: Path("../../outside.txt"), "../outside.txt": "Out."},
        {LIST: "A book: 10"},
        *("evals", [f"1 cause: <code>{SHOP}&#58; it could not be converted before</code>"]),
    ),
    "a suite that led out of the root, and is gone, is no obstacle": (
        {"../out/z.eval.yaml": SUITE, "evals/z.eval.yaml": Path("/../out/z.eval.yaml")},
        {"evals/z.eval.yaml": None},
        *("evals", [": 3 same.\n", "evals/z.eval.yaml&#58; it leads outside"]),
    ),
    "a folder that led out of the repository is not followed": (
        {"../out/shop.eval.yaml": SUITE, "evals": Path("/../out")},
        {"evals": None, **FILES},
        *("evals", [": 3 added.\n", "evals&#58; it led out of the repository"]),
    ),
}


@pytest.mark.parametrize(("then", "now", "named", "said"), THEN.values(), ids=THEN)
def test_what_was_then(
    repository: Path, then: State, now: State, named: str, said: list[str]
) -> None:
    become(repository, then)
    commit(repository)
    become(repository, now)
    done = run(repository, *named.split(), "--format=markdown", "--against=HEAD")
    assert (done.returncode, done.stderr) == (0, "")
    for piece in said:
        assert piece in done.stdout
    assert "temporary" not in done.stdout, "no path of the copy of then is shown"


def test_a_suite_that_cannot_be_read_now_is_not_removed(repository: Path) -> None:
    become(repository, {SHOP: TORN})
    done = run(repository, "evals", "--format=markdown", "--against=HEAD")
    assert (done.returncode, "removed" in done.stdout) == (1, False)
    assert ": 3 failed.\n" in done.stdout
    assert done.stdout.count("it cannot be read, because its suite has an error") == 3


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ("evls", "there is no suite 'evls'; did you mean 'evals'?\n"),
        ("evals --case=hi", "no case 'hi'"),
    ],
)
def test_what_is_on_neither_side_is_said(repository: Path, named: str, error: str) -> None:
    done = run(repository, *named.split(), "--against=HEAD")
    assert (done.returncode, done.stderr.startswith(f"Error: {error}")) == (2, True)


@pytest.mark.parametrize("was", [Path("/../out"), "a file"])
def test_no_folder_is_made_outside_for_the_current_one(
    repository: Path, tmp_path: Path, was: str | Path
) -> None:
    (tmp_path / "out").mkdir()
    become(repository, {"deep": was})
    commit(repository)
    become(repository, {"deep": None, "deep/er/a.eval.yaml": ONE})
    done = run(repository / "deep/er", ".", "--against=HEAD")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"Error: --against: {repository / 'deep/er'} was no folder then\n"
    assert list((tmp_path / "out").iterdir()) == []


def test_no_program_fetches_what_a_partial_clone_lacks(repository: Path, tmp_path: Path) -> None:
    replace(repository, TONE, "Two.", "Two!")
    commit(repository)
    git(repository, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", repository.as_uri(), "clone")
    clone, ran = tmp_path / "clone", tmp_path / "ran"
    git(clone, "config", "remote.origin.url", f"ext::sh -c touch% {ran}")
    git(clone, "config", "protocol.ext.allow", "always")
    done = run(clone, "evals", "--against=HEAD~1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: --against: this partial clone lacks files of that commit; git archive REV fetches"
        " them\n"
    )
    assert not ran.exists()


def test_only_a_shallow_clone_is_said_to_be_one(repository: Path, tmp_path: Path) -> None:
    commit(repository)
    done = run(repository, "evals", "--against=HEAD~9")
    assert done.stderr == "Error: --against: there is no commit 'HEAD~9' here\n"
    git(tmp_path, "clone", "-q", "--depth=1", repository.as_uri(), "shallow")
    done = run(tmp_path / "shallow", "evals", "--against=HEAD~1")
    assert done.stderr.endswith(" here; a shallow clone has the latest ones only\n")


def test_git_applies_its_filters_and_runs_no_hook(repository: Path, tmp_path: Path) -> None:
    git(repository, "config", "filter.shout.clean", "tr A-Z a-z")
    git(repository, "config", "filter.shout.smudge", "tr a-z A-Z")
    write(repository, {".gitattributes": "*.txt filter=shout\n", LIST: "A BOOK: 10\n"})
    commit(repository)
    log, hooks = tmp_path / "log", repository / ".git/hooks"
    for name in ("post-index-change", "post-checkout", "fsmonitor"):
        write(hooks, {name: f"#!/bin/sh\necho {name} >>'{log}'\n"})
        (hooks / name).chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(hooks / "fsmonitor"))
    assert title(repository) == "## 0 cases changed"
    assert not log.exists()


def test_the_environment_of_a_hook_does_not_matter(repository: Path) -> None:
    replace(repository, TONE, "Two.", "Two!")
    environment = {"GIT_DIR": "../.git", "GIT_WORK_TREE": "..", "GIT_INDEX_FILE": ".git/index"}
    arguments = ("../evals", "--format=markdown", "--against=HEAD")
    done = run(repository / "evals", *arguments, env={**os.environ, **environment})
    assert done.stderr == ""
    assert done.stdout.startswith(f"## 2 cases changed; 1 cause: <code>{TONE} line 2</code>\n")


def test_a_relative_path_of_python_finds_this_multiturn(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    become(repository, {"lib/multiturn/__init__.py": "raise SystemExit('an old one')"})
    commit(repository)
    become(repository, {"lib": None})
    monkeypatch.setenv("PYTHONPATH", f"lib{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert summary(repository).startswith("## 0 cases changed\n")


def test_what_a_stage_prints_then_is_not_in_the_report(repository: Path) -> None:
    replace(repository, "house/house.py", "    return conv", "    print('A WORD')\n    return conv")
    commit(repository)
    write(repository, FILES)
    done = run_process(
        *(repository, "evals", "--format=markdown", "--against=HEAD"),
        "--pipeline=house/pipeline.yaml",
    )
    assert done.stdout.startswith("## 0 cases changed\n")
    assert done.stderr.count("A WORD") == 3


def test_no_variable_of_git_changes_what_a_revision_is(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(repository, SHOP, "content: Bye", "content: Ciao")
    for name, value in {
        "GIT_WORK_TREE": "/",
        "GIT_DIR": "elsewhere",
        "GIT_INDEX_FILE": "elsewhere",
        "GIT_OBJECT_DIRECTORY": "elsewhere",
        "GIT_PREFIX": "evals/",
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_NAMESPACE": "other",
    }.items():
        monkeypatch.setenv(name, value)
    assert ": 1 changed, 2 same.\n" in summary(repository)


def test_no_bytes_of_media_come_from_the_other_process(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    suite = ONE.replace("content: One", "content: [{type: image, value: a.gif}]")
    (repository / "evals" / "b.eval.yaml").write_text(suite)
    (repository / "evals" / "a.gif").write_bytes(b"GIF89a")
    commit(repository)
    suites = select([str(repository / "evals" / "b.eval.yaml")])
    with reading_at("HEAD", requests_of, suites, "spec", is_default=True) as then:
        (request,) = then
    assert request.chat_prompt is not None
    (media,) = (each for each in request.chat_prompt[0].content if isinstance(each, Media))
    assert (media.size, media.has_bytes) == (6, False)


OPENING = re.compile(r"\bwith |TemporaryDirectory|Popen|callback")  # lines that begin something


def interrupted_at(number: int, repository: Path) -> bool:
    """Begin to read HEAD; return whether Ctrl-C came, at that instruction of such lines."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if frame.f_code.co_name != "reading_at":
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and OPENING.search(getline(revision.__file__, frame.f_lineno)):
            count += 1
            if count == number:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        suites = select([str(repository / "evals")])
        with reading_at("HEAD", requests_of, suites, "spec", is_default=True):
            sys.settrace(before)
            return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)


def test_ctrl_c_leaves_nothing_wherever_it_comes(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir(exist_ok=True)
    number = 1
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        while interrupted_at(number, repository):
            gc.collect()
            assert list((tmp_path / "temporary").iterdir()) == []
            number += 3  # of the instructions, each of which takes a third of a second
    assert [str(warning.message) for warning in found] == []
    assert number > 30


def test_a_span_is_pickled_without_its_place() -> None:
    media = Media("image", "image/png", 12, "0" * 64, "a.png")
    shown = Span("Hi", "a.yaml:3", "a.md", "embed_files", media=media)
    placed = replace_fields(shown, place=Place("a.yaml", 3), key="content", changed_by="redact")
    file = io.BytesIO()
    SmallPickler(file).dump(placed)
    assert pickle.loads(file.getvalue()) == shown
