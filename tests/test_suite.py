"""Suites: files to cases, each error with its place, and no text lost on the way."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from structlog.testing import capture_logs

import commands
from multiturn import Case, MultiturnError, ProviderRequest, TestMessage, load_pipeline, load_suite
from multiturn.errors import OutsideRootError
from multiturn.suites.discovery import find_suites

HI = "input_messages: [{role: user, content: hi}]\n"
SPEC = load_pipeline("spec")
Write = Callable[..., Path]
Chat = list[tuple[str, str]]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that writes a file below the root, which is the current folder."""
    (tmp_path / "root" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "root")

    def write(path: str, text: str) -> Path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(dedent(text).encode())
        return Path(path)

    return write


def cases(path: str | Path = "x.eval.yaml", **options: Any) -> list[Case]:
    return list(load_suite(path, **options))


def errors_of(path: str | Path = "x.eval.yaml", **options: Any) -> list[str]:
    """Return what is said of a suite, and of its cases on their way to requests."""
    said: list[MultiturnError] = []
    for case in load_suite(path, on_error=said.append, **options):
        try:
            SPEC.request(case)
        except MultiturnError as error:
            said.append(error)
    return [str(error) for error in said]


def requests(path: str | Path = "x.eval.yaml", **options: Any) -> list[ProviderRequest]:
    return [SPEC.request(case) for case in load_suite(path, **options)]


def chat(path: str | Path = "x.eval.yaml", **options: Any) -> Chat:
    """Return the chat prompt of a suite's only case."""
    [request] = requests(path, **options)
    return [(message.role, message.content) for message in request.chat_prompt or ()]


def attach(*paths: str, patterns: Iterable[str] = ()) -> str:
    """Return a suite of a case that attaches files."""
    files = ", ".join(f"{{type: file, value: {path}}}" for path in paths)
    return (
        f"guideline_patterns: {list(patterns)}\n"
        f"id: x\ninput_messages:\n- role: user\n  content: [{files}, Go.]\n"
    )


# Documents


@pytest.mark.parametrize(
    "name", ["greeting.eval.yaml", "evals/greeting.eval.yml", "greeting.eval.json", "greeting.yaml"]
)
def test_a_bare_case_without_an_id_has_its_files_name(write: Write, name: str) -> None:
    write(name, json.dumps({"input_messages": [{"role": "user", "content": "😀"}]}))
    assert [case.id for case in cases(name)] == ["greeting"]


def test_a_file_holds_several_documents_that_share_nothing(write: Write) -> None:
    suite = f"metadata: {{systemPrompt: P}}\nguidelines: [G]\nevalcases:\n- id: b\n  {HI}"
    write("x.eval.yaml", f"id: a\n{HI}---\n{suite}- id: c\n  {HI}---\n{HI}")
    assert [
        (case.id, case.suite, case.line, case.system_prompt, case.guidelines) for case in cases()
    ] == [
        ("a", "x.eval.yaml", 1, None, ()),
        ("b", "x.eval.yaml", 7, "P", ("G",)),
        ("c", "x.eval.yaml", 9, "P", ("G",)),
        ("x", "x.eval.yaml", 12, None, ()),
    ]


def test_what_a_case_holds(write: Write) -> None:
    write(
        "x.eval.yaml",
        """\
        metadata: {team: a, owner: b}
        evalcases:
          - id: review
            outcome: A bug is found.
            conversation_id: thread-1
            metadata: {owner: c, tags: [x, 1.5, ~]}
            execution: {target: fast}
            input_messages:
              - role: system
                content: Be kind.
              - role: user
                content:
                  - Look at this.
                  - type: text
                    value: |
                      a: yes
              - role: assistant
                content: {verdict: fine, score: 1}
            expected_messages:
              - role: assistant
                content: Line 3 is wrong.
        """,
    )
    [case] = cases()
    assert case.input_messages == (
        TestMessage("system", "Be kind.", line=9, content_lines=(10,)),
        TestMessage(
            "user",
            ["Look at this.", {"type": "text", "value": "a: yes\n"}],
            line=11,
            content_lines=(13, 14),
        ),
        TestMessage("assistant", {"verdict": "fine", "score": 1}, line=17, content_lines=(18,)),
    )
    assert case.outcome == "A bug is found."
    assert case.conversation_id == "thread-1"
    assert case.expected_messages == [{"role": "assistant", "content": "Line 3 is wrong."}]
    assert case.execution == {"target": "fast"}
    assert case.metadata == {"team": "a", "owner": "c", "tags": ["x", 1.5, None]}


