"""One project: commands, Python, pytest and inspect_ai use the same defaults."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import commands
from comparing import write
from multiturn import (
    Case,
    Conversion,
    MultiturnError,
    Pipeline,
    TestMessage,
    dry_run,
    explain,
    load_pipeline,
    load_suite,
    load_target,
    run,
)
from multiturn.distributed import convert_bag, to_line
from multiturn.engine.formats import grader_cases
from multiturn.pipelines.contract import options_of
from multiturn.providers.targets import find_target
from multiturn.testing import cases, convert
from multiturn_stages.render_question import render_question

SUITE = """\
metadata: {systemPrompt: Be brief.}
evalcases:
- id: a
  input_messages:
  - {role: user, content: [{type: file, value: note.txt}, Hi]}
  - {role: system, content: Later.}
  - {role: assistant, content: Ho}
  - {role: user, content: Bye}
"""
HOUSE = """\
extends: design
configure:
  embed_files: {header: "=== {path} ==="}
  render_question: {marker: "<{role}> "}
"""
# How the question of a pipeline that ships begins, where the house's begins with <User>.
AS_SHIPPED = options_of(render_question)["marker"].default.format(role="User")
TARGETS = (
    "targets: [{name: t, provider: openai, base_url: 'http://127.0.0.1:1/v1', model: gpt-x,"
    " max_tokens_field: max_tokens}]\n"
)
OWN = 'pipeline = "house.yaml"\nroot = "evals"\nsuites = ["evals"]\n'
FOLDERS = [".", "evals", "evals/deep", "else/where"]


def make(folder: Path, defaults: str = OWN, name: str = "multiturn.toml") -> Path:
    files = {
        ".git/HEAD": "",
        name: defaults,
        "house.yaml": HOUSE,
        "targets.yaml": TARGETS,
        "note.txt": "of the top",
        "evals/a.eval.yaml": SUITE,
        "evals/deep/b.eval.yaml": SUITE.replace("note.txt", "/note.txt"),
    }
    write(folder, files)
    (folder / "else/where").mkdir(parents=True)
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose root is ``evals``, where note.txt is, and which has a pipeline of its own."""
    folder = make(tmp_path)
    write(folder, {"evals/note.txt": "of evals"})
    monkeypatch.chdir(folder / "else/where")
    return folder


def of_the_project() -> list[str]:
    return [load_pipeline().request(case).question for case in load_suite()]


def test_python_takes_the_defaults_of_the_project(project: Path) -> None:
    question = "<User> === {} ===\nof evals\nHi\n<System> Later.\n<Assistant> Ho\n<User> Bye".format
    assert of_the_project() == [question("note.txt"), question("/note.txt")]
    (case, _) = load_suite("../../evals")
    assert (case.suite, case.files and case.files.root) == (
        "a.eval.yaml",
        str(project / "evals"),
    )


def test_an_argument_wins(project: Path) -> None:
    (case, _) = load_suite("../../evals", root="../..")
    assert case.suite == "evals/a.eval.yaml"
    assert AS_SHIPPED in load_pipeline("spec").request(case).question
    assert AS_SHIPPED in convert(case, "spec").question
    assert [each.id for each in cases("evals/*.yaml", root=project)] == ["evals/a.eval.yaml a"]
    (line,) = convert_bag("../../evals/a.eval.yaml", "spec", root=project).compute(scheduler="sync")
    assert (AS_SHIPPED in line, json.loads(line)["suite"]) == (True, "evals/a.eval.yaml")


def asked(cases_: Any, pipeline: str | None) -> list[str]:
    """Return the questions that a run asks."""

    async def main() -> list[str]:
        results = [result async for result in run(cases_, pipeline, find_target("echo"))]
        return [each.raw_request.question for each in results if each.raw_request]

    return asyncio.run(main())


def test_run_takes_them_too(project: Path) -> None:
    assert sorted(asked("../../evals", None)) == sorted(of_the_project())
    (question,) = asked(load_suite("../../evals/a.eval.yaml", root=project), "spec")
    assert question.startswith(AS_SHIPPED)


