"""What the providers of agents share: what an agent gets to read, and what stays of a run."""

import asyncio
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import standins
from multiturn.model import ChatMessage, InputFile, ProviderRequest
from multiturn.providers.base import ProviderError
from standins import agent, ask, left, saw

pytestmark = pytest.mark.parametrize("kind", list(standins.KINDS))
KIB = 1024


def file(path: str, text: str = "", *, guideline: bool = False) -> InputFile:
    return InputFile(path, path, guideline, text)


def test_the_question_is_asked_and_the_chat_prompt_ignored(kind: str, tmp_path: Path) -> None:
    chat = (ChatMessage("system", "Be a pirate."), ChatMessage("user", "Ahoy"))
    prompt = saw(agent(kind, tmp_path), "@[User]:\nWhat now?", chat_prompt=chat)["prompt"]
    assert "[User]:\nWhat now?" in prompt
    assert "pirate" not in prompt
    assert "Ahoy" not in prompt


SYSTEM = {"system_prompt": "Be kind."}
INSTRUCTED = """\
[[ ## System Prompt ## ]]

Be kind.

[[ ## Guidelines ## ]]

Rule one.

Rule two.

[[ ## Conversation ## ]]

What now?"""


def including(kind: str) -> dict[str, str]:
    return {"system": "include"} if kind == "vscode" else {}


def test_the_system_prompt_and_guidelines_without_a_file_come_first(
    kind: str, tmp_path: Path
) -> None:
    files = (file("rules.md", "In a file.", guideline=True),)
    given: dict[str, Any] = {
        "guidelines": ("Rule one.", "In a file.", "Rule two."),
        "metadata": SYSTEM,
        "input_files": files,
    }
    prompt = saw(agent(kind, tmp_path, **including(kind)), "What now?", **given)["prompt"]
    assert prompt.startswith(f"{INSTRUCTED}\n\nRead these guidelines first")
    assert "In a file." not in prompt


@pytest.mark.parametrize(
    ("request_", "start"),
    [
        pytest.param({}, "What now?", id="nothing but a question"),
        pytest.param(
            {"metadata": {"system_prompt": " \n"}, "guidelines": ()},
            "What now?",
            id="a blank system prompt",
        ),
        pytest.param({"metadata": SYSTEM}, "[[ ## System Prompt ## ]]", id="a system prompt"),
        pytest.param(
            {
                "metadata": SYSTEM,
                "chat_prompt": (ChatMessage("system", "Be kind.\n\nR"), ChatMessage("user", "W")),
            },
            "[[ ## System Prompt ## ]]",
            id="a system prompt that LLM APIs get",
        ),
        pytest.param(
            {
                "metadata": SYSTEM,
                "chat_prompt": (ChatMessage("system", "Be brief."), ChatMessage("user", "W")),
            },
            "What now?",
            id="a system message in place of the system prompt",
        ),
    ],
)
def test_an_agent_gets_what_llm_apis_get(
    kind: str, tmp_path: Path, request_: dict[str, Any], start: str
) -> None:
    provider = agent(kind, tmp_path, **including(kind))
    wire = provider.wire(ProviderRequest(question="What now?", **request_))
    assert wire.body.decode().startswith(start)
    assert wire.repairs == ()


def test_what_does_not_reach_an_agent_is_named(kind: str, tmp_path: Path) -> None:
    request = ProviderRequest(
        question="Hi", metadata=SYSTEM, temperature=0.5, max_output_tokens=100
    )
    sampling = ("F4: left out the temperature 0.5", "F4: left out the limit of 100 tokens")
    left_out = (
        "F5: left out the system prompt or guidelines; system: include of the target sends them"
    )
    wire = agent(kind, tmp_path).wire(request)
    assert wire.repairs == ((*sampling, left_out) if kind == "vscode" else sampling)
    assert wire.body.startswith(b"Hi" if kind == "vscode" else b"[[")
    assert agent(kind, tmp_path, **including(kind)).wire(request).repairs == sampling