@pytest.mark.parametrize(
    "written",
    ["010", "10.0", "0x1F", "1e3", "2024-01-01", "12:30", "yes", "true", '"010"', "a b/c", "日本"],
)
def test_an_id_is_taken_as_written(write: Write, written: str) -> None:
    write("x.eval.yaml", f"evalcases:\n- id: {written}\n  {HI}")
    assert [case.id for case in cases()] == [written.strip('"')]


# System prompts and given guidelines


@pytest.mark.parametrize("key", ["systemPrompt", "system_prompt"])
@pytest.mark.parametrize("own", ["systemPrompt", "system_prompt"])
def test_a_suites_system_prompt_counts_unless_a_case_has_its_own(
    write: Write, key: str, own: str
) -> None:
    write(
        "x.eval.yaml",
        f"metadata: {{{key}: Shared}}\n"
        f"evalcases:\n- id: a\n  {HI}- id: b\n  metadata: {{{own}: Own}}\n  {HI}",
    )
    chats = [[message.content for message in one.chat_prompt or ()] for one in requests()]
    assert chats == [["Shared", "hi"], ["Own", "hi"]]
    write("x.eval.yaml", f"metadata: {{{key}: Bare}}\n{HI}")
    assert chat() == [("system", "Bare"), ("user", "hi")]


def test_guidelines_of_suite_and_case_are_both_given(write: Write) -> None:
    write("x.eval.yaml", f"guidelines: [S]\nevalcases:\n- id: a\n  guidelines: [C]\n  {HI}")
    assert chat()[0] == ("system", "[[ ## Guidelines ## ]]\n\nS\n\nC")


# Guideline patterns


def test_of_many_patterns_none_is_judged(write: Write) -> None:
    for count, warnings in ((100, 100), (101, 0)):
        patterns = [f"{number}.md" for number in range(count)]
        write("x.eval.yaml", f"guideline_patterns: {patterns}\n{HI}")
        with capture_logs() as logs:
            cases()
        assert len(logs) == warnings


def test_no_pattern_is_judged_by_some_of_the_cases(write: Write) -> None:
    write("x.eval.yaml", f"guideline_patterns: ['*.md']\nevalcases:\n- id: a\n  {HI}")
    assert "'*.md' matches no file" in commands.run("convert", ".", folder=Path()).stderr
    assert commands.run("convert", ".", "--case", "a", folder=Path()).stderr == ""


@pytest.fixture
def attached(write: Write) -> Write:
    """Return a function that writes a suite which attaches two files, with given first lines."""
    write("evals/deep/a.md", "A")
    write("evals/deep/b.txt", "B")

    def attach(top: str = "") -> Path:
        files = "{type: file, value: a.md}, {type: file, value: b.txt}"
        return write(
            "evals/deep/x.eval.yaml", f"{top}input_messages: [{{role: user, content: [{files}]}}]\n"
        )

    return attach


MARKDOWN = [
    ("system", "[[ ## Guidelines ## ]]\n\nA"),
    ("user", "<Attached: a.md>\n=== b.txt ===\nB"),
]
TEXT = [("system", "[[ ## Guidelines ## ]]\n\nB"), ("user", "=== a.md ===\nA\n<Attached: b.txt>")]
NEITHER = [("user", "=== a.md ===\nA\n=== b.txt ===\nB")]


