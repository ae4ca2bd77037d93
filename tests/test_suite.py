"""Suites: files to cases, each error with its place. The messages are tables, in tests/errors."""

import io
import json
import os
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from structlog.testing import capture_logs

import commands
from comparing import write
from layout import laid_out
from loading import HI, cases, cases_and_errors, messages
from multiturn import MultiturnError, TestMessage, load_suite
from multiturn.errors import InputError, OutsideRootError
from multiturn.model.settings import RequestSettings
from multiturn.suites.discovery import find_suites

pytestmark = pytest.mark.usefixtures("root")

# Documents


@pytest.mark.parametrize(
    "name", ["greeting.eval.yaml", "evals/greeting.eval.yml", "greeting.eval.json", "greeting.yaml"]
)
def test_a_bare_case_without_an_id_has_its_files_name(name: str) -> None:
    [case] = cases(json.dumps({"input_messages": [{"role": "user", "content": "😀"}]}), name)
    assert (case.id, messages(case)) == ("greeting", [("user", "😀")])


def test_a_file_holds_several_documents_that_share_nothing() -> None:
    suite = f"metadata: {{systemPrompt: P}}\nguidelines: [G]\nevalcases:\n- id: b\n  {HI}\n"
    found = cases(f"id: a\n{HI}\n---\n{suite}- id: c\n  {HI}\n---\n{HI}\n")
    assert [
        (case.id, case.suite, case.line, case.system_prompt, case.guidelines) for case in found
    ] == [
        ("a", "x.eval.yaml", 1, None, ()),
        ("b", "x.eval.yaml", 7, "P", ("G",)),
        ("c", "x.eval.yaml", 9, "P", ("G",)),
        ("x", "x.eval.yaml", 12, None, ()),
    ]


def test_what_a_case_holds() -> None:
    suite = """\
        metadata: {team: a, owner: b}
        evalcases:
          - id: review
            outcome: A bug is found.
            conversation_id: 010
            metadata: {owner: c, tags: [x, 1.5, ~]}
            input_messages:
              - role: system
                content: Be kind.
              - role: user
                content:
                  - Look at this.
                  - type: text
                    value: |
                      a: yes
            expected_messages: [{role: assistant, content: Line 3 is wrong.}]
        """
    [case] = cases(dedent(suite))
    segments = ["Look at this.", {"type": "text", "value": "a: yes\n"}]
    assert case.input_messages == (
        TestMessage("system", "Be kind.", line=8, content_lines=(9,), content_columns=(18,)),
        TestMessage("user", segments, line=10, content_lines=(12, 13), content_columns=(13, 13)),
    )
    assert (case.outcome, case.conversation_id) == ("A bug is found.", "010")
    assert case.expected_messages == [{"role": "assistant", "content": "Line 3 is wrong."}]
    assert case.metadata == {"team": "a", "owner": "c", "tags": ["x", 1.5, None]}


@pytest.mark.parametrize("written", ["010", "10.0", "0x1F", "2024-01-01", "yes", '"010"', "a b/c"])
def test_an_id_is_taken_as_written(written: str) -> None:
    [case] = cases(f"evalcases:\n- id: {written}\n  {HI}\n")
    assert case.id == written.strip('"')


@pytest.mark.parametrize(
    ("key", "own"), [("systemPrompt", "system_prompt"), ("system_prompt", "systemPrompt")]
)
def test_a_case_has_the_suites_system_prompt_or_its_own(key: str, own: str) -> None:
    suite = f"metadata: {{{key}: S}}\nevalcases:\n- id: a\n  {HI}\n"
    found = cases(
        f"{suite}- id: b\n  metadata: {{{own}: B}}\n  {HI}\n---\nmetadata: {{{key}: C}}\n{HI}"
    )
    assert [(case.system_prompt, case.metadata) for case in found] == [
        ("S", {}),
        ("B", {}),
        ("C", {}),
    ]


