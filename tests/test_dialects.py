"""Suites as other tools write them: read as what they are."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from comparing import write
from layout import laid_out
from loading import cases, messages
from multiturn import Notice, load_suite
from multiturn.logs import warnings_to
from multiturn.suites.discovery import find_suites
from multiturn.suites.keys import IRRELEVANT

PAGE = (Path(__file__).parent.parent / "docs/suites.md").read_text(encoding="utf-8")
HI = [("user", "Hi")]
HO = [{"role": "assistant", "content": "Ho"}]

pytestmark = pytest.mark.usefixtures("root")


@pytest.mark.parametrize("key", ["tests", "eval_cases", "cases", "evalcases"])
@pytest.mark.parametrize("behind", ["", "metadata: {systemPrompt: P}\n"])
def test_the_cases_of_a_suite_have_four_names(key: str, behind: str) -> None:
    [case] = cases(f"{key}:\n- {{id: a, input: Hi}}\n{behind}")
    assert (case.id, messages(case), case.system_prompt) == ("a", HI, "P" if behind else None)


SYSTEM_AND_USER = '[{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}]'


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param("Hi", HI, id="a text is a user message"),
        pytest.param(SYSTEM_AND_USER, [("system", "S"), *HI], id="a list of messages"),
        pytest.param(f"'{SYSTEM_AND_USER}'", [("system", "S"), *HI], id="text that is such a list"),
        pytest.param("'[1, 2]'", [("user", "[1, 2]")], id="text that is another JSON list"),
        pytest.param("'[see above]'", [("user", "[see above]")], id="text in brackets"),
        pytest.param("{role: assistant, content: Ho}", [("assistant", "Ho")], id="a message"),
        pytest.param("{sum: 3}", [("user", {"sum": 3})], id="a mapping is structured content"),
        pytest.param("[{role: developer, content: S}]", [("system", "S")], id="a developer"),
        pytest.param(
            "[{role: user, content: [{type: text, text: Hi}]}]",
            [("user", [{"type": "text", "value": "Hi"}])],
            id="the parts of OpenAI",
        ),
    ],
)
@pytest.mark.parametrize("key", ["input", "messages"])
def test_an_input_is_messages(key: str, written: str, meant: Any) -> None:
    bare, listed = cases(f"{key}: {written}\n---\ntests:\n- id: a\n  {key}: {written}\n")
    assert messages(bare) == messages(listed) == meant


@pytest.mark.parametrize(
    ("written", "expected", "outcome"),
    [
        ("expected_output: Ho", HO, None),
        ("expected_output: {sum: 3}", [{"role": "assistant", "content": {"sum": 3}}], None),
        ("expected_output: {role: assistant, content: Ho}", HO, None),
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
    [case] = cases("{target: azure, input_messages: [{role: user, content: Hi}]}")
    assert case.expected_messages is None


def test_an_ideal_answer_beside_our_own_messages_is_expected() -> None:
    [case] = cases("{ideal: Ho, input_messages: [{role: user, content: Hi}]}")
    assert case.expected_messages == HO


def test_the_input_and_the_files_of_a_suite_stand_before_those_of_each_case(root: Path) -> None:
    write(root, {"a.md": "A", "b.md": "B"})
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
    requests = map(laid_out().request, cases(suite))
    assert {request.eval_id: request.question for request in requests} == {
        "a": "[System]: S\n[User]: === a.md ===\nA\nHi",
        "b": "[System]: S\n[User]: === b.md ===\nB\nHi",
        "skips": "Hi",
        "list": "[System]: S\n[User]: Hi",
        "ours": "[System]: S\n[User]: Hi",
    }


@pytest.mark.parametrize("defaults", ["default_test", "defaultTest"])
def test_an_input_may_come_in_vars_and_is_never_rendered(defaults: str) -> None:
    suite = f"""\
        templates: literal
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


@pytest.mark.parametrize("prompt", ["{{query}}", "{{- query -}}", " {{ vars.query }}\\n"])
def test_any_variable_may_be_the_only_prompt(prompt: str) -> None:
    suite = f"""\
        prompts: ["{prompt}"]
        tests: [{{id: a, vars: {{query: Hi, input: not this}}}}, {{id: b, input: Hi}}]
        """
    assert [messages(case) for case in cases(suite)] == [HI, HI]


