"""The defaults of a project: multiturn.toml, or [tool.multiturn] of pyproject.toml."""

import json
import os
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from commands import run
from comparing import write
from limits import limited
from multiturn import Case, MultiturnError, TestMessage, load_pipeline, load_target
from multiturn.engine.project import Defaults, find_defaults
from multiturn.testing import cases, convert
from repositories import commit, git

HI = "input_messages: [{role: user, content: Hi}, {role: assistant, content: Ho}]\n"
HOUSE = "extends: spec\nconfigure: {render_question: {marker: '<{role}> '}}\n"
CASE = Case(id="a", input_messages=(TestMessage("user", "Hi"), TestMessage("assistant", "Ho")))
AS_SPEC = load_pipeline("spec").request(CASE).question
AS_HOUSE = "<User> Hi\n<Assistant> Ho"
OWN = 'pipeline = "house.yaml"\nsuites = ["evals"]\n'
DESIGN = 'pipeline = "design"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a suite, and a pipeline whose question has marks of its own."""
    write(tmp_path, {".git/HEAD": "", "evals/a.eval.yaml": HI, "house.yaml": HOUSE})
    (tmp_path / "deep/down").mkdir(parents=True)
    return tmp_path


OURS, SHARED, TABLE = "multiturn.toml", "pyproject.toml", "[tool.multiturn]\n"
WHICH: dict[str, tuple[str, dict[str, str], str | None, str]] = {
    "a file holds in each folder below": (
        *("deep/down", {OURS: OWN}, "../../house.yaml", f"../../{OURS}"),
    ),
    "pyproject.toml does as well": (".", {SHARED: TABLE + OWN}, "house.yaml", SHARED),
    "in one folder, our own wins": (".", {OURS: DESIGN, SHARED: f"{TABLE}no = 1"}, "design", OURS),
    "the nearest wins": (
        *("deep", {OURS: OWN, f"deep/{SHARED}": TABLE + DESIGN}, "design", SHARED),
    ),
    "a pyproject.toml without our table is passed": (
        *("deep", {OURS: DESIGN, f"deep/{SHARED}": "[project]\nname = 'multiturn-evals'"}),
        *("design", f"../{OURS}"),
    ),
    "the search ends at the repository": ("deep", {OURS: OWN, "deep/.git/HEAD": ""}, None, ""),
}


@pytest.mark.parametrize(("folder", "files", "pipeline", "file"), WHICH.values(), ids=WHICH)
def test_which_file_holds(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
    files: dict[str, str],
    pipeline: str | None,
    file: str,
) -> None:
    write(project, files)
    monkeypatch.chdir(project / folder)
    defaults, found = find_defaults()
    assert (defaults.pipeline, found) == (pipeline, file)


def test_paths_are_relative_to_the_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = 'root = "evals"\nsnapshots = "kept"\ntarget = "claude"\ninline_snapshots = true\n'
    write(project, {"multiturn.toml": said})
    monkeypatch.chdir(project / "deep")
    assert find_defaults()[0] == Defaults(
        root="../evals", snapshots="../kept", target="claude", inline_snapshots=True
    )


def test_commands_take_defaults_and_an_option_wins(project: Path) -> None:
    write(project, {"multiturn.toml": f'{OWN}snapshots = "kept"\n', "b.yaml": f"id: b\n{HI}"})
    for arguments, question in (([], AS_HOUSE), (["--pipeline", "spec"], AS_SPEC)):
        done = run("convert", *arguments, folder=project / "deep")
        assert (done.returncode, json.loads(done.stdout)["question"]) == (0, question)
    assert run("list", "b.yaml", folder=project).stdout.startswith("b.yaml\n")
    assert run("snapshot", folder=project / "deep").returncode == 0
    assert (project / "kept/evals/a/a.yaml").exists()
    assert "[default: house.yaml]" in run("convert", "--help", folder=project).stdout


