"""What the pages in docs say is what happens: their files are written, and their commands run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from batch_server import BatchServer
from commands import run
from comparing import data_of, write
from evals_server import TICKETS, EvalsServer, add_tickets
from loopback import KEY, Server, chat_answer, completion, error_body
from media_files import image
from multiturn import Call, Media, Part, Thinking, Turn, explain, load_suite
from multiturn.documents.yaml_reader import read_documents
from multiturn.model.turns import unpaired
from multiturn.pipelines.contract import FACTS
from multiturn.testing import conversion
from multiturn_stages.consolidate_system import consolidate_system
from multiturn_stages.render_question import render_question
from pages import BIN, blocks, printed, program, said, sessions, write_files
from repositories import commit, git

ROOT = Path(__file__).parent.parent
RENDERED = ROOT / "tests/tools/rendered.json"  # by promptfoo 0.121.20, of the page's configuration


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def play(text: str, folder: Path) -> int:
    """Write a page's files, run its commands, and return how many there were."""
    write_files(text, folder)
    for command, output in sessions(text):
        assert undated(said(command, folder)) == undated(output)
    return len(sessions(text))


def undated(text: str) -> str:
    """Return a text without the days of prices, and without what made a line, which change."""
    text = re.sub(r'"made":\{.*?\}', '"made":{…}', text)
    text = re.sub(r"prices of [\d-]+ or later, from genai-prices [\d.]+", "prices", text)
    return re.sub(r", changed on [\d-]+\)", ")", text)


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/*.md")), ids=lambda path: path.name)
def test_a_page_is_short_and_its_commands_are_run(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 300
    tests = Path(__file__).read_text(encoding="utf-8")
    assert not sessions(text) or f'"{path.name}"' in tests


def test_a_term_has_a_sentence_and_the_word_of_others() -> None:
    _, *terms = page("glossary.md").split("\n## ")
    names = [term.partition("\n")[0] for term in terms]
    assert names == sorted(names)
    for term in terms:
        assert re.fullmatch(r"[a-z ]+\n\n[A-Z][^*]+[.)] \*Elsewhere:\s[^*]+\.\*\n?", term), term


def test_the_page_of_importing_works_as_it_stands(tmp_path: Path) -> None:
    (trace,) = blocks(page("importing.md"), "json")
    (tmp_path / "traces.jsonl").write_text(trace)
    assert play(page("importing.md"), tmp_path) == 6


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("agents.md", 2),
        ("costs.md", 3),
        ("explain.md", 1),
        ("formats.md", 5),
        ("histories.md", 3),
        ("models.md", 3),
        ("own-provider.md", 4),
        ("own-servers.md", 1),
        ("requests.md", 2),
        ("results.md", 5),
        ("scale.md", 2),
        ("suites.md", 4),
        ("targets.md", 1),
        ("tools.md", 2),
    ],
)
def test_a_page_works_as_it_stands(tmp_path: Path, name: str, commands: int) -> None:
    """The commands of other tools are run by ``make test-tools``."""
    for suite in blocks(page(name), "json"):
        (tmp_path / "greetings.jsonl").write_text(suite)
    assert play(page(name), tmp_path) == commands


def test_the_page_of_capture_works_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    assert play(page("capture.md"), tmp_path) == 9
    assert (tmp_path / "answer.txt").read_text() == "(captured)"


def test_the_first_page_works_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    """The server sorts mail as the page says; its last scores are those of the judge."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    shutil.copytree(ROOT / "examples/grading", tmp_path, dirs_exist_ok=True)
    targets = (tmp_path / "targets.yaml").read_text()
    key = "    api_key: ${{ OPENAI_API_KEY }}\n"
    targets = targets.replace(key, f"{key}    base_url: {server.url}/v1\n")
    (tmp_path / "targets.yaml").write_text(targets)
    tickets = [*load_suite(str(tmp_path / "tickets.yaml"))]

    def sort(request: Any) -> Any:
        system, *_, last = (message["content"] for message in request.json["messages"])
        if last.startswith("Does this answer"):
            _, expected, answer = last.split("\n\n")
            right = expected.partition(": ")[2] == answer.partition(": ")[2]
            return completion("openai", "Yes." if right else "No.")
        (case,) = (case for case in tickets if case.input_messages[-1].content == last)
        said = json.loads(case.expected_messages[-1]["content"])
        has_rule = "broken is for returns" in system
        if case.id.startswith("broken") and not has_rule:
            said["team"] = "delivery"
        if case.id == "half" and has_rule:
            said["team"] = "returns"
        if case.id == "stairs":
            said["urgent"] = False
        usage = {"usage": {"prompt_tokens": 89, "completion_tokens": 11}}
        return {**completion("openai", json.dumps(said)), **usage}

    server.answer(body=sort, times=None)
    text = page("start.md")
    assert play(text, tmp_path) == 9
    (grader,) = blocks(text, "python")
    assert grader in (tmp_path / "grade.py").read_text()
    given = ("--results", "after.jsonl", "--before", "before.jsonl", "--format", "markdown")
    first, *cases = run("report", *given, folder=tmp_path).stdout.split("\n### ")
    assert "<code>0.917 → 0.933</code>" in first
    assert sorted(re.findall("<code>(.*?)</code>", case)[:2] for case in cases[:5]) == [
        *(
            [f"broken-{what}", "prompt and answer changed, score&#58; 0.5 → 1.0"]
            for what in ("glass", "mug", "screen", "vase")
        ),
        ["half", "prompt and answer changed, score&#58; 1.0 → 0.0"],
    ]


@pytest.mark.parametrize(
    ("way", "answer", "expected", "score"),
    [
        ("exact", " Yes.\n", "Yes.", 1.0),
        ("exact", "yes.", "Yes.", 0.0),
        ("pattern", "It is 42 kg.", r"\b42\b", 1.0),
        ("pattern", "It is 420 kg.", r"\b42\b", 0.0),
        ("fields", '{"a": 1, "b": 3}', '{"a": 1, "b": 2}', 0.5),
        ("fields", "a is 1", '{"a": 1}', 0.0),
    ],
)
def test_the_graders_of_the_examples(way: str, answer: str, expected: str, score: float) -> None:
    found: dict[str, Any] = {"__name__": "grade"}
    exec((ROOT / "examples/grading/grade.py").read_text(), found)
    assert found[way](answer, expected) == score


def test_the_page_of_stages_works_as_it_stands(pytester: pytest.Pytester) -> None:
    assert play(page("stages.md"), pytester.path) == 5
    tested = pytester.runpytest_inprocess("-p", "no:cacheprovider", "test_house_stages.py")
    tested.assert_outcomes(passed=3)


SHOT = Media.of(image())
ASKED = (
    ("system", "S"),
    ("user", "Card 1234567812345678", Part("media", SHOT.text, media=SHOT)),
    ("assistant", "Hm", Thinking("Two.", "s"), Call("c1", "f"), Call("c2", "f")),
    Turn("tool", ("one",), answers="c1"),  # type: ignore[arg-type]
    Turn("tool", ("two",), answers="c2", is_error=True),  # type: ignore[arg-type]
    ("tool", "by the way"),
    ("user", "Look", Part("media", SHOT.text, media=SHOT)),
)
IMAGE = SHOT.text


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        (
            "redact",
            {},
            ["S", f"Card [redacted]\n{IMAGE}", "Hm", "one", "two", "by the way", "Look"],
        ),
        (
            "translate",
            {"texts": {"Hm": "Well", "Well": "Hm"}},
            ["S", "Card", "Well", "one", "two", "by the way", "Look"],
        ),
        ("keep_last", {"exchanges": 1}, ["S", f"Look\n{IMAGE}"]),
        ("merge_results", {}, ["S", "Card", "Hm", "f({})\none\nf({})\ntwo", "by", "Look"]),
        ("add_image", {}, ["S", "Card", "Hm", "one", "two", "by", f"Look\n{IMAGE}\n[image: "]),
        ("add_header", {}, ["S", "Customer:\nC", "Hm", "one", "two", "by", "Customer:\nLook"]),
        ("rename_role", {}, ["S", "Card", "Hm", "one", "two", "by the way", "Look"]),
        ("drop_thinking", {}, ["S", "Card", "Hm", "one", "two", "by the way", "Look"]),
        (
            *("number_turns", {}),
            ["S", "(2)\nC", "(3)\nHm", "(4)\none", "(5)\ntwo", "(6)\nby", "(7)\nLook"],
        ),
        ("keep_last_image", {}, ["S", "Card", "Hm", "one", "two", "by", f"Look\n{IMAGE}"]),
    ],
)
def test_the_page_of_tasks_has_a_stage_for_each(
    run_stage: Any, name: str, options: dict[str, Any], expected: list[str]
) -> None:
    """Each passes run_stage, loses nothing without a reason, and keeps calls with results."""
    found: dict[str, Any] = {"__name__": name}
    exec(compile(program(page("stage-tasks.md"), f"# {name}.py"), name, "exec"), found)
    given = render_question(consolidate_system(conversion(*ASKED)))
    result = run_stage(found[name], given, **options)
    for turn, text in zip(result.turns, expected, strict=True):
        assert turn.content.startswith(text)
    assert unpaired(result.turns)[0] == -1
    assert [fate for fate in explain(result).fates if fate.fate == "lost"] == []
    roles = {turn.message: turn.role for turn in result.turns}
    assert (roles.get(5) == "user") is (name == "rename_role")
    images = [part.media for turn in result.turns for part in turn.parts if part.media]
    assert len(images) == {"add_image": 3, "keep_last": 1, "keep_last_image": 1}.get(name, 2)
    assert any(turn.thinking for turn in result.turns) is (
        name not in ("drop_thinking", "keep_last")
    )
    assert any(turn.is_error for turn in result.turns) is (name != "keep_last")


def test_results_are_merged_only_where_each_call_has_one_and_below_its_call(run_stage: Any) -> None:
    found: dict[str, Any] = {"__name__": "merge_results"}
    exec(program(page("stage-tasks.md"), "# merge_results.py"), found)
    asking = Turn("assistant", calls=tuple(Call(f"c{at}", f"f{at}") for at in (1, 2, 3)))
    third, first, second = (Turn("tool", (it,), answers=f"c{it}") for it in "312")  # type: ignore[arg-type]
    open_ = conversion(("user", "Hi"), asking, third, first)
    assert run_stage(found["merge_results"], open_) == open_
    given = conversion(("user", "Hi"), asking, third, first, second)
    _, asked, answer = run_stage(found["merge_results"], given).turns
    assert (asked.calls, answer.answers) == (asking.calls[:1], "c1")
    assert answer.content == "f1({})\n1\nf2({})\n2\nf3({})\n3"


def test_the_page_of_tasks_has_ten() -> None:
    assert len(blocks(page("stage-tasks.md"), "python")) == 10


def test_the_page_of_stages_has_every_fact() -> None:
    for fact in FACTS:
        assert f"| `{fact}` | " in page("stages.md")


def test_the_page_of_batches_works_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_server: BatchServer
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    batch_server.lag = 2
    text = at_address(page("batches.md"), batch_server.url)
    for name, number in {"batch_abc": "batch_2", "batch_def": "batch_5"}.items():
        text = text.replace(name, number)
    assert play(text, tmp_path) == 7
    assert batch_server.sent() == {"Hello": 2, "Goodbye": 2}  # once for each of the two runs


def at_address(text: str, url: str) -> str:
    """Return a page whose first target of each vendor is on the loopback interface."""
    text = text.replace("https://our-resource.openai.azure.com", url)
    text = text.replace("https://api.openai.com", url)
    for provider, path in {"openai": "/v1", "anthropic": "", "gemini": ""}.items():
        line = f"    provider: {provider}\n"
        text = text.replace(line, f"{line}    base_url: {url}{path}\n", 1)
    return text


@pytest.mark.parametrize(
    ("name", "vendor", "key", "usage"),
    [
        ("openai.md", "openai", "OPENAI_API_KEY", ("usage", "prompt_tokens", "completion_tokens")),
        (
            "azure.md",
            "azure",
            "AZURE_OPENAI_API_KEY",
            ("usage", "prompt_tokens", "completion_tokens"),
        ),
        (
            "anthropic.md",
            "anthropic",
            "ANTHROPIC_API_KEY",
            ("usage", "input_tokens", "output_tokens"),
        ),
        (
            "gemini.md",
            "gemini",
            "GEMINI_API_KEY",
            ("usageMetadata", "promptTokenCount", "candidatesTokenCount"),
        ),
    ],
)
def test_the_page_of_a_vendor_works_as_it_stands(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    server: Server,
    name: str,
    vendor: str,
    key: str,
    usage: tuple[str, str, str],
) -> None:
    """The server gives the answer, the counts and the errors that the page shows."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / ".env").write_text(f"{key}={KEY}\n")
    text = at_address(page(name), server.url)
    write_files(text, tmp_path)
    for command, output in sessions(text):
        answer = re.search(r"^  (\w.*)\n\n1 answered", output, re.MULTILINE)
        counts = re.search(r"^(\d+) input tokens, (\d+) output", output, re.MULTILINE)
        failure = re.search(r"case 'noon': (HTTP \d+|O3): (.*)", output)
        server.steps.clear()
        if answer and counts:
            field, read, written = usage
            tokens = {read: int(counts[1]), written: int(counts[2])}
            server.answer(body={**completion(vendor, answer[1]), field: tokens})
        elif failure:
            message = failure[2].partition("; check the ")[0].replace("***", KEY)
            filtered = failure[1] == "O3"
            status = 400 if filtered else int(failure[1].removeprefix("HTTP "))
            body = error_body(vendor, status, message, "content_filter" if filtered else "x")
            if "API key not valid" in message:
                body["error"]["details"] = [{"reason": "API_KEY_INVALID"}]  # as Gemini says it
            server.answer(status=status, body=body, times=3 if status == 429 else 1)
        assert undated(said(command, tmp_path)) == undated(output)
    assert len(sessions(text)) >= 5


def test_the_page_of_calls_works_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server.reply = lambda text: chat_answer(f"You said: {text}")
    assert play(at_address(page("api.md"), server.url), tmp_path) == 6
    assert [request.json["messages"][-1]["content"] for request in server.requests] == ["Hello"] * 2


def test_the_page_of_python_works_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_server: BatchServer
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    text = at_address(page("python.md"), batch_server.url).replace("batch_abc", "batch_2")
    write_files(text, tmp_path)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    assert play(text, tmp_path) == 6
    assert batch_server.operations.count("nothing") == 2  # hello and bye, by the first command
    assert batch_server.sent() == {"Hello": 1, "Bye": 1}


def test_the_page_of_pipelines_works_as_it_stands(tmp_path: Path) -> None:
    text = page("pipelines.md")
    assert play(text, tmp_path) == 5
    (program,), (output,) = blocks(text, "python"), blocks(text, "text")
    assert printed(program, tmp_path) == output


def test_the_page_of_review_works_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "somebody")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    assert play(page("review.md"), tmp_path) == 15
    assert "Thank them." in data_of((tmp_path / "report.html").read_text(encoding="utf-8"))
    (tmp_path / "snapshots/shop/refund.yaml").unlink()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=."]
    tested = subprocess.run(
        [*command, "test_prompts.py", "--snapshot-update"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "1 passed" in tested.stdout
    assert (tmp_path / "snapshots/shop/refund.yaml").exists()


def test_the_page_of_editors_works_as_it_stands(tmp_path: Path) -> None:
    assert play(page("editor.md"), tmp_path) == 4
    settings, _ = blocks(page("editor.md"), "json")
    for name in json.loads(settings)["yaml.schemas"]:
        Draft202012Validator.check_schema(json.loads((tmp_path / name).read_text()))
    suite = (tmp_path / "greet.eval.yaml").read_text()
    (name,) = re.findall(r"\$schema=(.*)", suite)
    (document,) = read_documents(suite, "greet.eval.yaml")
    Draft202012Validator(json.loads((tmp_path / name).read_text())).validate(document.value)


BROKEN = """\
evalcases:
  - id: greet
    input_messages: [{role: usr, content: Hello}]
    unknown: 1
"""


def test_the_tasks_for_vs_code_find_errors_and_explain_a_line(tmp_path: Path) -> None:
    """The pattern of the first task is one of JavaScript that means the same in Python."""
    write(tmp_path, {"evals/my greet.eval.yaml": BROKEN})
    _, tasks = blocks(page("editor.md"), "json")
    check, explain = json.loads(tasks)["tasks"]

    def run_task(task: Any) -> str:
        command = task["command"].replace("${relativeFile}", "evals/my greet.eval.yaml")
        return said(command.replace("${lineNumber}", "3"), tmp_path)

    pattern = check["problemMatcher"]["pattern"]
    matches = re.finditer(pattern["regexp"], run_task(check), re.MULTILINE)
    groups = ("severity", "file", "line", "column", "message")
    found = [[match[pattern[group]] for group in groups] for match in matches]
    suite = "evals/my greet.eval.yaml"
    assert [each[:4] for each in found] == [
        ["error", suite, "3", "29"],
        ["warning", suite, "4", "5"],
    ]
    assert "there is no role 'usr'" in found[0][4]
    write(tmp_path, {"evals/my greet.eval.yaml": BROKEN.replace("usr", "user")})
    assert "  | Hello\n" in run_task(explain)


def test_the_lines_for_neovim_call_commands_that_are_there(tmp_path: Path) -> None:
    """Each command is run, and each key looked for; no Neovim runs the lines themselves."""
    write(tmp_path, {"a.eval.yaml": BROKEN})
    (script,) = blocks(page("editor.md"), "lua")
    ((words),) = re.findall(r"vim.system\(\{ (.*), saved.file \}\)", script)
    checked = said(" ".join(json.loads(f"[{words}]")) + " a.eval.yaml", tmp_path)
    for line in checked.splitlines():
        assert set(re.findall(r"\beach\.(\w+)", script)) <= json.loads(line).keys()
    write(tmp_path, {"a.eval.yaml": BROKEN.replace("usr", "user")})
    (command,) = re.findall(r'"!(multiturn explain .*) "', script)
    assert "  | Hello\n" in said(command.replace("%", "a.eval.yaml") + " 3", tmp_path)


def test_the_page_of_pipelines_has_every_rule_that_is_named() -> None:
    listed = re.findall(r"^(\d)\. ", page("pipelines.md"), re.MULTILINE)
    assert "".join(listed) == "123456789"
    sources = [*ROOT.glob("stages/**/*.py"), ROOT / "pipeline/multiturn/explaining/explanation.py"]
    named = re.findall(r"rules? (\d)", " ".join(path.read_text("utf-8") for path in sources))
    assert set(named) <= set(listed)