@pytest.mark.parametrize(
    ("own", "configs", "options", "meant"),
    [
        pytest.param("", {}, {}, NEITHER, id="nowhere: none"),
        pytest.param('["**/*.{md,txt}", "!**/b.*"]', {}, {}, MARKDOWN, id="from the suite"),
        pytest.param('["*.md"]', {}, {}, MARKDOWN, id="from the suite, for the written path"),
        pytest.param('["/evals/deep/*.md"]', {}, {}, MARKDOWN, id="anchored"),
        pytest.param("", {"": "md"}, {}, MARKDOWN, id="from the root's config"),
        pytest.param("", {"": "txt", "evals/": "md"}, {}, MARKDOWN, id="the nearest config wins"),
        pytest.param(
            "", {"evals/": "txt", "evals/deep/": "md"}, {}, MARKDOWN, id="also beside the suite"
        ),
        pytest.param('["**/*.md"]', {"evals/deep/": "txt"}, {}, MARKDOWN, id="the suite wins"),
        pytest.param("[]", {"": "txt"}, {}, NEITHER, id="the suite's empty list wins"),
        pytest.param("", {"../": "md"}, {}, NEITHER, id="above the root there is none"),
        pytest.param("", {"evals/other/": "md"}, {}, NEITHER, id="beside the way there is none"),
        pytest.param("", {"": "md"}, {"root": "evals"}, NEITHER, id="above another root"),
        pytest.param(
            '["**/*.md"]', {"": "md"}, {"guideline_patterns": ["x", "b.*"]}, TEXT, id="replaced"
        ),
    ],
)
def test_where_guideline_patterns_come_from(
    write: Write,
    attached: Write,
    own: str,
    configs: dict[str, str],
    options: dict[str, Any],
    meant: Chat,
) -> None:
    suite = attached(f"guideline_patterns: {own}\n" if own else "")
    for folder, extension in configs.items():
        text = f'$schema: agentv-config-v2\nguideline_patterns:\n  - "**/*.{extension}"\nmore: 1\n'
        write(f"{folder}.agentv/config.yaml", text)
    assert chat(suite, **options) == meant


@pytest.mark.parametrize(
    ("link", "target"), [(".agentv/config.yaml", "../../out/config.yaml"), (".agentv", "../out")]
)
def test_a_config_through_a_link_to_the_outside_is_refused(
    write: Write, attached: Write, link: str, target: str
) -> None:
    write("../out/config.yaml", 'guideline_patterns: ["**/*.md"]\n')
    Path(link).parent.mkdir(exist_ok=True)
    Path(link).symlink_to(target)
    with pytest.raises(OutsideRootError):
        cases(attached())
    Path("out").mkdir()
    Path("out/config.yaml").write_bytes(Path("../out/config.yaml").read_bytes())
    Path(link).unlink()
    Path(link).symlink_to(target.replace("../out", "out"))
    assert chat(attached()) == MARKDOWN


@pytest.mark.parametrize("text", ["", "# nothing\n", "$schema: agentv-config-v2\n"])
def test_the_nearest_config_counts_even_where_it_says_nothing(
    write: Write, attached: Write, text: str
) -> None:
    write("evals/deep/.agentv/config.yaml", text)
    write(".agentv/config.yaml", 'guideline_patterns: ["**/*.md"]\n')
    assert chat(attached()) == NEITHER


# The root


@pytest.mark.parametrize("is_worktree", [False, True])
def test_the_root_is_the_nearest_parent_with_git(write: Write, is_worktree: bool) -> None:
    if is_worktree:
        write("evals/.git", "gitdir: ../.git/worktrees/x\n")
    else:
        Path("evals/.git").mkdir(parents=True)
    write("a.txt", "A")
    write("evals/x.eval.yaml", attach("a.txt"))
    assert ["no file 'a.txt'" in said for said in errors_of("evals/x.eval.yaml")] == [True]
    assert chat("evals/x.eval.yaml", root=".") == [("user", "=== a.txt ===\nA\nGo.")]


def test_without_git_the_root_is_the_suites_folder(write: Write) -> None:
    Path(".git").rmdir()
    write("a.txt", "A")
    write("evals/b.txt", "B")
    for name in ("a", "b"):
        write(f"evals/{name}.yaml", attach(f"{name}.txt"))
    assert [len(errors_of(f"evals/{name}.yaml")) for name in ("a", "b")] == [1, 0]


def test_a_root_beside_the_suite_holds_its_files(write: Write) -> None:
    write("data/a.txt", "A")
    write("evals/a.txt", "outside")
    write("evals/x.yaml", attach("a.txt"))
    for root in ("data", Path("data")):
        assert chat("evals/x.yaml", root=root) == [("user", "=== a.txt ===\nA\nGo.")]


# Text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        pytest.param("12:30", "12:30", id="a time"),
        pytest.param('"true"', "true", id="a quoted boolean"),
        pytest.param("a\u2028b\x85c", "a\u2028b\x85c", id="old line ends"),
        pytest.param("[yes, 'no']", "yes\nno", id="a list of texts"),
        pytest.param("{type: text, value: yes}", "yes", id="a text segment"),
        pytest.param("[{type: text, value: 12:30}]", "12:30", id="a list of text segments"),
        pytest.param(
            "{a: yes, b: [1]}", '{\n  "a": "yes",\n  "b": [\n    1\n  ]\n}', id="a mapping"
        ),
    ],
)
def test_content_arrives_as_written(write: Write, written: str, text: str) -> None:
    write("x.eval.yaml", f"input_messages:\n- role: user\n  content: {written}\n")
    assert chat() == [("user", text)]