@pytest.mark.parametrize("command", ["list", "run", "stages"])
def test_verbose_says_where_values_come_from(project: Path, command: str) -> None:
    write(project, {"multiturn.toml": OWN})
    done = run(command, "-v", folder=project / "deep")
    assert "defaults.used" in done.stderr
    assert "file=../multiturn.toml pipeline=../house.yaml" in done.stderr
    write(project, {"multiturn.toml": ""})
    assert "defaults.used" not in run("convert", "evals", "-v", folder=project).stderr


def test_a_command_ends_with_what_is_wrong_in_the_file(project: Path) -> None:
    write(project, {"multiturn.toml": "suites = 1"})
    done = run("run", folder=project)
    error = "Error: multiturn.toml: suites must be a list, not a number\n"
    assert (done.returncode, done.stderr) == (2, error)


@pytest.mark.parametrize("text", [f"root = {'9' * 5_000}", f"root = {'[' * 3_000}{']' * 3_000}"])
def test_what_is_too_much_for_the_parser_is_an_error(project: Path, text: str) -> None:
    write(project, {OURS: text})
    with chdir(project), pytest.raises(MultiturnError, match=r"^multiturn\.toml: not TOML: "):
        find_defaults()


@pytest.mark.parametrize("name", [OURS, SHARED])
@pytest.mark.parametrize("is_foreign", [False, True])
def test_a_pipe_a_device_or_an_endless_file_is_an_error_at_once(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_foreign: bool
) -> None:
    monkeypatch.chdir(project / "deep/down")
    if is_foreign:
        monkeypatch.setattr(os, "getuid", lambda: project.stat().st_uid + 1)
    file = project / name
    makes: list[tuple[Any, str]] = [
        (lambda: os.mkfifo(file), "this is not a regular file"),
        (lambda: file.symlink_to("/dev/zero"), "this is not a regular file"),
        (file.mkdir, "Is a directory"),
        (lambda: (file.touch(), os.truncate(file, 2**30)), "defaults of over 1,000,000 bytes"),  # type: ignore[func-returns-value]
    ]
    for make, error in makes:
        make()
        with limited(megabytes=5), pytest.raises(MultiturnError, match=error):
            find_defaults()
        file.rmdir() if file.is_dir() else file.unlink()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--output", "evals"), "'evals' is not a regular file; results are appended to one"),
        (("--case", "evals"), "no case 'evals'; "),
    ],
)
def test_an_error_names_no_default_whose_value_the_command_line_says(
    project: Path, options: tuple[str, ...], error: str
) -> None:
    write(project, {"multiturn.toml": 'suites = ["evals"]\n'})
    done = run("run", *options, folder=project)
    assert done.stderr.startswith(f"Error: {error}")
    assert "multiturn.toml" not in done.stderr


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('suites = ["evls"]', "there is no suite 'evls'; did you mean 'evals'?"),
        ('root = "no"', "the root 'no' is not a folder"),
        ('pipeline = "house.yml"', "no pipeline 'house.yml'; "),
        ('target = "none"', "no target 'none': there is no targets.yaml"),
    ],
)
def test_an_error_says_which_default_it_names(project: Path, text: str, error: str) -> None:
    write(project, {"multiturn.toml": text})
    option = text.partition(" ")[0]
    done = run("run", *([] if option == "suites" else ["evals"]), folder=project)
    assert (done.returncode, done.stderr.startswith(f"Error: {error}")) == (2, True)
    assert done.stderr.endswith(f" (multiturn.toml sets {option})\n")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--pipeline=house.yml"], "no pipeline 'house.yml'; "),
        (["--pipeline=spec", "evls"], "there is no suite 'evls'; "),
        ([], "house.yaml:1:10: no pipeline 'spce'; "),
    ],
)
def test_other_errors_do_not(project: Path, options: list[str], error: str) -> None:
    write(project, {"multiturn.toml": OWN, "house.yaml": "extends: spce"})
    done = run("convert", *options, folder=project)
    assert (done.returncode, done.stderr.startswith(f"Error: {error}")) == (2, True)
    assert "multiturn.toml" not in done.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give")