def test_a_case_has_the_settings_and_the_guidelines_of_its_suite_under_its_own() -> None:
    suite = "guidelines: [S]\nexecution: {target: x, temperature: 1, max_output_tokens: 5}\n"
    settings = "guidelines: [C], execution: {temperature: 0, max_output_tokens: 7}"
    own, none = cases(f"{suite}evalcases:\n- {{id: a, {settings}, {HI}}}\n- {{id: b, {HI}}}\n")
    assert (own.guidelines, none.guidelines) == (("S", "C"), ("S",))
    assert own.execution == {"target": "x", "temperature": 0, "max_output_tokens": 7}
    assert own.settings == RequestSettings(temperature=0, max_output_tokens=7)
    assert none.settings == RequestSettings(temperature=1, max_output_tokens=5)


def test_anchors_are_shared_by_cases() -> None:
    first = "- id: a\n  input_messages: &all [{role: user, content: &text [Hi, there]}]\n"
    others = (
        "- {id: b, input_messages: *all}\n- {id: c, input_messages: [{role: tool, content: *text}]}"
    )
    found = cases(f"evalcases:\n{first}{others}\n")
    content = ["Hi", "there"]
    assert list(map(messages, found)) == [[("user", content)]] * 2 + [[("tool", content)]]


# Guideline patterns

CONFIG = ".agentv/config.yaml"
MD, TXT = (
    "$schema: v2\nguideline_patterns: ['*.md']\nmore: 1\n",
    "guideline_patterns: ['*.txt']\n",
)


@pytest.mark.parametrize(
    ("own", "configs", "options", "meant"),
    [
        pytest.param("", {}, {}, (), id="nowhere: none"),
        pytest.param("['*.md']", {"evals/deep": TXT}, {}, ("*.md",), id="the suite wins"),
        pytest.param("[]", {"": TXT}, {}, (), id="the suite's empty list wins"),
        pytest.param("", {"": MD}, {}, ("*.md",), id="from the root's config"),
        pytest.param("", {"": TXT, "evals": MD}, {}, ("*.md",), id="the nearest config wins"),
        pytest.param("", {"evals": TXT, "evals/deep": MD}, {}, ("*.md",), id="beside the suite"),
        pytest.param("", {"": MD, "evals": ""}, {}, (), id="also one that is empty"),
        pytest.param("", {"": MD, "evals": "more: 1\n"}, {}, (), id="also one without patterns"),
        pytest.param("", {"..": MD}, {}, (), id="above the root there is none"),
        pytest.param("", {"evals/other": MD}, {}, (), id="beside the way there is none"),
        pytest.param("", {"": MD}, {"root": "evals"}, (), id="above another root"),
        pytest.param(
            "['*.md']", {"": MD}, {"guideline_patterns": ["x"]}, ("x",), id="replaced by the caller"
        ),
    ],
)
def test_where_guideline_patterns_come_from(
    root: Path, own: str, configs: dict[str, str], options: Any, meant: tuple[str, ...]
) -> None:
    write(root, {f"{folder}/{CONFIG}".lstrip("/"): text for folder, text in configs.items()})
    top = f"guideline_patterns: {own}\n" if own else ""
    [case] = cases(f"{top}{HI}\n", "evals/deep/x.eval.yaml", **options)
    assert case.guideline_patterns == meant


@pytest.mark.parametrize(
    ("link", "target"), [(CONFIG, "../../out/config.yaml"), (".agentv", "../out")]
)
def test_a_config_through_a_link_to_the_outside_is_refused(
    root: Path, link: str, target: str
) -> None:
    write(root.parent, {"out/config.yaml": MD})
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to(target)
    with pytest.raises(OutsideRootError):
        cases(HI)


def test_of_many_patterns_none_is_judged() -> None:
    for count, warnings in ((100, 100), (101, 0)):
        with capture_logs() as logs:
            cases(f"guideline_patterns: {[f'{number}.md' for number in range(count)]}\n{HI}")
        assert len(logs) == warnings