def test_variables_are_the_expected_answer_and_metadata() -> None:
    suite = """\
        prompts: ["{{ q }}"]
        vars: {shared: s, topic: a}
        default_test: {vars: {topic: b, expected_output: Yes}}
        metadata: {team: x}
        tests:
        - {id: a, vars: {q: Hi, topic: c, more: [1, 2]}}
        - {id: b, vars: {q: Hi, expected_output: {n: 4}}, metadata: {x: 1}}
        - {id: c, vars: {q: Hi}, ideal: own}
        - {id: d, vars: {q: Hi, expected_output: [{role: assistant, content: Ho}]}}
        """
    bare = "id: e\ninput: Hi\nvars: {expected_output: Ho, more: 1}\n"
    found = [*cases(suite), *cases(bare)]
    shared = {"shared": "s", "topic": "b"}
    assert [(case.metadata, case.expected_messages) for case in found] == [
        (
            {"team": "x", "vars": {"shared": "s", "topic": "c", "more": [1, 2]}},
            [{"role": "assistant", "content": "Yes"}],
        ),
        (
            {"team": "x", "x": 1, "vars": shared},
            [{"role": "assistant", "content": {"n": 4}}],
        ),
        ({"team": "x", "vars": shared}, [{"role": "assistant", "content": "own"}]),
        ({"team": "x", "vars": shared}, HO),
        ({"vars": {"more": 1}}, HO),
    ]


def test_a_column_of_agentv_is_named_as_a_variable(root: Path) -> None:
    write(root, {"cases.csv": "id,vars.input,vars.expected_output,locale\na,Hi,Ho,en\n"})
    (case,) = cases('prompts: ["{{ input }}"]\ntests: [cases.csv]\n')
    assert (messages(case), case.expected_messages) == (HI, HO)
    assert case.metadata == {"vars": {"id": "a", "locale": "en"}}


def test_an_attached_file_is_never_filled_in(root: Path) -> None:
    text = "{{ env.HOME }} ${{ HOME }}"
    write(root, {"a.md": text})
    notices: list[Notice] = []
    with warnings_to(notices.append):
        (case,) = cases("id: a\ninput: [{role: user, content: {type: file, value: a.md}}]\n")
    assert laid_out().request(case).question == f"=== a.md ===\n{text}"
    assert notices == []


def test_a_variable_that_is_no_text_is_as_it_is_written() -> None:
    suite = (
        'prompts: ["{{ n }}"]\ntests: [{vars: {n: 2024}}, {vars: {n: true}}, {vars: {n: 1.50}}]\n'
    )
    written = [messages(case) for case in cases(suite)]
    assert written == [[("user", "2024")], [("user", "true")], [("user", "1.50")]]


@pytest.mark.parametrize(
    "text", ["[INST] Hi [/INST]", '[{"role": "user"', '{"a": 1}', "[1, 2]", "{a} or", "-role: x"]
)
def test_text_that_promptfoo_takes_for_text_stays_text(text: str) -> None:
    suite = json.dumps({"prompts": ["{{q}}"], "tests": [{"id": "a", "vars": {"q": text}}]})
    assert [messages(case) for case in cases(suite)] == [[("user", text)]]


def test_a_test_of_promptfoo_needs_no_id() -> None:
    suite = """\
        prompts: ["{{query}}"]
        tests:
        - {vars: {query: Hi}}
        - {description: greets, vars: {query: Hi}}
        - {description: greets, vars: {query: Hi}}
        - {description: " ", vars: {query: Hi}}
        - {id: own, description: not this, vars: {query: Hi}}
        """
    assert [case.id for case in cases(suite)] == ["1", "greets", "3", "4", "own"]


def test_what_a_suite_takes_from_vars_its_next_document_does_not() -> None:
    suite = 'prompts: ["{{ input }}"]\ntests: [{id: a, vars: {input: Hi}}]\n---\n'
    bare = "id: b\ninput: Hi\nvars: {name: Ada}\n"
    assert [messages(case) for case in cases(suite + bare)] == [HI, HI]


# Files of cases

LINES = '{"id": "a", "input": "Hi"}\n{"id": "b", "input": [{"role": "user", "content": "Hi"}]}\n'
LISTED = "- {id: a, input: Hi}\n- {id: b, input: Hi}\n"