def test_anchors_are_shared_by_cases(write: Write) -> None:
    message = "{role: user, content: &text [hi, there]}"
    write(
        "x.eval.yaml",
        f"evalcases:\n- id: a\n  input_messages: &all [{message}]\n"
        "- id: b\n  input_messages: *all\n"
        "- id: c\n  input_messages: [{role: assistant, content: *text}]\n",
    )
    chats = [[(m.role, m.content) for m in one.chat_prompt or ()] for one in requests()]
    assert chats == [[("user", "hi\nthere")]] * 2 + [[("assistant", "hi\nthere")]]


# Known ways to lose text


@pytest.mark.parametrize(
    ("written", "pattern"),
    [
        pytest.param("rules/a.md", "rules/*.md", id="the written one"),
        pytest.param("./rules/a.md", "rules/*.md", id="the written one, with ./"),
        pytest.param("rules/a.md", "evals/rules/*.md", id="the resolved one"),
        pytest.param("/evals/rules/a.md", "evals/**", id="the resolved one, with a leading /"),
        pytest.param("../evals/rules/a.md", "evals/rules/a.md", id="the resolved one, with .."),
        pytest.param("link.md", "**/link.md", id="the written one, a link"),
        pytest.param("link.md", "**/rules/*.md", id="the resolved one, through a link"),
    ],
)
def test_a_pattern_that_matches_only_one_of_the_paths_counts(
    write: Write, written: str, pattern: str
) -> None:
    write("evals/rules/a.md", "A")
    Path("evals/link.md").symlink_to("rules/a.md")
    write("evals/x.eval.yaml", attach(written, patterns=[pattern]))
    assert chat("evals/x.eval.yaml") == [
        ("system", "[[ ## Guidelines ## ]]\n\nA"),
        ("user", f"<Attached: {written}>\nGo."),
    ]


# Errors: the messages themselves are tables, in tests/errors


def test_without_a_handler_the_first_error_is_raised(write: Write) -> None:
    write("x.eval.yaml", f"evalcases:\n- id: a\n  {HI}- id: b\n- id: c\n  {HI}")
    loaded = load_suite("x.eval.yaml")
    assert next(loaded).id == "a"
    with pytest.raises(MultiturnError, match=r"^x\.eval\.yaml:4:3: case 'b': "):
        next(loaded)


def test_with_a_handler_the_other_cases_are_converted(write: Write) -> None:
    good = f"  {HI}"
    write(
        "x.eval.yaml",
        f"evalcases:\n- id: a\n{good}- id: b\n- 7\n- id: c\n  input_messages: x\n- id: d\n{good}"
        f"- id: a\n{good}- id: e\n{good}",
    )
    said: list[MultiturnError] = []
    assert [case.id for case in load_suite("x.eval.yaml", on_error=said.append)] == ["a", "d", "e"]
    assert [int(str(error.where).split(":")[1]) for error in said] == [4, 5, 7, 10]
    assert [error.case_id for error in said if error.case_id in ("b", "c")] == ["b", "c"]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param("neither: 1\n", id="that is neither suite nor case"),
        pytest.param("- x\n", id="that is a list"),
        pytest.param(f"guideline_patterns: x\n{HI}", id="with patterns that are a text"),
        pytest.param(f"metadata: {{systemPrompt: 1}}\n{HI}", id="with a system prompt of 1"),
        pytest.param(f"id: [x]\n{HI}", id="whose id is a list"),
        pytest.param("id: b\ninput_messages: x\n", id="whose messages are a text"),
    ],
)
def test_with_a_handler_a_bad_document_leaves_the_next(write: Write, bad: str) -> None:
    write("x.eval.yaml", f"id: a\n{HI}---\n{bad}---\nid: c\n{HI}")
    said: list[MultiturnError] = []
    assert [case.id for case in load_suite("x.eval.yaml", on_error=said.append)] == ["a", "c"]
    assert len(said) == 1