def test_no_pattern_is_judged_by_some_of_the_cases(root: Path) -> None:
    write(root, {"x.eval.yaml": f"guideline_patterns: ['*.md']\nevalcases:\n- id: a\n  {HI}"})
    assert "'*.md' matches no file" in commands.run("convert", ".", folder=root).stderr
    assert commands.run("convert", ".", "--case", "a", folder=root).stderr == ""


# The root


@pytest.mark.parametrize(
    ("git", "options", "top"),
    [
        pytest.param(".git", {}, ".", id="the nearest folder above with .git"),
        pytest.param("evals/.git", {}, "evals", id="also of a worktree, where .git is a file"),
        pytest.param("", {}, "evals", id="without .git, the suite's own folder"),
        pytest.param(".git", {"root": "data"}, "data", id="a root beside the suite"),
        pytest.param(".git", {"root": Path("data")}, "data", id="a root that is a Path"),
    ],
)
def test_the_root_of_a_suite(root: Path, git: str, options: Any, top: str) -> None:
    (root / ".git").rmdir()
    write(root, {"data/a.txt": "A", **({git: "gitdir: elsewhere"} if git else {})})
    [case] = cases(HI, "evals/x.yaml", **options)
    assert case.files is not None
    assert case.files.root == str(root / top).rstrip("/.")


# Errors


def test_without_a_handler_the_first_error_is_raised() -> None:
    write(Path(), {"x.eval.yaml": f"evalcases:\n- id: a\n  {HI}\n- id: b\n- id: c\n  {HI}\n"})
    loaded = load_suite("x.eval.yaml")
    assert next(loaded).id == "a"
    with pytest.raises(MultiturnError, match=r"^x\.eval\.yaml:4:3: case 'b': "):
        next(loaded)


def test_with_a_handler_the_other_cases_are_read() -> None:
    bad = "- id: b\n- 7\n- id: c\n  input_messages: x\n"
    found, errors = cases_and_errors(
        f"evalcases:\n- id: a\n  {HI}\n{bad}- id: d\n  {HI}\n- id: a\n  {HI}\n- id: e\n  {HI}\n"
    )
    assert [case.id for case in found] == ["a", "d", "e"]
    assert [(error.where.line, error.case_id) for error in errors] == [
        *((4, "b"), (5, ""), (7, "c"), (10, ""))
    ]


@pytest.mark.parametrize(
    ("source", "options", "error"),
    [
        ("no.eval.yaml", {}, "there is no suite 'no.eval.yaml'"),
        ("b.eval.yaml", {}, "there is no suite 'b.eval.yaml'; did you mean 'a.eval.yaml'?"),
        ("loop.eval.yaml", {}, "there is no suite 'loop.eval.yaml'; the link leads nowhere"),
        ("gone.eval.yaml", {}, "there is no suite 'gone.eval.yaml'; the link leads nowhere"),
        ("empty", {}, "there is no *.eval.yaml, *.eval.yml, *.eval.json or *.eval.jsonl below"),
        (".", {"root": "no"}, "the root 'no' is not a folder"),
        (".", {"root": "a.eval.yaml"}, "the root 'a.eval.yaml' is not a folder"),
        (".", {"guideline_patterns": ["@(a)"]}, "the guideline pattern '@(a)' "),
        (".", {"guideline_patterns": "*.md"}, "guideline_patterns are several texts"),
    ],
)
def test_what_is_wrong_with_the_call_is_raised_by_the_call(
    source: str, options: dict[str, Any], error: str
) -> None:
    write(Path(), {"a.eval.yaml": HI, "empty/x": ""})
    Path("loop.eval.yaml").symlink_to("loop.eval.yaml")
    Path("gone.eval.yaml").symlink_to("no.yaml")
    with pytest.raises((MultiturnError, TypeError)) as caught:
        load_suite(source, **options)
    assert str(caught.value).startswith(error)