CALLS: dict[str, Callable[[], object]] = {
    "load_pipeline": lambda: load_pipeline("spec"),
    "load_suite": lambda: list(load_suite("evals", root=".")),
    "run": lambda: asked(load_suite("evals", root="."), "spec"),
    "cases": lambda: cases("evals/*.yaml", root="."),
    "convert": lambda: convert(Case(id="a", input_messages=(TestMessage("user", "Hi"),)), "spec"),
    "convert_bag": lambda: convert_bag("evals", "spec", root=".").compute(scheduler="sync"),
    "dataset": lambda: grader_cases(["evals"], "spec", ".", ()),
}
LOOKUPS: dict[str, Callable[[], object]] = {
    "load_pipeline": load_pipeline,
    "load_suite": lambda: load_suite("evals"),
    "run": lambda: asked("evals", "spec"),
    "run without a pipeline": lambda: asked([], None),
    "cases": lambda: cases("evals/*.yaml"),
    "convert_bag": lambda: convert_bag("evals", "spec"),
    "dataset": lambda: grader_cases(["evals"], "spec", None, ()),
}


class Named:
    """A path that is neither a text nor a ``Path``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __fspath__(self) -> str:
        return self._name


def test_any_path_is_one(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    suite, pipeline = Named("evals/a.eval.yaml"), Named("house.yaml")
    (case,) = load_suite(suite, root=Named("evals"))
    assert load_pipeline(pipeline).steps == Pipeline(pipeline).steps
    (asked,) = dry_run(suite, pipeline, load_target("echo"), results=Named("r.jsonl"))
    assert asked.result.id == case.id


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_that_says_everything_reads_no_file(
    project: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]
) -> None:
    monkeypatch.chdir(project)
    write(project, {"multiturn.toml": "nothing of it is read ["})
    call()


@pytest.mark.parametrize("call", LOOKUPS.values(), ids=LOOKUPS)
def test_any_other_call_looks_them_up_once(
    project: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]
) -> None:
    monkeypatch.chdir(project)
    looked: list[str] = []

    def look(path: str, name: str) -> BinaryIO:
        looked.append(name)
        return open(path, "rb")

    open_regular = "multiturn.engine.project.open_regular"
    monkeypatch.setattr(open_regular, look)
    call()
    assert looked == ["multiturn.toml"]
    monkeypatch.setattr(os, "getuid", lambda: project.stat().st_uid + 1)
    with pytest.raises(MultiturnError, match="another user owns this file"):
        call()


def test_the_pipeline_of_the_project_may_import_its_stages(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = (
        "from multiturn import stage\n@stage()\ndef imported(conversion):\n    return conversion\n"
    )
    insert = "{stage: 'stages_of_a_project:imported', after: filter_empty}"
    pipeline = f"extends: spec\ninsert: [{insert}]\n"
    write(project, {"stages_of_a_project.py": stage, "house.yaml": pipeline})
    monkeypatch.setattr("sys.path", [*sys.path])
    assert "imported" in [step.name for step in load_pipeline().steps]


def test_a_worker_gets_what_was_found_and_does_not_look_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [
        to_line(load_pipeline()(Conversion(case))).decode().strip() for case in load_suite()
    ]
    bag = convert_bag()
    write(project, {"multiturn.toml": "["})
    monkeypatch.chdir(project.parent)
    assert bag.compute(scheduler="sync") == expected


# Errors


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('pipeline = "house.yml"', "no pipeline '../../house.yml'; there is no such file"),
        ('root = "none"', "the root '../../none' is not a folder"),
        ('suites = ["evls"]', "there is no suite '../../evls'; did you mean "),
    ],
)
def test_an_error_says_which_default_it_names(project: Path, text: str, error: str) -> None:
    write(project, {"multiturn.toml": text})
    with pytest.raises(MultiturnError) as caught:
        load_pipeline() if "pipeline" in text else load_suite(*["../../evals"] * ("root" in text))
    option = text.partition(" ")[0]
    assert str(caught.value).startswith(error)
    assert str(caught.value).endswith(f" (../../multiturn.toml sets {option})")


def test_an_error_advises_what_its_reader_can_write(project: Path) -> None:
    write(project, {"evals/a.eval.yaml": SUITE.replace("note.txt", "../note.txt")})
    advice = "move the file, or name a root that holds it "
    (case, _) = load_suite()
    with pytest.raises(MultiturnError) as caught:
        load_pipeline().request(case)
    assert str(caught.value).endswith(f"{advice}(root=)")
    for options in ([], ["--workers", "2"]):
        done = commands.run("convert", *options, folder=project)
        assert f"{advice}(--root)\n" in done.stderr
    (project / "targets.yaml").unlink()
    with pytest.raises(MultiturnError, match=r"name one with file=, or use the target 'echo'"):
        load_target("claude")


CASE = Case(id="a", input_messages=(TestMessage("user", "Hi"),))
WRONG: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "load_target(5)": (
        *(lambda: load_target(5), TypeError),  # type: ignore[arg-type]
        "load_target takes the name of a target, not an int",
    ),
    "load_suite(None)": (
        *(lambda: load_suite(None), MultiturnError),  # type: ignore[arg-type]
        "there is no suite 'None'",
    ),
    "load_suite of a list": (
        *(lambda: load_suite(["evals"]), MultiturnError),  # type: ignore[arg-type]
        "there is no suite \"['evals']\"",
    ),
    "explain(case)": (
        *(lambda: explain(CASE), TypeError),  # type: ignore[arg-type]
        "explain takes what a pipeline returns, as in explain(pipeline(Conversion(case))), not"
        " a Case",
    ),
    "a role": (
        *(lambda: Case(id="a", input_messages=(TestMessage("usr", "Hi"),)), ValueError),  # type: ignore[arg-type]
        "input_messages[0]: no role 'usr'; did you mean \"user\"?",
    ),
}


@pytest.mark.parametrize(("call", "kind", "error"), WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_told_what_it_should_be(
    call: Callable[[], object], kind: type[Exception], error: str
) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == error


def test_without_suites_in_the_project_a_call_needs_one(project: Path) -> None:
    write(project, {"multiturn.toml": ""})
    calls = {load_suite: "evals/", convert_bag: "evals/", cases: "evals/**/*.eval.yaml"}
    for call, example in calls.items():
        with pytest.raises(TypeError) as caught:
            call()  # type: ignore[operator]
        name = call.__name__
        what = f'{name} needs a suite; write {name}("{example}"), or suites in multiturn.toml'
        assert str(caught.value) == what


# The same requests, whoever asks

Made = tuple[list[str], list[str]]  # the lines of ``multiturn convert``, and errors


def by_command(*options: str) -> Made:
    done = commands.run("convert", "--format", "json", *options, folder=Path.cwd())
    return done.stdout.splitlines(), done.stderr.splitlines()


def made_by(convert: Callable[[Case], Conversion], *found: Case) -> Made:
    lines, errors = [], []
    for case in found:
        try:
            lines.append(to_line(convert(case)).decode().rstrip("\n"))
        except (MultiturnError, pytest.fail.Exception) as error:
            errors.append(str(error).replace("root=", "--root"))
    return lines, errors


def by_python() -> Made:
    pipeline = load_pipeline()
    return made_by(lambda case: pipeline(Conversion(case)), *load_suite())


def by_pytest() -> Made:
    return made_by(convert, *(param.values[0] for param in cases()))


def messages_by_command() -> list[Any]:
    done = commands.run("run", "--target", "t", "--dry-run", folder=Path.cwd())
    return [json.loads(json.loads(line)["wire"])["messages"] for line in done.stdout.splitlines()]


def messages_by_inspect() -> list[Any]:
    _, cases = grader_cases((), None, None, ())
    return [[{"role": m.role, "content": m.content} for m in case.input] for _, case in cases]


def toml(values: dict[str, Any]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items() if value)


defaults = st.fixed_dictionaries(
    {
        "pipeline": st.sampled_from([None, "house.yaml", "design", "shipped", "agentv"]),
        "root": st.sampled_from([None, ".", "evals"]),
        "suites": st.sampled_from([["evals"], ["evals/deep", "evals/a.eval.yaml"]]),
    }
).map(toml)


@settings(max_examples=25)
@given(
    defaults=defaults,
    is_shared=st.booleans(),
    notes=st.sets(st.sampled_from(["evals", "evals/deep"])),
    folder=st.sampled_from(FOLDERS),
)
def test_whoever_asks_and_wherever_the_requests_are_the_same(
    defaults: str, is_shared: bool, notes: set[str], folder: str
) -> None:
    with TemporaryDirectory() as top:
        name, table = (
            ("pyproject.toml", "[tool.multiturn]\n") if is_shared else ("multiturn.toml", "")
        )
        make(Path(top), table + defaults, name)
        write(Path(top), {f"{each}/note.txt": f"of {each}" for each in notes})
        with chdir(top):
            there, _ = by_python()
        with chdir(Path(top, folder)):
            lines, errors = by_python()
            assert lines == there
            assert len(lines) + len(errors) == 2
            assert by_command() == (lines, errors)
            assert by_pytest() == (lines, errors)
            if not errors:
                assert convert_bag().compute(scheduler="sync") == lines
                assert messages_by_inspect() == messages_by_command()


def test_workers_give_the_same(project: Path) -> None:
    assert by_command("--workers", "2") == by_python()