@pytest.mark.parametrize(
    ("source", "options", "error"),
    [
        ("no.eval.yaml", {}, "there is no suite 'no.eval.yaml'"),
        ("loop.eval.yaml", {}, "there is no suite 'loop.eval.yaml'"),
        ("empty", {}, "there is no *.eval.yaml, *.eval.yml, *.eval.json or *.eval.jsonl below"),
        (".", {"root": "no"}, "the root 'no' is not a folder"),
        (".", {"root": "a.eval.yaml"}, "the root 'a.eval.yaml' is not a folder"),
        (".", {"guideline_patterns": ["@(a)"]}, "the guideline pattern '@(a)' "),
        (".", {"guideline_patterns": "*.md"}, "guideline_patterns are several texts"),
    ],
)
def test_what_is_wrong_with_the_call_is_raised_by_the_call(
    write: Write, source: str, options: dict[str, Any], error: str
) -> None:
    write("a.eval.yaml", "input_messages: [{role: user, content: Hi}]")
    Path("empty").mkdir()
    Path("loop.eval.yaml").symlink_to("loop.eval.yaml")
    with pytest.raises((MultiturnError, TypeError)) as caught:
        load_suite(source, **options)
    assert str(caught.value).startswith(error)


def test_a_folder_stands_for_its_suites_and_cases_can_be_selected(write: Write) -> None:
    ids = ("x-1", "x-2", "y")
    listed = [f"{{id: {each}, input_messages: [{{role: user, content: Hi}}]}}" for each in ids]
    for name in ("b/one", "a/two"):
        write(f"{name}.eval.yaml", f"evalcases: [{', '.join(listed)}]")
    found = [(each.suite, each.id) for each in load_suite(".", case="x-*")]
    assert found == [(f"{name}.eval.yaml", f"x-{n}") for name in ("a/two", "b/one") for n in (1, 2)]
    assert [each.id for each in load_suite(Path("a"), case=["y", "x-2"])] == ["x-2", "y"]
    with pytest.raises(MultiturnError, match="no case 'z'; choose from: x-1, x-2, y"):
        list(load_suite("a", case="z"))


# Standard input


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def put(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), "ascii"))

    return put


def test_a_hyphen_is_standard_input(write: Write, stdin: Callable[[str], None]) -> None:
    write(".agentv/config.yaml", 'guideline_patterns: ["*.md"]')
    write("a.md", "A")
    write("evals/b.txt", "B")
    stdin(attach("a.md", "/evals/b.txt").partition("\n")[2].replace("id: x", "id: é"))
    assert chat("-") == [
        ("system", "[[ ## Guidelines ## ]]\n\nA"),
        ("user", "<Attached: a.md>\n=== /evals/b.txt ===\nB\nGo."),
    ]


def test_an_error_in_standard_input_has_its_place(
    write: Write, stdin: Callable[[str], None]
) -> None:
    stdin(f"id: é\n{HI}---\nid: b\ninput_messages: x\n")
    [said] = errors_of("-")
    assert said.startswith("<stdin>:5:17: case 'b': input_messages")


# Finding suites


def test_a_folder_is_all_suites_below_it_sorted(write: Write) -> None:
    for name in (
        "c.eval.yaml",
        "a.eval.yml",
        "b/z.eval.json",
        "b/a/y.eval.jsonl",
        ".x/d.eval.yaml",
    ):
        write(f"evals/{name}", HI)
    for name in ("a.yaml", "eval.yaml", "a.json", "b/a.eval.yaml.bak", "b/A.EVAL.YAML.txt"):
        write(f"evals/{name}", HI)
    Path("evals/folder.eval.yaml").mkdir()
    write("evals/node_modules/m/d.eval.yaml", HI)
    found = [str(Path(path)) for path in find_suites(["evals"])]
    assert found == [
        "evals/a.eval.yml",
        "evals/b/a/y.eval.jsonl",
        "evals/b/z.eval.json",
        "evals/c.eval.yaml",
    ]


def test_a_pipe_in_a_folder_is_skipped_with_a_warning_and_read_when_it_is_named(
    write: Write,
) -> None:
    write("a.eval.yaml", HI)
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


def test_what_is_named_is_found_in_its_order(write: Write) -> None:
    for name in ("suite.txt", "b/x.eval.yaml", "a/x.eval.yaml", ".hidden/evals/x.eval.yaml"):
        write(name, HI)
    Path("a/up").symlink_to("..")
    assert list(find_suites(["suite.txt", "-", ".hidden", "b", "a", "b/../b"])) == [
        *("suite.txt", "-", ".hidden/evals/x.eval.yaml", "b/x.eval.yaml", "a/x.eval.yaml")
    ]