@pytest.mark.parametrize("is_link", [False, True])
def test_the_file_of_another_user_is_refused(project: Path, is_link: bool) -> None:
    write(project, {"mine.toml": OWN})
    file = project / "multiturn.toml"
    if is_link:
        file.symlink_to("mine.toml")
    else:
        write(project, {"multiturn.toml": OWN})
    os.chown(file, 12345, 12345, follow_symlinks=False)
    done = run("list", folder=project)
    assert done.returncode == 2
    assert "multiturn.toml: another user owns this file" in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        (OURS, "this is not read [", "another user owns this file"),
        (SHARED, "[tool.multiturn", "another user owns this file"),
        (SHARED, "[tool]\nmultiturn = [", "another user owns this file"),
        (SHARED, "tool = {multiturn = {pipeline = 'theirs'}}", "another user owns this file"),
        (SHARED, "[ 'tool' . \"multiturn\" ]", "another user owns this file"),
        (SHARED, "[project]\nname = 'theirs'", None),  # it says nothing to anybody
        (SHARED, "[project]\ndependencies = ['multiturn']\n[tool.ruff]\n", None),
    ],
)
def test_a_file_above_is_asked_for_its_owner_before_it_is_parsed(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, error: str | None
) -> None:
    write(project, {name: text})
    monkeypatch.chdir(project / "deep")
    monkeypatch.setattr(os, "getuid", lambda: project.stat().st_uid + 1)
    if error is None:
        assert find_defaults() == (Defaults(), "")
        return
    with pytest.raises(MultiturnError, match=rf"^\.\./{name}: {error}"):
        find_defaults()
    monkeypatch.undo()
    write(project, {f"deep/{OURS}": DESIGN})  # as the error advises
    monkeypatch.chdir(project / "deep")
    monkeypatch.setattr(
        "multiturn.engine.project.is_foreign", lambda path: os.path.dirname(path) == str(project)
    )
    assert find_defaults()[0].pipeline == "design"


@pytest.mark.parametrize("blank", ["\n", "\t", "[", " ", "tool"])
def test_a_long_file_of_another_user_is_searched_at_once(
    project: Path, monkeypatch: pytest.MonkeyPatch, blank: str
) -> None:
    write(project, {SHARED: f"# multiturn{blank * 240_000}tool"})
    monkeypatch.chdir(project / "deep")
    monkeypatch.setattr(os, "getuid", lambda: project.stat().st_uid + 1)
    with limited(seconds=2):
        assert find_defaults() == (Defaults(), "")


def test_tests_of_suites_take_them(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, {"multiturn.toml": f'{OWN}root = "evals"'})
    monkeypatch.chdir(project)
    assert (convert(CASE).question, convert(CASE, "spec").question) == (AS_HOUSE, AS_SPEC)
    assert [param.id for param in cases("evals/*.yaml")] == ["a.eval.yaml a"]
    assert [param.id for param in cases("evals/*.yaml", root=".")] == ["evals/a.eval.yaml a"]


# --- the default system message

SAID, NONE = "You are a careful assistant.", 'default_system = "omit"\n'
TARGETS = """\
- {name: plain, provider: openai, api_key: abcdef, model: gpt-4o}
- {name: sends, provider: openai, api_key: abcdef, model: gpt-4o, default_system: send}
- {name: omits, provider: openai, api_key: abcdef, model: gpt-4o, default_system: omit}
- {name: own, provider: "house_of_defaults:Own"}
"""
HOUSE_OF_DEFAULTS = """\
from multiturn import AxProvider, ProviderResponse

class Own(AxProvider):
    async def invoke(self, request):
        return ProviderResponse(text=self.build_chat_prompt(request)[0].content)
"""