def test_the_page_about_promptfoo_works_as_it_stands(tmp_path: Path) -> None:
    """Its commands of promptfoo are run by ``make test-tools``."""
    text = page("from-promptfoo.md")
    (prompt,) = blocks(text, "json")
    (tmp_path / "support.json").write_text(prompt)
    shutil.copy(RENDERED, tmp_path / "rendered.json")
    assert play(text, tmp_path) == 9


def test_the_page_about_agentv_works_as_it_stands(tmp_path: Path) -> None:
    assert play(page("from-agentv.md"), tmp_path) == 7


def test_the_page_about_hosted_evals_works_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    shutil.copy(ROOT / "docs/export_openai_evals.py", tmp_path)
    with EvalsServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        add_tickets(server)
        usage = {"usage": {"prompt_tokens": 29, "completion_tokens": 2}}
        server.reply = lambda text: (200, {**completion("openai", TICKETS[text]), **usage})
        key = "    api_key: ${{ OPENAI_API_KEY }}\n"
        text = page("from-openai-evals.md").replace(key, f"{key}    base_url: {server.url}/v1\n")
        assert play(text.replace("https://api.openai.com", server.url), tmp_path) == 8
        sent = [request.json for request in server.requests if request.method == "POST"]
        assert sorted(body["messages"][1]["content"] for body in sent) == sorted(TICKETS)