def test_neither_does_a_chat_prompt_change_the_digest(kind: str, tmp_path: Path) -> None:
    provider = agent(kind, tmp_path)
    chat = (ChatMessage("user", "Ahoy"),)
    digests = {
        provider.wire(ProviderRequest(question="Hi", chat_prompt=prompt)).digest()
        for prompt in (None, chat)
    }
    assert len(digests) == 1


def test_arguments_working_folder_and_variables_come_from_the_target(
    kind: str, tmp_path: Path
) -> None:
    provider = agent(kind, tmp_path, args=("--profile", "a b", "-x"), env={"STAND_IN": "yes"})
    record = saw(provider)
    at = record["args"].index("--profile")
    assert record["args"][at : at + 3] == ["--profile", "a b", "-x"]
    assert record["cwd"] == str(tmp_path / "work")
    assert record["env"] == "yes"


def test_an_agent_inherits_variables_but_no_keys(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY", "GITHUB_TOKEN", "DB_PASSWD"}
    for name in (*keys, "HOUSE", "KEYBOARD"):
        monkeypatch.setenv(name, "secret-4711")
    names = set(saw(agent(kind, tmp_path))["names"])
    assert names & {*keys, "HOUSE", "KEYBOARD"} == {"HOUSE", "KEYBOARD"}
    names = set(saw(agent(kind, tmp_path, pass_env=("GITHUB_TOKEN",)))["names"])
    assert names & keys == {"GITHUB_TOKEN"}
    names = set(saw(agent(kind, tmp_path, env={"GITHUB_TOKEN": "another"}))["names"])
    assert names & keys == {"GITHUB_TOKEN"}


def test_only_codex_inherits_keys_by_default_and_only_its_own(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"CODEX_API_KEY", "OPENAI_API_KEY"}
    for name in keys:
        monkeypatch.setenv(name, "secret-4711")
    names = set(saw(agent(kind, tmp_path))["names"])
    assert names & keys == (keys if kind == "codex" else set())


@pytest.mark.parametrize("passed", [True, False])
def test_every_key_of_the_environment_is_hidden_in_what_comes_back(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passed: bool
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp-0123456789")
    monkeypatch.setenv("MAX_TOKENS", "4096")
    pass_env = ("GITHUB_TOKEN",) if passed else ()
    answer = ask(agent(kind, tmp_path, pass_env=pass_env), "ghp-0123456789 and 4096")
    assert json.loads(answer.text)["prompt"].startswith("*** and 4096")
    assert "ghp-0123456789" not in repr(answer.raw)


def test_a_key_of_the_environment_does_not_change_the_digest(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ProviderRequest(question="Hi")
    before = agent(kind, tmp_path, args=("--fast-and-loose",)).wire(request).digest()
    monkeypatch.setenv("GITHUB_TOKEN", "--fast-and-loose")
    assert agent(kind, tmp_path, args=("--fast-and-loose",)).wire(request).digest() == before


@pytest.mark.parametrize("cwd", [None, "work"])
def test_the_working_folder_is_the_current_one_or_below_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cwd: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    record = saw(agent(kind, tmp_path, cwd=cwd), input_files=(file("a.md", "A"),))
    assert record["cwd"] == str(tmp_path / (cwd or ""))
    assert list(record["files"].values()) == ["A"]


def test_a_long_question_is_no_argument(kind: str, tmp_path: Path) -> None:
    question = "".join(f"{number:06}\n" for number in range(300 * KIB // 7))
    record = saw(agent(kind, tmp_path), question, input_files=(file("a", "x" * 300 * KIB),))
    assert record["prompt"].startswith(question)
    assert max(map(len, record["args"])) < 128 * KIB
    assert "x" * 300 * KIB in record["files"].values()


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        pytest.param("@a.md", " @a.md", id="the only line"),
        pytest.param("Hi\n@a.md\nHo", "Hi\n @a.md\nHo", id="a line in between"),
        pytest.param("Hi\r\n@a.md", "Hi\r\n @a.md", id="after a carriage return"),
        pytest.param("@a\n@b\n\n@c", " @a\n @b\n\n @c", id="several lines"),
        pytest.param("@@a", " @@a", id="two signs"),
    ],
)
def test_a_line_that_starts_with_an_at_sign_mentions_no_file(
    kind: str, tmp_path: Path, question: str, asked: str
) -> None:
    provider = agent(kind, tmp_path)
    wire = provider.wire(ProviderRequest(question=question))
    assert wire.body.startswith(asked.encode())
    assert [re.match(r"\w+", repair)[0] for repair in wire.repairs] == ["F2"]  # type: ignore[index]
    assert saw(provider, question)["prompt"].startswith(asked)


@pytest.mark.parametrize("question", ["Hi", "me@here", " @a", "- @a", "a\n\t@b"])
def test_what_needs_no_repair_is_not_repaired(kind: str, tmp_path: Path, question: str) -> None:
    wire = agent(kind, tmp_path).wire(ProviderRequest(question=question))
    assert wire.repairs == ()
    assert wire.body.startswith(question.encode())


@pytest.mark.parametrize(
    "question",
    [
        pytest.param("-rf", id="a dash first"),
        pytest.param("--help", id="an option"),
        pytest.param("-", id="a dash alone"),
        pytest.param("$(touch x) `touch x` ; touch x \\ \" ' %PATH%", id="what a shell would do"),
        pytest.param("a\0b\x1b[2J\x7f", id="control characters"),
        pytest.param("  Hi  \n\n", id="white space around"),
        pytest.param("Hi\r\nHo\rHu", id="carriage returns"),
        pytest.param("Was ist .multiturn/request?", id="the name that stands for the folder"),
        pytest.param("\ufeffGrüße 👍 \u2028 {question} %s", id="Unicode and placeholders"),
    ],
)
def test_a_question_arrives_as_it_is(kind: str, tmp_path: Path, question: str) -> None:
    record = saw(agent(kind, tmp_path), question)
    assert record["prompt"].startswith(question)
    assert left(tmp_path) == []


def test_half_a_character_in_a_question_does_no_harm(kind: str, tmp_path: Path) -> None:
    prompt = saw(agent(kind, tmp_path), "a \ud83d b \udc80 c")["prompt"]
    assert re.match(r"a .{1,3} b .{1,3} c", prompt)


def test_the_agent_is_told_what_to_do_with_files(kind: str, tmp_path: Path) -> None:
    files = (file("a.py", "A"), file("rules.md", "R", guideline=True))
    record = saw(agent(kind, tmp_path), "See <Attached: rules.md>", input_files=files)
    (rules,) = (path for path, text in record["files"].items() if text == "R")
    (code,) = (path for path, text in record["files"].items() if text == "A")
    before_rules = record["prompt"].split(f"- {rules}")[0].splitlines()[-1]
    assert re.search(r"[Rr]ead .*guidelines.*follow", before_rules)
    before_code = record["prompt"].split(f"- {code}")[0].splitlines()[-1]
    assert re.search(r"files? .*attached", before_code)
    assert "guidelines" not in before_code


@pytest.mark.parametrize("guideline", [True, False])
def test_only_what_is_there_is_spoken_of(kind: str, tmp_path: Path, guideline: bool) -> None:
    request = ProviderRequest(question="Hi", input_files=(file("a", "A", guideline=guideline),))
    body = agent(kind, tmp_path).wire(request).body.decode()
    assert ("guidelines" in body, "attached" in body) == (guideline, not guideline)
    body = agent(kind, tmp_path).wire(ProviderRequest(question="Hi")).body.decode()
    assert ("guidelines" in body, "attached" in body) == (False, False)


NAMES = [
    "-rf",  # a dash first
    "--add-file",  # an option
    "a b.md",  # a space
    "../x",  # a folder up
    ".././..//x",  # a folder up, spelled oddly
    "..\\..\\x",  # a folder up, as Windows has it
    "/etc/passwd",  # an absolute path
    "a/",  # a slash, last
    "",  # no name
    "a\nb\r\n@c.md",  # lines
    "a\n- /etc/passwd",  # a line that looks like another file
    "@a.md",  # an at sign first
    "a*[b]?.md",  # a pattern
    "$(x)`y`;'z\"&|<>",  # what a shell would do
    "C:nul.md",  # a drive
    ".hidden",  # a dot first
    "prompt.md",  # the prompt's own name
    "response.md",  # the response's own name
    "名前.md",  # Unicode
    "a\udcff.md",  # a byte that is no character
    "a\0b",  # a null character
    "n" * 255,  # as long as a name may be
    "名" * 85,  # as long as a name may be, in bytes
]


def test_a_file_may_have_any_name(kind: str, tmp_path: Path) -> None:
    files = tuple(
        file(prefix + name, f"{prefix}{number}", guideline=bool(prefix))
        for number, name in enumerate(NAMES)
        for prefix in ("", "src/")
    )
    provider = agent(kind, tmp_path)
    record = saw(provider, input_files=files)
    assert sorted(record["files"].values()) == sorted(file.text for file in files)
    work = (tmp_path / "work").resolve()
    assert [path for path in record["files"] if work not in (work / path).resolve().parents] == []
    assert provider.wire(ProviderRequest(question="Hi", input_files=files)).repairs == ()
    assert left(tmp_path) == []


@pytest.mark.parametrize("name", ["n" * 256, "a/.", "a/.."])
def test_a_file_that_has_no_proper_name_leaves_nothing_behind(
    kind: str, tmp_path: Path, name: str
) -> None:
    with suppress(ProviderError):
        ask(agent(kind, tmp_path), input_files=(file("a", "A"), file(name, "B")))
    assert left(tmp_path) == []


def test_a_file_may_hold_any_text(kind: str, tmp_path: Path) -> None:
    texts = ["a \ud83d b \udc80", "a\r\nb\rc", "\0", "", "\ufeffa"]
    record = saw(agent(kind, tmp_path), input_files=tuple(file("a", text) for text in texts))
    assert list(record["files"].values()) == texts


def test_a_second_run_has_the_same_digest(kind: str, tmp_path: Path) -> None:
    request = ProviderRequest(question="Hi", input_files=(file("a", "A"),))
    provider = agent(kind, tmp_path)
    before = provider.wire(request)
    asyncio.run(standins.invoked(provider, request))
    after = agent(kind, tmp_path).wire(request)
    assert (before.body, before.digest()) == (after.body, after.digest())


@pytest.mark.parametrize(
    ("settings", "request_"),
    [
        pytest.param({}, {"question": "Ho"}, id="the question"),
        pytest.param({"args": ("--deep",)}, {}, id="an argument"),
        pytest.param({"executable": "/bin/other"}, {}, id="the executable"),
        pytest.param({}, {"input_files": (file("a", "B"),)}, id="a file's text"),
        pytest.param({}, {"input_files": (file("b", "A"),)}, id="a file's name"),
        pytest.param({}, {"input_files": (file("a", "A", guideline=True),)}, id="a file's use"),
        pytest.param({}, {"input_files": ()}, id="no file"),
    ],
)
def test_another_request_has_another_digest(
    kind: str, tmp_path: Path, settings: dict[str, Any], request_: dict[str, Any]
) -> None:
    given: dict[str, Any] = {"question": "Hi", "input_files": (file("a", "A"),)}
    one = agent(kind, tmp_path).wire(ProviderRequest(**given))
    other = agent(kind, tmp_path, **settings).wire(ProviderRequest(**{**given, **request_}))
    assert one.digest() != other.digest()


def test_an_answer_has_the_body_as_it_went_out(kind: str, tmp_path: Path) -> None:
    answer = ask(agent(kind, tmp_path), "Hi\n@you", input_files=(file("a", "A"),))
    record = json.loads(answer.text)
    assert answer.wire.decode() == record["prompt"]
    assert [path for path in record["files"] if path.encode() not in answer.wire] == []