@pytest.mark.parametrize(
    ("written", "path", "text", "line"),
    [
        ("cases.yaml", "evals/cases.yaml", LISTED, 2),
        ("file://cases.yaml", "evals/cases.yaml", LISTED, 2),
        ("file://data/cases.jsonl", "evals/data/cases.jsonl", LINES, 2),
        ("data/*.jsonl", "evals/data/cases.jsonl", LINES, 2),
        ("[cases.yaml]", "evals/cases.yaml", f"tests:\n{LISTED}", 3),
        ("/cases.yaml", "cases.yaml", LISTED, 2),
    ],
)
def test_cases_may_stand_in_other_files(
    root: Path, written: str, path: str, text: str, line: int
) -> None:
    write(root, {path: text})
    suite = f"metadata: {{systemPrompt: P}}\ntests: {written}\n"
    found = cases(suite, "evals/x.eval.yaml")
    assert [(case.id, case.suite, case.system_prompt) for case in found] == [
        (name, "evals/x.eval.yaml", "P") for name in "ab"
    ]
    assert str(found[1].where()) == f"{path}:{line}: case 'b'"


def test_files_are_looked_for_beside_the_file_that_the_case_is_in(root: Path) -> None:
    listed = "- {id: a, input_files: [note.md], input: Hi}\n"
    write(root, {"evals/data/cases.yaml": listed, "evals/data/note.md": "Noted."})
    [case] = cases("tests: data/cases.yaml\n", "evals/x.eval.yaml")
    assert laid_out().request(case).question == "=== note.md ===\nNoted.\nHi"


CSV = """\
\ufeffid,query,__expected,__description

a,Hi,contains:Ho,not this
,"Hi, ""you""
there",,described
,Hi,,
"""


def test_the_columns_of_csv_are_variables_of_prompts(root: Path) -> None:
    write(root, {"cases.csv": CSV})
    found = cases('prompts: ["{{query}}"]\ntests: file://cases.csv\n')
    assert [(case.id, case.line, messages(case)) for case in found] == [
        ("a", 3, HI),
        ("described", 4, [("user", 'Hi, "you"\nthere')]),
        ("6", 6, HI),
    ]


def test_cases_without_an_id_in_several_files_have_the_names_of_the_later_ones(root: Path) -> None:
    """The first file gives them the numbers of lines, and a list the numbers of cases."""
    write(root, {"a.jsonl": '{"input": "1"}\n{"input": "2"}\n', "b.jsonl": '{"input": "3"}\n'})
    write(root, {"c.csv": "input\n4\n"})
    found = cases("tests: [a.jsonl, b.jsonl, c.csv]\n")
    assert [case.id for case in found] == ["1", "2", "b-1", "c-2"]


def test_a_field_of_csv_is_as_long_as_a_case_may_be(root: Path) -> None:
    write(root, {"cases.csv": f"input\n{'x' * 200_000}\n"})
    (case,) = cases("tests: [cases.csv]\n")
    assert case.input_messages[0].content == "x" * 200_000


@pytest.mark.parametrize("name", ["cases.csv", "cases.jsonl", "cases.json"])
def test_a_file_of_no_cases_is_a_warning(root: Path, name: str) -> None:
    write(root, {"cases.csv": "input,id\n", "cases.jsonl": "\n", "cases.json": "[]"})
    with warnings_to((warnings := list[Notice]()).append):
        assert cases(f"tests: [{name}]\n") == []
    assert [notice.why for notice in warnings] == ["the file has no cases; add one"]


def test_without_prompts_the_columns_of_csv_are_keys_of_cases(root: Path) -> None:
    write(root, {"cases.csv": "input,expected_output,criteria\nHi,Ho,\nHi,,fine\n"})
    found = cases("tests: [cases.csv]\n")
    assert [(case.id, case.expected_messages, case.outcome) for case in found] == [
        ("2", HO, None),
        ("3", None, "fine"),
    ]
    assert [messages(case) for case in found] == [HI, HI]


@pytest.mark.parametrize("written", ["cases", "./cases/", "file://cases"])
def test_a_folder_has_each_case_in_a_folder_of_its_own(root: Path, written: str) -> None:
    suite = f"metadata: {{systemPrompt: P}}\ntests: {written}\n"
    case = "input_files: [note.md]\ninput: Hi\n"
    write(root, {"evals/cases/two/case.yml": case, "evals/cases/two/note.md": "Two."})
    write(root, {"evals/cases/one/case.yaml": f"id: own\n{case}", "evals/note.md": "All."})
    write(root, {"evals/cases/none/notes.yaml": "x"})
    found = cases(suite, "evals/x.eval.yaml")
    assert [(case.id, case.system_prompt) for case in found] == [("own", "P"), ("two", "P")]
    questions = [laid_out().request(case).question for case in found]
    assert questions == ["=== note.md ===\nAll.\nHi", "=== note.md ===\nTwo.\nHi"]


