"""Suites, pipelines, targets and patterns that mean harm: a result, or an error with a place."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anything
from comparing import write
from limits import limited
from loading import cases
from memory import measurable, peak_of_convert, peaks_of_convert
from multiturn import MultiturnError, load_pipeline, load_suite

pytestmark = pytest.mark.usefixtures("root")

CASE = "evalcases:\n- id: a\n  input_messages:\n  - role: user\n    content: "
HEAD = "evalcases:\n- id: a\n  input_messages: [{role: user, content: Hi}]\n"
SIZE = 1_000_000


def filled(head: str, piece: str, tail: str = "", size: int = SIZE) -> str:
    """Return a text of about a size, made of pieces; ``%x`` in them is the number of each."""
    count = (size - len(head) - len(tail)) // len(piece.replace("%x", "12345"))
    return head + "".join(piece.replace("%x", f"{n:x}") for n in range(count)) + tail


PRIVATE = "".join(map(chr, range(0xF0000, 0xFFFF0)))


def suites() -> dict[str, str]:
    """Return suites of a megabyte, and smaller ones of what takes more memory than others."""
    return {
        "empty segments": filled(CASE + "[", "{},", "]"),
        "keys": filled(CASE + "{", "k%x: ,", "}"),
        "unknown keys": filled(HEAD, "k%x: 1\n", size=100_000),
        "anchors kept": filled("evalcases:", "\n- {x: &a%x [[],[],[],[],[],[]]}", size=75_000),
        "messages by alias": f"{HEAD[:-1]}\n- id: b\n  input_messages: [&a {{role: user,"
        f" content: [{'a,' * 10_000}]}},{'*a,' * 300}]",
        "a long text by alias": f"{CASE}[&a {'x' * 500_000},{'*a,' * 18}]",
        "private characters": f"{CASE}'{PRIVATE}\u2028'",
        "documents": filled("", "--- {}\n", size=10_000),
        "cases of nothing": filled("evalcases:", "\n-", size=10_000),
        "JSON": filled('{"id": "a", "x": [', "{},", "0]}"),
        "messages in JSON in YAML": "tests:\n- id: a\n  input: '"
        + filled("[", '{"role":"user","content":"a"},', '{"role":"user","content":"a"}]\'\n'),
        "calls by alias": "evalcases:\n- {id: a, input: Hi, x: &a '"
        + filled('{"a": [', "0,", "0]}'}\n", size=150_000)
        + filled(
            "- id: b\n  input_messages:\n  - {role: assistant, tool_calls: [",
            "{id: '%x', name: f, arguments: *a},",
            "]}\n",
            size=20_000,
        ),
        "lists of lists in JSON": filled(
            '{"id": "a", "x": [', "[[[[[[]]]]]],", "0]}", size=3 * SIZE
        ),
    }


@pytest.mark.skipif(not measurable, reason="measures by /proc")
def test_a_suite_of_a_megabyte_takes_less_than_100_mb(tmp_path: Path) -> None:
    most = {}
    for name, text in suites().items():
        path = tmp_path / f"{name}{'.jsonl' if text[0] == '{' else '.yaml'}"
        path.write_text(text)
        most[path] = 100 if len(text.encode()) > SIZE / 3 else 50
    peaks = peaks_of_convert(*most)
    assert {path.name: peak for path, peak in peaks.items() if peak >= most[path]} == {}


@pytest.mark.skipif(not measurable, reason="measures by /proc")
def test_a_suite_that_repeats_too_much_takes_less_than_120_mb(tmp_path: Path) -> None:
    """This one is a third of a megabyte, and may take a third of that.

    A fifth of what a suite may repeat is enough: to hold those dozen cases would take 66 MB.
    """
    path = tmp_path / "s.yaml"
    messages = "  - {role: user, content: a}\n" * 8_000
    cases = "".join(f"  - {{id: c{number}, input: x}}\n" for number in range(1_300))
    path.write_text(f"input:\n{messages}evalcases:\n{cases}")
    assert peak_of_convert(path, most=400_000) < 40


LARGE = 25_000_000  # more than a text may have
MANY = 8_000_000  # of values, of which a case may have much fewer


# Made where they are needed: every worker of pytest imports this, and they are 200 MB.
REFUSED: dict[str, Callable[[], str]] = {
    "lists.jsonl": lambda: '{"id":"a","input":[' + "[]," * (MANY // 3) + "[]]}\n",
    "mappings.jsonl": lambda: '{"id":"a","input":[' + '{"a":1},' * (MANY // 8) + "[]]}\n",
    "texts.jsonl": lambda: '{"id":"a","input":[' + '"a",' * (MANY // 4) + "[]]}\n",
    "long.jsonl": lambda: '{"id":"a","input":"' + "x" * LARGE + '"}\n',
    "long.eval.yaml": lambda: 'id: a\ninput: "' + "x" * LARGE + '"\n',
    "block.eval.yaml": lambda: "id: a\ninput: |\n" + f"  {'x' * 77}\n" * (LARGE // 80),
    "flow.eval.yaml": lambda: "id: a\ninput: [" + "[]," * (MANY // 3) + "[]]\n",
    "json.eval.yaml": lambda: "id: a\ninput: '[" + "[]," * (LARGE // 3) + "[]]'\n",
}


@pytest.mark.skipif(not measurable, reason="measures by /proc")
def test_what_is_refused_takes_at_most_four_times_its_size(tmp_path: Path) -> None:
    files = [tmp_path / name for name in REFUSED]
    for file in files:
        file.write_text(REFUSED[file.name]())
    bodies = [file for file in files if file.suffix == ".jsonl"]
    peaks = peaks_of_convert(*files) | {
        file.with_name(f"import {file.name}"): peak
        for file, peak in peaks_of_convert(*bodies, command="import").items()
    }
    sizes = {file.name: file.stat().st_size for file in files}
    times = {
        file.name: peak * 1_000_000 / sizes[file.name.removeprefix("import ")]
        for file, peak in peaks.items()
    }
    assert max(times.values()) <= 4, times


VALUES = '{"x":[' + "1," * 100_000 + "1]}"
TOO_MANY = "over 100,000 values in one case"
KEYS = "".join(f'"k{n}": 1, ' for n in range(40_000))
JSON_INPUT = "tests:\n- {id: a, input: '[%s]'}\n"
DIRECTIVES = "".join(f"%TAG !t{n}! x\n" for n in range(60_000))


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        pytest.param("s.jsonl", f'{{{KEYS}"k0": 1}}', "duplicate key", id="the first key again"),
        pytest.param("s.jsonl", f'{{{KEYS}"z": 1, "z": 1}}', "duplicate key", id="the last key"),
        pytest.param("s.jsonl", '{"a": "' + '\\"' * 200_000, "not JSON", id="escaped quotes"),
        pytest.param("s.jsonl", VALUES, TOO_MANY, id="values in JSON"),
        pytest.param("s.yaml", VALUES, TOO_MANY, id="values in YAML"),
        pytest.param(
            "s.yaml",
            JSON_INPUT % filled('{"role":"user","content":[', '"a",', '"a"]}'),
            TOO_MANY,
            id="values in JSON in YAML",
        ),
        pytest.param("s.yaml", DIRECTIVES, "over 100 %TAG directives", id="directives"),
        pytest.param(
            "s.yaml",
            f"{CASE}[&a {'x' * 500_000},{'*a,' * 20}]",
            "larger than 10,000,000 characters",
            id="characters by alias",
        ),
    ],
)
def test_too_much_is_an_error_at_once(name: str, text: str, error: str) -> None:
    with limited(seconds=2), pytest.raises(MultiturnError, match=error) as caught:
        cases(text, name)
    assert str(caught.value.where).startswith(name)


def repeated(before: str, piece: str, case: str, size: int = 100_000) -> str:
    """Return a suite of a size in which much that is written once counts for each of its cases."""
    most = size * 8 // 10
    pieces = "".join(piece.replace("%x", str(n)) for n in range(most // len(piece)))
    number = (size - most) // (len(case) + 12)
    cases = "".join(f"- {{id: c{n}, {case}}}\n" for n in range(number))
    return f"{before}\n{pieces}tests:\n{cases}"


MOST = "multiturn.documents.node.MAX_REPEATED"
MESSAGE = "- {role: user, content: a}\n"
GIVEN = "the suite gives too many values to its cases"
REPEATED = {
    "merge keys": ("x: &a", "  key%x: 1\n", "<<: *a, input: b", "with the alias *a, this docum"),
    "aliases": ("x: &a", MESSAGE, "input: *a", "with the alias *a, this document repeats"),
    "an input": ("input:", MESSAGE, "input: b", GIVEN),
    "guidelines": ("guidelines:", "- aa\n", "input: b", GIVEN),
    "metadata": ("metadata:", "  key%x: 1\n", "input: b", GIVEN),
    "execution": ("execution:", "  key%x: 1\n", "execution: {a: b}, input: b", GIVEN),
    "variables": (
        "prompts: ['{{ input }}']\ndefaultTest:\n  vars:",
        "    key%x: 1\n",
        "vars: {input: b}",
        GIVEN,
    ),
}
JSON = ",".join(['{"role":"user","content":"a"}'] * 800)
REPEATED["JSON"] = (f"input: '[{JSON}]'\nx: |", "  a\n", "input: b", GIVEN)
REPEATED["JSON by alias"] = (f"x: &a '[{JSON}]'\ny: |", "  a\n", "input: *a", GIVEN)
# The one whose values take longest to read is also tried at the size at which it takes longest.
SIZES = [(name, 15_000) for name in REPEATED] + [("aliases", 100_000)]


@pytest.mark.parametrize(("name", "size"), SIZES)
def test_what_a_suite_repeats_grows_with_its_length_or_is_an_error(
    name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, piece, case, error = REPEATED[name]
    errors: list[MultiturnError] = []
    text = repeated(before, piece, case, size=size)
    if size < 100_000:  # a hundredth of the values in a seventh of the length
        monkeypatch.setattr(MOST, 10_000)
    with limited(seconds=10):
        found = cases(text, "x.yaml", on_error=errors.append)
    [refusal] = errors
    assert error in refusal.what
    lines_before = text.splitlines()[: refusal.where.line - 1]
    assert len(found) == sum(line.startswith("- {id:") for line in lines_before)
    assert refusal.where.line < len(text.splitlines())


def test_what_a_suite_gives_to_the_cases_of_other_files_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MOST, 100_000)
    write(
        root,
        {f"{n}.yaml": "".join(f"- {{id: {n}{k}, input: b}}\n" for k in range(300)) for n in "ab"},
    )
    errors: list[MultiturnError] = []
    found = cases(f"input:\n{MESSAGE * 200}tests: [a.yaml, b.yaml]", on_error=errors.append)
    assert [error.where.file for error in errors] == ["a.yaml"]
    assert 150 < len(found) < 250


def test_aliases_of_several_files_of_cases_are_counted_together(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MOST, 100_000)
    messages = ", ".join([f"&a {{role: user, content: [&b x{', *b' * 90}]}}"] + ["*a"] * 60)
    write(root, {f"c/{n}/case.yaml": f"input: [{messages}]" for n in range(40)})
    errors: list[MultiturnError] = []
    found = cases("tests: c", on_error=errors.append)
    assert "with the alias *a, this document repeats too many values" in errors[0].what
    assert 20 < len(found) < 40


def test_a_suite_through_a_pipe_is_refused_where_it_repeats_too_much(
    root: Path,
) -> None:
    text = repeated(*REPEATED["an input"][:3], size=30_000)
    fewer = "import multiturn.documents.node as node; node.MAX_REPEATED = 100_000"
    command = [sys.executable, "-c", f"{fewer}\nfrom multiturn.__main__ import main; main()"]
    process = subprocess.run([*command, "convert", "-"], input=text, capture_output=True, text=True)
    shown, errors = process.stdout, process.stderr
    assert process.returncode == 1
    assert GIVEN in errors
    assert 0 < shown.count("\n") < 200


def test_a_long_history_that_many_cases_share_is_fine() -> None:
    history = "".join(f"- {{role: user, content: question {n}}}\n" for n in range(200))
    questions = "".join(f"- {{id: c{n}, input: And the question {n}?}}\n" for n in range(1_000))
    found = cases(f"input:\n{history}tests:\n{questions}")
    assert [len(case.input_messages) for case in found] == [201] * 1_000


def test_a_path_of_any_length_is_an_error_at_once(root: Path) -> None:
    [case] = cases(f"{CASE}{{type: file, value: {'a/' * 200_000}x}}")
    with limited(seconds=2), pytest.raises(MultiturnError, match="has over 4,096 characters"):
        load_pipeline().request(case)


DIGITS = "9" * 5_000


@pytest.mark.parametrize(
    ("path", "text", "place"),
    [
        ("x.yaml", f"metadata: {{n: {DIGITS}}}\ntests: [{{id: a, input: Hi}}]\n", "x.yaml:1:15"),
        ("x.jsonl", f'{{"id": "a", "input": "Hi", "metadata": {{"n": -{DIGITS}}}}}\n', "x.jsonl:1"),
        (
            "x.yaml",
            JSON_INPUT % f'{{"role":"user","content":{DIGITS}}}',
            "x.yaml:2:18: case 'a'",
        ),
    ],
)
def test_a_number_of_too_many_digits_is_an_error_in_our_own_words(
    path: str, text: str, place: str
) -> None:
    with pytest.raises(MultiturnError) as caught:
        cases(text, path)
    assert str(caught.value) == f"{place}: a number of over 1,000 digits; quote it"


def test_a_file_of_cases_has_any_number_of_columns(root: Path) -> None:
    columns = ",".join(map(str, range(40_000)))
    write(root, {"c.csv": f"id,input,{columns}\na,hi{',' * 40_000}\n"})
    with limited(seconds=2):
        assert [case.id for case in cases("tests: c.csv\n")] == ["a"]


def test_two_cases_of_sixty_thousand_values_are_fine() -> None:
    content = f"{{x: [{'1,' * 60_000}]}}"
    second = f"- {{id: b, input_messages: [{{role: user, content: {content}}}]}}"
    assert [case.id for case in cases(f"{CASE}{content}\n{second}\n")] == ["a", "b"]


def test_one_file_attached_a_thousand_times_is_an_error(root: Path) -> None:
    write(root, {"a.txt": "x" * 1_000_000})
    [case] = cases(f"{CASE}[{'{type: file, value: a.txt},' * 1_000}]")
    error = "larger than 10,000,000 characters with its files"
    with limited(megabytes=50), pytest.raises(MultiturnError, match=error):
        load_pipeline().request(case)


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(CASE + "!!python/object/apply:os.mkdir [ran]", id="a tag of PyYAML"),
        pytest.param(CASE + "!!python/name:os.mkdir ran", id="a name"),
        pytest.param("%TAG ! tag:yaml.org,2002:python/\n---\n!module:ran", id="a tag of its own"),
        pytest.param(f"{HEAD}pipeline: {{stages: ['ran:mkdir']}}", id="a pipeline in a suite"),
        pytest.param(CASE + "$(mkdir ran) `mkdir ran` ${{ HOME }} {{ mkdir }}", id="templates"),
    ],
)
def test_a_suite_runs_no_code(root: Path, written: str) -> None:
    write(root, {"ran.py": "import os; os.mkdir('ran')"})
    errors: list[MultiturnError] = []
    for case in cases(written, on_error=errors.append):
        assert load_pipeline().request(case).question.lstrip("$") in written
    assert ["the tag" in str(error) for error in errors] == [True] * ("!" in written)
    assert sorted(os.listdir()) == [".git", "ran.py", "x.eval.yaml"]


# Globs of files of cases


@pytest.mark.parametrize(
    ("glob", "error"),
    [
        ("**foo*.yaml", "the glob '**foo*.yaml' has ** inside a name; write **/*.md for all"),
        ("a/**b/*.yaml", "the glob 'a/**b/*.yaml' has ** inside a name; write **/*.md for all"),
        ("***.yaml", "the glob '***.yaml' has ** inside a name; write **/*.md for all folders"),
        ("*.yaml/", "the glob '*.yaml/' names a folder; write ** after it for all files in it"),
        ("link/root/.*", "'link/root' is outside the root"),
        ("link/**/*.zz", "'link' is outside the root"),
        ("*/*/.*", "no file of cases matches '*/*/.*'"),
        ("data/*.*", "'data/out.yaml' is outside the root"),
        ("a\\0/*.yaml", r"no file of cases matches 'a\x00/*.yaml'"),
    ],
)
def test_a_glob_that_cannot_be_is_an_error_of_its_suite_only(
    root: Path, glob: str, error: str
) -> None:
    other = "evalcases: [{id: a, input: Hi}]\n"
    write(root, {"evals/glob.eval.yaml": f'tests: "{glob}"\n', "evals/other.eval.yaml": other})
    write(root, {"evals/data/a.yaml": "[]"})
    (root / "evals" / "link").symlink_to("/")
    (root / "evals" / "data" / "out.yaml").symlink_to("/etc/passwd")
    errors: list[MultiturnError] = []
    with limited(seconds=2):
        found = load_suite("evals", on_error=errors.append)
        assert [case.id for case in found] == ["a"]
    [message] = map(str, errors)
    assert message.startswith(f"evals/glob.eval.yaml:1:8: evalcases[0]: {error}")


def test_a_glob_takes_a_folder_that_is_a_link_inside_the_root(root: Path) -> None:
    write(root, {"common/a.yaml": "[{id: a, input: Hi}]", "evals/.x/b.yaml": "[]"})
    (root / "evals").mkdir(exist_ok=True)
    (root / "evals" / "link").symlink_to("../common")
    suite = "tests: './link//{a,b}.*'\n"
    assert [case.id for case in cases(suite, "evals/x.eval.yaml")] == ["a"]


def test_templates_without_an_end_are_found_in_linear_time() -> None:
    text = "{{env." * 100_000
    with limited(seconds=2):
        (case,) = cases(f"evalcases: [{{id: a, input: '{text}'}}]\n")
    assert case.input_messages[0].content == text


def test_globs_are_matched_in_linear_time(root: Path) -> None:
    for number in range(512):
        folder = root.joinpath("evals", *f"{number:09b}")
        folder.mkdir(parents=True)
    error = "no file of cases matches"
    with limited(seconds=2), pytest.raises(MultiturnError, match=error):
        cases(f"tests: '{'**/' * 20}*.zz'\n", "evals/x.eval.yaml")


def test_a_suite_has_a_hundred_globs_at_most(root: Path) -> None:
    write(root, {"evals/a1.yaml": "[{id: a, input: Hi}]"})
    globs = "".join(f"- a{n}*.yaml\n" for n in range(2, 103))
    errors: list[MultiturnError] = []
    assert not cases(f"tests:\n{globs}", "evals/x.eval.yaml", on_error=errors.append)
    assert errors[99].what == "no file of cases matches 'a101*.yaml'"
    assert errors[100].what.startswith("over 100 globs in one suite")


# Anything as a file

SYNTAX = (
    *("\n", "\n  ", "\n- ", ": ", "---\n", "&a ", "*a", "!!str ", "{", "}", "[", "]", ",", "<<"),
    *('"', "'", "|", ">", "#", "\x00", "\ud800", "\u2028", "é", "~", "1e999", "null", "true"),
    *("%", "\\u", "! x", "\t", "\x1b", "? "),
)
WORDS = {
    "suites": (
        *("evalcases:", "input_messages:", "id: a", "role: user", "content: x", "metadata:"),
        *("guideline_patterns:", "guidelines:", "execution:", "temperature: 1", "systemPrompt:"),
        *("- {id: b, input_messages: [{role: user, content: [{type: file, value: ../x}]}]}",),
    ),
    "pipelines": (
        *("stages:", "extends: spec", "configure:", "insert:", "remove:", "replace:", "header: x"),
        *("embed_files", "resolve_segments", "stage:", "after: embed_files", "max_file_bytes: 1"),
    ),
    "targets": (
        *("targets:", "- name: t", "provider: azure", "provider: codex", "api_key: ${{ NO_NAME }}"),
        *("model: m", "endpoint: http://localhost", "timeout_seconds: 1e9", "settings:"),
    ),
    "patterns": ("*", "**", "?", "!", "/", ".", "..", "a", "b", "-", "\\", "^", "[!]a-]", "{a,"),
    "defaults": (
        *("pipeline =", "suites =", "root =", "[tool.multiturn]", "[[tool.multiturn]]", "tool ="),
        *("multiturn =", '"a\\u0000b"', "[1]", "9" * 5_000, "[" * 3_000, "{a = 1}"),
    ),
    "states": (
        *('{"is":', '"target"', '"part"', '"asked"', '"token":"p"', '"part":"p"', '"digest":"x"'),
        *('{"is":"target","name":"t","provider":"p","model":"m","address":[]}\n',),
        *('{"is":"part","token":"p"}\n', '{"is":"asked","part":"p","where":"w","result":'),
        *('{"suite":"/\x00/a","id":"a","target":"t","digest":"', '00"}}\n', 'zz"}}\n'),
    ),
    "results": ('"suite":"a"', '"id":"a"', '"digest":"d"', '"error":', '"output":"x"'),
    "locks": ("a.yaml:", "path: x", "sha256: 0", "pattern: '*'", "cases: 1"),
    "reports": ("- {id: b, input: <b>}", "evalcases:", "<script>", "&lt;"),
}


@pytest.mark.parametrize("kind", anything.KINDS)
@settings(max_examples=50)
@given(data=st.data())
def test_anything_is_read_or_is_an_error_with_a_place(kind: str, data: st.DataObject) -> None:
    pieces = st.lists(st.sampled_from([*WORDS.get(kind, ()), *SYNTAX]), max_size=25).map("".join)
    written = pieces.map(lambda text: text.encode("utf-8", "surrogatepass"))
    with limited():
        anything.KINDS[kind](data.draw(st.binary() | written))


def test_a_pipe_that_never_ends_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiturn.documents.input.MAX_PIPED", 100_000)
    os.mkfifo("pipe")

    def write_on() -> None:
        with suppress(BrokenPipeError):
            (root / "pipe").write_bytes(b"#" * 1_000_000)

    writer = threading.Thread(target=write_on)
    writer.start()
    with pytest.raises(MultiturnError, match="more than 100,000 bytes through a pipe"):
        list(load_suite("pipe"))
    writer.join()
