"""Suites as other tools write them: read as what they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from multiturn import Case, load_pipeline, load_suite
from multiturn.suites.discovery import find_suites

HI = [("user", "Hi")]
HO = [{"role": "assistant", "content": "Ho"}]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in the root."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def cases(text: str, path: str = "x.eval.yaml") -> list[Case]:
    write(path, text)
    return list(load_suite(path))


def messages(case: Case) -> list[tuple[str, Any]]:
    return [(message.role, message.content) for message in case.input_messages]


@pytest.mark.parametrize("key", ["tests", "eval_cases", "cases", "evalcases"])
@pytest.mark.parametrize("behind", ["", "metadata: {systemPrompt: P}\n"])
def test_the_cases_of_a_suite_have_four_names(key: str, behind: str) -> None:
    [case] = cases(f"{key}:\n- {{id: a, input: Hi}}\n{behind}")
    assert (case.id, messages(case), case.system_prompt) == ("a", HI, "P" if behind else None)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param("Hi", HI, id="a text is a user message"),
        pytest.param(
            '[{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}]',
            [("system", "S"), *HI],
            id="a list of messages",
        ),
        pytest.param(
            """'[{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}]'""",
            [("system", "S"), *HI],
            id="text that is a JSON list of messages",
        ),
        pytest.param("'[1, 2]'", [("user", "[1, 2]")], id="text that is another JSON list"),
        pytest.param("'[see above]'", [("user", "[see above]")], id="text in brackets"),
        pytest.param("{role: assistant, content: Ho}", [("assistant", "Ho")], id="a message"),
        pytest.param("{sum: 3}", [("user", {"sum": 3})], id="a mapping is structured content"),
        pytest.param(
            "[{role: developer, content: S}, {role: user, content: Hi}]",
            [("system", "S"), *HI],
            id="a developer is a system",
        ),
        pytest.param(
            "[{role: user, content: [{type: text, text: Hi}]}]",
            [("user", [{"type": "text", "value": "Hi"}])],
            id="the parts of OpenAI",
        ),
    ],
)
@pytest.mark.parametrize("key", ["input", "messages"])
def test_an_input_is_messages(key: str, written: str, meant: Any) -> None:
    [case] = cases(f"id: a\n{key}: {written}\n")
    assert messages(case) == meant
    [in_suite] = cases(f"tests:\n- id: a\n  {key}: {written}\n")
    assert messages(in_suite) == meant


@pytest.mark.parametrize(
    ("written", "expected", "outcome"),
    [
        ("expected_output: Ho", HO, None),
        ("expected_output: {sum: 3}", [{"role": "assistant", "content": {"sum": 3}}], None),
        ("expected_output: [{role: assistant, content: Ho}]", HO, None),
        ("ideal: Ho", HO, None),
        ("ideal: [Ho, Ha]", ["Ho", "Ha"], None),
        ("target: Ho", HO, None),
        ("expected_outcome: fine", None, "fine"),
        ("criteria: fine", None, "fine"),
    ],
)
def test_what_is_expected_has_many_names(written: str, expected: Any, outcome: Any) -> None:
    [case] = cases(f"id: a\ninput: Hi\n{written}\n")
    assert (case.expected_messages, case.outcome) == (expected, outcome)


def test_a_target_beside_our_own_messages_is_no_answer() -> None:
    [case] = cases(
        "evalcases:\n- {id: a, target: azure, input_messages: [{role: user, content: Hi}]}"
    )
    assert case.expected_messages is None


def test_the_input_and_the_files_of_a_suite_stand_before_those_of_each_case() -> None:
    for name in ("a.md", "b.md"):
        write(name, name)
    suite = """\
        input: [{role: system, content: S}]
        input_files: [a.md]
        tests:
        - {id: a, input: Hi}
        - {id: b, input: Hi, input_files: [b.md]}
        - {id: skips, input: Hi, execution: {skip_defaults: true}}
        - {id: list, input: [{role: user, content: Hi}]}
        - {id: ours, input_messages: [{role: user, content: Hi}]}
        """
    requests = map(load_pipeline("spec").request, cases(suite))
    assert {request.eval_id: request.question for request in requests} == {
        "a": "[System]: S\n[User]: === a.md ===\na.md\nHi",
        "b": "[System]: S\n[User]: === b.md ===\nb.md\nHi",
        "skips": "Hi",
        "list": "[System]: S\n[User]: Hi",
        "ours": "[System]: S\n[User]: Hi",
    }


@pytest.mark.parametrize("defaults", ["default_test", "defaultTest"])
def test_an_input_may_come_in_vars_and_is_never_rendered(defaults: str) -> None:
    suite = f"""\
        prompts: ["{{{{ input }}}}", "{{{{vars.input}}}}"]
        {defaults}: {{vars: {{input: "Hi {{{{name}}}}"}}}}
        tests:
        - {{id: a}}
        - {{id: b, vars: {{input: [{{role: user, content: "{{{{ env.HOME }}}} ${{{{ X }}}}"}}]}}}}
        """
    assert [messages(case) for case in cases(suite)] == [
        [("user", "Hi {{name}}")],
        [("user", "{{ env.HOME }} ${{ X }}")],
    ]


CASES = (
    '{"id": "one", "input": "Hi"}\n{"id": "two", "input": [{"role": "user", "content": "Hi"}]}\n'
)
LISTED = "- {id: one, input: Hi}\n- {id: two, input: Hi}\n"


@pytest.mark.parametrize(
    ("written", "path", "text", "line"),
    [
        ("cases.yaml", "evals/cases.yaml", LISTED, 2),
        ("file://cases.yaml", "evals/cases.yaml", LISTED, 2),
        ("file://data/cases.jsonl", "evals/data/cases.jsonl", CASES, 2),
        ("data/*.jsonl", "evals/data/cases.jsonl", CASES, 2),
        ("[cases.yaml]", "evals/cases.yaml", f"tests:\n{LISTED}", 3),
        ("/cases.yaml", "cases.yaml", LISTED, 2),
    ],
)
def test_cases_may_stand_in_other_files(written: str, path: str, text: str, line: int) -> None:
    write(path, text)
    suite = f"metadata: {{systemPrompt: P}}\ntests: {written}\n"
    found = cases(suite, "evals/x.eval.yaml")
    assert [(case.id, case.suite, case.system_prompt) for case in found] == [
        ("one", "evals/x.eval.yaml", "P"),
        ("two", "evals/x.eval.yaml", "P"),
    ]
    assert str(found[1].where()) == f"{path}:{line}: case 'two'"


def test_files_are_looked_for_beside_the_file_that_the_case_is_in() -> None:
    write("evals/data/cases.yaml", "- {id: a, input_files: [note.md], input: Hi}\n")
    write("evals/data/note.md", "Noted.")
    [case] = cases("tests: data/cases.yaml\n", "evals/x.eval.yaml")
    assert load_pipeline("spec").request(case).question == "=== note.md ===\nNoted.\nHi"


def test_a_file_that_a_suite_names_and_a_folder_contains_is_converted_once() -> None:
    write(
        "evals/all.eval.yaml",
        "tests:\n- file://part.eval.jsonl\n- {id: c, input: part.eval.yaml}\n",
    )
    write("evals/part.eval.jsonl", CASES)
    write("evals/part.eval.yaml", "id: own\ninput: Hi\n")
    assert list(find_suites(["evals"])) == ["evals/all.eval.yaml", "evals/part.eval.yaml"]
    named = ["evals/part.eval.jsonl", "evals/all.eval.yaml"]
    assert list(find_suites(named)) == named


def test_a_text_that_names_a_suite_keeps_nothing_from_being_found() -> None:
    text = (
        "evalcases:\n- id: a\n  input_messages:\n  - role: user\n    content:\n    - b.eval.yaml\n"
    )
    write("evals/a.eval.yaml", text)
    write("evals/b.eval.yaml", "id: b\ninput: Hi\n")
    assert list(find_suites(["evals"])) == ["evals/a.eval.yaml", "evals/b.eval.yaml"]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ({"messages": [{"role": "user", "content": "Hi"}]}, ("2", None)),
        ({"input": "Hi", "target": "Ho"}, ("2", HO)),
        ({"id": "own", "input": "Hi"}, ("own", None)),
    ],
)
def test_a_line_of_a_data_set_is_a_case(line: Any, meant: Any) -> None:
    found = cases(f"\n{json.dumps(line)}\n", "x.jsonl")
    assert [(case.id, case.expected_messages) for case in found] == [meant]
    assert messages(found[0]) == HI


def test_what_a_suite_takes_from_vars_its_next_document_does_not() -> None:
    suite = 'prompts: ["{{ input }}"]\ntests: [{id: a, vars: {input: Hi}}]\n---\n'
    bare = 'id: b\ninput: Hi\nvars: {input: "{{ name }}", name: Ada}\n'
    assert [messages(case) for case in cases(suite + bare)] == [HI, HI]