def test_the_names_of_suites_may_be_in_upper_case(root: Path) -> None:
    lines = '{"id": "a", "input": "Hi"}\n{"id": "b", "input": "Ho"}\n'
    write(root, {"evals/shop.EVAL.yaml": "input: Hi\n", "evals/till.eval.JSONL": lines})
    write(root, {"more.yaml": "tests: [rows.JSONL]\n", "rows.JSONL": lines.replace("id", "name")})
    assert [*find_suites(["evals"])] == ["evals/shop.EVAL.yaml", "evals/till.eval.JSONL"]
    assert [case.id for case in load_suite("evals")] == ["shop", "a", "b"]
    assert [case.id for case in load_suite("more.yaml")] == ["1", "2"]


def test_a_file_that_a_suite_names_and_a_folder_contains_is_converted_once(root: Path) -> None:
    files = ["evals/all.eval.yaml", "evals/part.eval.jsonl", "evals/text.eval.yaml"]
    suite = "tests:\n- file://part.eval.jsonl\n- {id: c, input: text.eval.yaml}\n"
    text = "input_messages:\n- role: user\n  content:\n  - all.eval.yaml\n"
    write(root, dict(zip(files, (suite, LINES, text), strict=True)))
    assert list(find_suites(["evals"])) == [files[0], files[2]]
    assert list(find_suites([files[1], files[0]])) == [files[1], files[0]]


# Keys that do not concern the prompt


def test_the_page_lists_the_keys_that_do_not_concern_the_prompt() -> None:
    table = PAGE.partition("### Keys of other tools")[2].partition("\n\n|")[2].partition("\n\n")[0]
    rows = [row.strip(" |").split(" | ") for row in table.splitlines()[2:]]
    listed = [set(re.findall(r"`(.+?)`", keys)) for _, keys in rows]
    assert listed == [*IRRELEVANT.values()]


@pytest.mark.parametrize("place", ["suite", "case"])
def test_a_key_that_does_not_concern_the_prompt_changes_nothing(place: str) -> None:
    for key in sorted(IRRELEVANT[place]):
        written = f"{key}: {{x: [1]}}"
        head, inner = (written, "") if place == "suite" else ("", f", {written}")
        with capture_logs() as logs:
            [case] = cases(f"{head}\ntests:\n- {{id: a, input: Hi{inner}}}\n")
        assert (messages(case), case.metadata, logs) == (HI, {}, []), key


# JSON Lines


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ({"messages": [{"role": "user", "content": "Hi"}]}, ("2", None)),
        ({"input": "Hi", "target": "Ho"}, ("2", HO)),
        ({"id": "own", "input": "Hi"}, ("own", None)),
        ({"id": 5, "input": "Hi"}, ("5", None)),
        ({"description": "no id", "input": "Hi"}, ("2", None)),
        (
            {"input": {"messages": [{"role": "user", "content": "Hi"}]}, "preferred_output": HO},
            ("2", HO),
        ),
    ],
)
def test_a_line_of_a_data_set_is_a_case(line: Any, meant: Any) -> None:
    [case] = cases(f"\ufeff\n{json.dumps(line)}\n", "x.jsonl")
    assert ((case.id, case.expected_messages), messages(case)) == (meant, HI)


def test_an_answer_at_the_end_of_a_line_stays_in_the_prompt_with_one_warning() -> None:
    line = json.dumps({"messages": [{"role": "user", "content": "Hi"}, *HO]})
    with capture_logs() as logs:
        found = cases(f"{line}\n{line}\n", "x.jsonl")
    assert [messages(case) for case in found] == [[*HI, ("assistant", "Ho")]] * 2
    (log,) = logs
    assert log["where"] == "x.jsonl:1:1"
    assert log["why"].startswith("the last message is the assistant's, and stays in the prompt")


def test_a_list_of_warnings_that_is_cut_gives_the_count_of_the_rest() -> None:
    keys = "".join(f"x{number}: x\n" for number in range(1100))
    with capture_logs() as logs:
        cases(f"{keys}input: Hi\n")
    assert len(logs) == 101
    assert logs[-1]["why"] == "1,000 more warnings, of 1,100, are not listed"