@pytest.fixture
def omitting(project: Path) -> Path:
    """A project that says ``omit``, with a suite whose only message is the user's."""
    suite = "input_messages: [{role: user, content: Hi}]\n"
    write(project, {"evals/a.eval.yaml": suite, "targets.yaml": TARGETS})
    write(project, {OURS: f'suites = ["evals"]\n{NONE}'})
    return project


@pytest.mark.parametrize(
    ("target", "repairs"),
    [
        ("echo", []),
        ("plain", []),
        ("omits", []),
        ("sends", [f"C9: added the default system message: {SAID}"]),
    ],
)
def test_a_project_omits_the_default_system_message_once_and_a_target_wins(
    omitting: Path, target: str, repairs: list[str]
) -> None:
    dry = run("run", "--target", target, "--dry-run", folder=omitting)
    line = json.loads(dry.stdout)
    assert (line["repairs"], SAID in line["wire"]) == (repairs, bool(repairs))
    shown = json.loads(run("convert", "--target", target, folder=omitting).stdout)
    assert (shown["repairs"], len(shown["messages"])) == (repairs, 1 + len(repairs))
    checked = run("check", "--target", target, folder=omitting)
    assert (SAID in checked.stderr) == bool(repairs)
    assert "note: " not in checked.stderr or "C9" in checked.stderr
    for command in ("explain", "list --tokens"):
        done = run(*command.split(), "--target", target, "--format", "json", folder=omitting)
        assert (done.returncode, SAID in done.stdout) == (0, command == "explain" and bool(repairs))
    with chdir(omitting / "deep"):
        request = load_pipeline("spec").request(CASE)
        body = load_target(target).wire(request).body.decode()
    assert (SAID in body) == bool(repairs)


def test_without_the_line_it_is_added_and_the_summary_says_so(omitting: Path) -> None:
    write(omitting, {OURS: 'suites = ["evals"]\n'})
    done = run("run", folder=omitting)
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["repairs"] == [f"C9: added the default system message: {SAID}"]
    summary = "1 answered, 0 reused, 0 failed, 0 retried; 1 sent with repairs: C9\n"
    assert done.stderr == summary
    write(omitting, {OURS: f'suites = ["evals"]\n{NONE}'})
    assert run("run", folder=omitting).stderr == "1 answered, 0 reused, 0 failed, 0 retried\n"


@pytest.mark.parametrize(
    ("said", "target", "word"),
    [
        ("", "plain", "send"),
        (NONE, "plain", "omit"),
        (NONE, "sends", "send"),
        ("", "omits", "omit"),
    ],
)
def test_the_lock_of_a_target_has_the_word_that_counts(
    omitting: Path, said: str, target: str, word: str
) -> None:
    write(omitting, {OURS: f'suites = ["evals"]\n{said}'})
    run("snapshot", "--target", target, folder=omitting)
    lock = (omitting / "snapshots/target.lock").read_text(encoding="utf-8")
    assert f"\nprovider: openai\ndefault_system: {word}\n" in lock


def test_what_a_provider_of_ones_own_builds_does_not_depend_on_it(omitting: Path) -> None:
    write(omitting, {"house_of_defaults.py": HOUSE_OF_DEFAULTS})
    done = run("run", "--target", "own", folder=omitting)
    assert json.loads(done.stdout)["response"] == SAID


def test_a_report_shows_the_day_on_which_a_project_omits_it(omitting: Path) -> None:
    write(omitting, {OURS: 'suites = ["evals"]\n', ".git/HEAD": ""})
    (omitting / ".git/HEAD").unlink()
    (omitting / ".git").rmdir()
    git(omitting, "init", "-q")
    commit(omitting)
    given = ("report", "--against", "HEAD", "--target", "plain", "--format", "markdown")
    assert "1 case changed" not in run(*given, folder=omitting).stdout
    write(omitting, {OURS: f'suites = ["evals"]\n{NONE}'})
    assert run(*given, folder=omitting).stdout.startswith("## 1 case changed; 1 cause: ")