@pytest.mark.skipif(sys.platform == "darwin", reason="both names are one there")
def test_a_name_in_another_unicode_form_is_said_to_look_the_same() -> None:
    one, other = "\u00e9.eval.yaml", "e\u0301.eval.yaml"
    write(Path(), {other: HI})
    what = "a name there looks the same, in another Unicode form (NFC or NFD); copy or change it"
    with pytest.raises(InputError) as caught:
        load_suite(one)
    assert str(caught.value) == f"there is no suite '{one}'; {what}"


def test_a_folder_stands_for_its_suites_and_cases_can_be_selected(root: Path) -> None:
    text = f"evalcases: [{', '.join(f'{{id: {name}, {HI}}}' for name in ('x-1', 'x-2', 'y'))}]"
    write(root, {"b/one.eval.yaml": text, "a/two.eval.yaml": text})
    found = [(each.suite, each.id) for each in load_suite(".", case="x-*")]
    assert found == [(f"{name}.eval.yaml", f"x-{n}") for name in ("a/two", "b/one") for n in (1, 2)]
    assert [each.id for each in load_suite(Path("a"), case=["y", "x-2"])] == ["x-2", "y"]
    with pytest.raises(MultiturnError, match="no case 'z'; choose from: x-1, x-2, y"):
        list(load_suite("a", case="z"))


def test_a_hyphen_is_standard_input(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, {CONFIG: MD, "a.md": "A", "evals/b.txt": "B"})
    files = "{type: file, value: a.md}, {type: file, value: /evals/b.txt}"
    text = f"id: é\ninput_messages: [{{role: user, content: [{files}]}}]\n"
    text += "---\nid: b\ninput_messages: x\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), "ascii"))
    errors: list[MultiturnError] = []
    [case] = load_suite("-", on_error=errors.append)
    request = laid_out().request(case)
    assert (request.eval_id, request.question, request.guidelines) == (
        *("é", "<Attached: a.md>\n=== /evals/b.txt ===\nB", ("A",)),
    )
    assert [str(error.where) for error in errors] == ["<stdin>:5:17: case 'b'"]


# Finding suites


def test_a_folder_is_all_suites_below_it_sorted(root: Path) -> None:
    suites = ["a.eval.yml", "b/a/y.eval.jsonl", "b/z.eval.json", "c.eval.yaml"]
    others = ["a.yaml", "eval.yaml", "b/a.eval.yaml.bak", ".x/d.eval.yaml"]
    others += ["folder.eval.yaml/x", "node_modules/m/d.eval.yaml"]
    write(root, {f"evals/{name}": HI for name in others + suites[::-1]})
    assert list(find_suites(["evals"])) == [f"evals/{name}" for name in suites]


def test_a_folder_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> Any:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(MultiturnError, match=r"^cannot read the folder '\.': Permission denied$"):
        list(find_suites(["."]))


def test_a_pipe_in_a_folder_is_skipped_with_a_warning_and_read_when_it_is_named(root: Path) -> None:
    write(root, {"a.eval.yaml": HI})
    os.mkfifo("b.eval.yaml")
    Path("c.eval.yaml").symlink_to("b.eval.yaml")
    Path("d.eval.yaml").symlink_to("missing")
    with capture_logs() as logs:
        assert list(find_suites(["."])) == ["a.eval.yaml", "d.eval.yaml"]
    assert [(log["event"], log["where"]) for log in logs] == [
        ("suite.skipped", "b.eval.yaml"),
        ("suite.skipped", "c.eval.yaml"),
    ]
    assert list(find_suites(["b.eval.yaml"])) == ["b.eval.yaml"]


def test_what_is_named_is_found_in_its_order_and_once(root: Path) -> None:
    found = ["suite.txt", ".hidden/evals/x.eval.yaml", "b/x.eval.yaml", "a/x.eval.yaml"]
    write(root, dict.fromkeys(found, HI))
    Path("a/up").symlink_to("..")
    named = ["suite.txt", "-", ".hidden", "b", "a", "b/../b"]
    assert list(find_suites(named)) == ["suite.txt", "-", *found[1:]]
