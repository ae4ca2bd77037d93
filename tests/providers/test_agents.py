"""What the providers of agents share: what an agent gets to read, and what stays of a run."""

import asyncio
import json
import os
import re
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import standins
from multiturn.errors import MultiturnError, ProviderError
from multiturn.model.request import ChatMessage, InputFile, ProviderRequest
from multiturn.model.settings import JsonSchema, RequestSettings
from multiturn.model.turns import Tool
from multiturn.providers.base import Wire
from standins import agent, ask, left

pytestmark = pytest.mark.parametrize("kind", list(standins.KINDS))
KIB = 1024


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a function of this process in place of the agent."""
    monkeypatch.setattr("multiturn.providers.agents.agent.run_command", standins.sees)


in_process = pytest.mark.usefixtures("_in_process")


def saw(provider: Any, question: str = "Hi", **request: Any) -> Any:
    """Return what the agent got to see."""
    return json.loads(ask(provider, question, **request).text)


def wire(kind: str, question: str = "Hi", *, target: Any = None, **request: Any) -> Wire:
    """Return what an agent would be sent."""
    provider = agent(kind, Path(), **{"executable": "agent", **(target or {})})
    return provider.wire(ProviderRequest(question=question, **request))


def file(path: str, text: str = "", *, guideline: bool = False) -> InputFile:
    return InputFile(path, path, guideline, text)


# What it reads


SYSTEM = {"system_prompt": "Be kind."}
INSTRUCTED = """\
[[ ## System Prompt ## ]]

Be kind.

[[ ## Guidelines ## ]]

Rule one.

Rule two.

[[ ## Conversation ## ]]

What now?

Read these guidelines first"""


def including(kind: str) -> dict[str, str]:
    return {"system": "include"} if kind == "vscode" else {}


def messages(system: str) -> tuple[ChatMessage, ...]:
    return ChatMessage("system", system), ChatMessage("user", "Ahoy")


@pytest.mark.parametrize(
    ("request_", "start"),
    [
        pytest.param({}, "What now?", id="nothing but a question"),
        pytest.param(
            {"metadata": {"system_prompt": " \n"}}, "What now?", id="a blank system prompt"
        ),
        pytest.param({"metadata": SYSTEM}, "[[ ## System Prompt ## ]]", id="a system prompt"),
        pytest.param(
            {"metadata": SYSTEM, "chat_prompt": messages("Be kind.\n\nR")},
            "[[ ## System Prompt ## ]]",
            id="a system prompt that LLM APIs get",
        ),
        pytest.param(
            {"metadata": SYSTEM, "chat_prompt": messages("Be brief.")},
            "What now?",
            id="a system message in place of the system prompt",
        ),
        pytest.param(
            {
                "guidelines": ("Rule one.", "In a file.", "Rule two."),
                "metadata": SYSTEM,
                "input_files": (file("rules.md", "In a file.", guideline=True),),
            },
            INSTRUCTED,
            id="guidelines without a file come first, too",
        ),
    ],
)
def test_an_agent_gets_what_llm_apis_get(kind: str, request_: dict[str, Any], start: str) -> None:
    made = wire(kind, "What now?", target=including(kind), **request_)
    assert made.body.decode().startswith(start)
    assert b"In a file." not in made.body
    assert b"Ahoy" not in made.body  # the chat prompt is for LLM APIs
    assert made.repairs == ()


def test_what_does_not_reach_an_agent_is_named(kind: str) -> None:
    said = RequestSettings(temperature=0.5, max_output_tokens=100)
    left_out = ("F4: left out the temperature 0.5", "F4: left out the max_output_tokens 100")
    system = (
        "F5: left out the system prompt or guidelines; system: include of the target sends them"
    )
    request: dict[str, Any] = {"metadata": SYSTEM, "settings": said}
    made = wire(kind, **request)
    assert made.repairs == ((*left_out, system) if kind == "vscode" else left_out)
    assert made.body.startswith(b"Hi" if kind == "vscode" else b"[[")
    assert wire(kind, target=including(kind), **request).repairs == left_out


@pytest.mark.parametrize(
    ("name", "value", "repair"),
    [
        ("temperature", 0, "F4: left out the temperature 0"),
        ("top_p", 0.25, "F4: left out the top_p 0.25"),
        ("top_k", 40, "F4: left out the top_k 40"),
        ("max_output_tokens", 100, "F4: left out the max_output_tokens 100"),
        ("stop", ("END", "\n"), "F4: left out the stop ['END', '\\n']"),
        ("seed", 0, "F4: left out the seed 0"),
        ("frequency_penalty", -0.5, "F4: left out the frequency_penalty -0.5"),
        ("presence_penalty", 2, "F4: left out the presence_penalty 2"),
        ("reasoning_effort", "high", "F4: left out the reasoning_effort high"),
        ("reasoning_tokens", 0, "F4: left out the reasoning_tokens 0"),
        ("response_format", "json", "F4: left out the response_format json"),
        ("response_format", JsonSchema(schema={}), "F4: left out the response_format json_schema"),
        ("tool_choice", "required", "F4: left out the tool_choice required"),
        ("parallel_tool_calls", False, "F4: left out the parallel_tool_calls false"),
        ("verbosity", "low", "F4: left out the verbosity low"),
        ("service_tier", "flex", "F4: left out the service_tier flex"),
        ("body", {"logprobs": True}, "F4: left out the body {'logprobs': True}"),
    ],
)
def test_each_setting_of_a_request_is_named_that_an_agent_does_not_get(
    kind: str, name: str, value: Any, repair: str
) -> None:
    said = RequestSettings(**{name: value})
    with_tools = wire(kind, settings=said, tools=(Tool("now"),))
    assert with_tools.repairs == (repair, "F6: left out the tools")
    is_of_tools = name in ("tool_choice", "parallel_tool_calls")
    assert wire(kind, settings=said).repairs == (() if is_of_tools else (repair,))
    assert with_tools.body == wire(kind).body


def test_an_empty_transcript_is_refused(kind: str) -> None:
    with pytest.raises(ProviderError, match=r"^C1: .*; the question is empty") as caught:
        wire(kind, " \n", chat_prompt=messages("Hi"))
    assert caught.value.kind == "refused"


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        pytest.param("@a.md", " @a.md", id="the only line"),
        pytest.param("Hi\n@a.md\nHo", "Hi\n @a.md\nHo", id="a line in between"),
        pytest.param("Hi\r\n@a.md", "Hi\r\n @a.md", id="after a carriage return"),
        pytest.param("@a\n@b\n\n@c", " @a\n @b\n\n @c", id="several lines"),
        pytest.param("@@a", " @@a", id="two signs"),
        *((text, text) for text in ("Hi", "me@here", " @a", "- @a", "a\n\t@b")),
    ],
)
def test_a_line_that_starts_with_an_at_sign_mentions_no_file(
    kind: str, question: str, asked: str
) -> None:
    made = wire(kind, question)
    assert made.body.startswith(asked.encode())
    count = asked.count(" @") - question.count(" @")
    repairs = (f"F2: put a space before {count} line(s) that start with @",) if count else ()
    assert made.repairs == repairs


LONG = "".join(f"{number:06}\n" for number in range(300 * KIB // 7))
ODD = (
    "-rf --help - $(touch x) `touch x` ; touch x \\ \" ' %PATH% a\0b\x1b[2J\x7f \r\nHo\rHu \ufeffGr"
    "üße 👍 \u2028 {question} %s .multiturn/request  \n\n"
)


@in_process
@pytest.mark.parametrize("question", [ODD, LONG], ids=["odd", "long"])
def test_a_question_arrives_as_it_is_and_is_no_argument(
    kind: str, tmp_path: Path, question: str
) -> None:
    answer = ask(agent(kind, tmp_path), question, input_files=(file("a", LONG),))
    record = json.loads(answer.text)
    assert record["prompt"].startswith(question)
    assert answer.wire.decode() == record["prompt"]
    assert list(record["files"].values()) == [LONG]
    assert max(map(len, record["args"])) < 128 * KIB
    assert left(tmp_path) == []


def test_half_a_character_in_a_question_does_no_harm(kind: str) -> None:
    assert re.match(rb"a .{1,3} b .{1,3} c", wire(kind, "a \ud83d b \udc80 c").body)


# The files


@in_process
@pytest.mark.parametrize(
    ("guideline", "intro"),
    [
        (True, "Read these guidelines first, and follow them:"),
        (False, "The files attached above, if you need them as files:"),
    ],
)
def test_the_agent_is_told_what_to_do_with_the_files_that_are_there(
    kind: str, tmp_path: Path, guideline: bool, intro: str
) -> None:
    record = saw(agent(kind, tmp_path), input_files=(file("a.md", "A", guideline=guideline),))
    ((path, text),) = record["files"].items()
    assert text == "A"
    assert record["prompt"].startswith(f"Hi\n\n{intro}\n- {path}")
    assert b"files" not in wire(kind).body


NAMES = [
    "-rf",  # a dash first
    "--add-file",  # an option
    "a b.md",  # a space
    "../x",  # a folder up
    ".././..//x",  # a folder up, spelled oddly
    "a/..",  # nothing but a folder up
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
    "n" * 256,  # longer than a name may be
    "名" * 85,  # as long as a name may be, in bytes
]
TEXTS = ["", "\0", "a \ud83d b \udc80", "a\r\nb\rc", "\ufeffa"]


@in_process
def test_a_file_may_have_any_name_and_hold_any_text(kind: str, tmp_path: Path) -> None:
    files = tuple(
        file(f"{folder}{name}", text)
        for name, text in zip(NAMES, cycle(TEXTS), strict=False)
        for folder in ("", "src/")
    )
    record = saw(agent(kind, tmp_path), input_files=files)
    assert list(record["files"].values()) == [file.text for file in files]
    work = (tmp_path / "work").resolve()
    assert [path for path in record["files"] if work not in (work / path).resolve().parents] == []
    assert wire(kind, input_files=files).repairs == ()
    assert left(tmp_path) == []


@in_process
def test_only_the_list_of_files_names_the_folder_of_a_request(kind: str, tmp_path: Path) -> None:
    """A message with the placeholder that stands for the folder is sent as it is."""
    asked = "See .multiturn-request/files/1/a.md"
    record = saw(agent(kind, tmp_path), asked, input_files=(file("a.md", "A"),))
    assert record["prompt"].count(asked) == 1
    assert list(record["files"].values()) == ["A"]


@in_process
@pytest.mark.parametrize("cwd", [None, "work"])
def test_the_files_are_in_the_working_folder_where_git_does_not_see_them(
    kind: str, tmp_path: Path, cwd: str | None
) -> None:
    record = saw(agent(kind, tmp_path, cwd=cwd), input_files=(file("a.md", "A"),))
    assert (record["cwd"], list(record["files"].values())) == (cwd, ["A"])
    assert record["ignored"] == ["*\n"]


def test_a_working_folder_that_is_missing_is_an_error(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match=r"cannot use the request folder: .*nowhere") as caught:
        ask(agent(kind, tmp_path, cwd="nowhere"))
    assert caught.value.kind == "process"


@in_process
def test_one_provider_answers_many_at_once(kind: str, tmp_path: Path) -> None:
    async def ask_all() -> list[Any]:
        async with agent(kind, tmp_path) as provider:
            requests = (
                ProviderRequest(question=f"Question {n}", input_files=(file("a", f"File {n}"),))
                for n in range(5)
            )
            return await asyncio.gather(*map(provider.invoke, requests))

    for number, answer in enumerate(asyncio.run(ask_all())):
        record = json.loads(answer.text)
        assert record["prompt"].startswith(f"Question {number}\n")
        assert list(record["files"].values()) == [f"File {number}"]
    assert left(tmp_path) == []


# Keys


FEW = (
    *("PATH", "HOME", "USER", "SHELL", "LANG", "LC_ALL", "LC_TIME", "TERM", "TMPDIR", "TZ"),
    *("XDG_CONFIG_HOME", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "NO_PROXY", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
    *("CODEX_HOME", "SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "PATHEXT", "COMSPEC"),
)
OTHERS = (
    *("ANTHROPIC_API_KEY", "DB_PASSWD", "GITHUB_TOKEN", "CODEX_API_KEY", "OPENAI_API_KEY"),
    *("MY_PAT", "JWT", "AUTHORIZATION", "BEARER", "COOKIE", "NPM_CONFIG__AUTH", "DATABASE_URL"),
    *("SENTRY_DSN", "CONNECTION_STRING", "HOUSE", "XDG", "MY_PATH", "LD_PRELOAD_X", "lang"),
)


@in_process
@pytest.mark.parametrize(
    ("settings", "inherited"),
    [
        pytest.param({"pass_env": ()}, set(), id="none"),
        pytest.param({"pass_env": ("MY_PAT",)}, {"MY_PAT"}, id="those that are named"),
        pytest.param({"pass_env": ("*_PAT", "HO*E")}, {"MY_PAT", "HOUSE"}, id="by globs"),
        pytest.param({"env": {"JWT": "x"}, "pass_env": ()}, {"JWT"}, id="given"),
    ],
)
def test_an_agent_inherits_a_few_variables_and_what_its_target_names(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    inherited: set[str],
) -> None:
    for name in os.environ:
        monkeypatch.delenv(name)
    for name in (*FEW, *OTHERS):
        monkeypatch.setenv(name, "secret-4711")
    names = saw(agent(kind, tmp_path, **settings))["env"].keys()
    assert names == {*FEW, *inherited}


@in_process
@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("MY_PAT", "pat-0123", "pat-0123"),
        ("JWT", "eyJhbGciOi", "eyJhbGciOi"),
        ("NPM_CONFIG__AUTH", "bmU6c2VjcmV0", "bmU6c2VjcmV0"),
        ("SENTRY_DSN", "https://0123abcd@o1.example/2", "https://0123abcd@o1.example/2"),
        ("https_proxy", "http://me:pa%24sword@proxy:8080", "http://me:pa%24sword@proxy:8080"),
        ("HTTPS_PROXY", "http://me:pa%24sword@proxy:8080", "pa$sword"),
        ("DATABASE_URL", "postgres://me:hunter22@db/x", "hunter22"),
    ],
)
def test_a_value_like_a_key_is_hidden(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, hidden: str
) -> None:
    monkeypatch.setenv(name, value)
    answer = ask(agent(kind, tmp_path), f"{hidden} and {tmp_path}")
    assert json.loads(answer.text)["prompt"].startswith(f"*** and {tmp_path}")


def test_the_error_of_an_agent_that_fails_names_pass_env(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ProviderError) as caught:
        ask(agent(kind, tmp_path, "sys.exit('no key')"))
    assert caught.value.what == (
        "agent ended with exit code 1; the end of its output: no key; an agent inherits few"
        " environment variables; name others that it needs in pass_env"
    )


@in_process
@pytest.mark.parametrize("pass_env", [("GITHUB_TOKEN",), ()], ids=["inherited", "found"])
def test_every_key_of_the_environment_is_hidden_in_what_comes_back(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pass_env: tuple[str, ...]
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp-0123456789")
    monkeypatch.setenv("MAX_TOKENS", "4096")
    answer = ask(agent(kind, tmp_path, pass_env=pass_env), "ghp-0123456789 and 4096")
    assert json.loads(answer.text)["prompt"].startswith("*** and 4096")
    assert "ghp-0123456789" not in repr(answer.raw)


def test_a_key_changes_no_digest_and_is_not_printed(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"args": ("--fast-and-loose",), "env": {"KEY": "secret-4711"}}
    before = wire(kind, target=settings)
    provider = agent(kind, Path(), executable="agent", **settings)
    assert "secret-4711" not in f"{provider!r} {provider.settings!r} {before!r}"
    monkeypatch.setenv("GITHUB_TOKEN", "--fast-and-loose")
    settings["env"] = {"KEY": "another"}
    assert wire(kind, target=settings).digest() == before.digest()


# The target


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
    kind: str, settings: dict[str, Any], request_: dict[str, Any]
) -> None:
    given: dict[str, Any] = {"question": "Hi", "input_files": (file("a", "A"),)}
    first = wire(kind, **given)
    assert wire(kind, **given, chat_prompt=messages("Hi")).digest() == first.digest()
    assert wire(kind, target=settings, **{**given, **request_}).digest() != first.digest()


@pytest.mark.parametrize("executable", ["no-such-agent", "/no/such/agent"])
def test_an_agent_must_be_installed(kind: str, tmp_path: Path, executable: str) -> None:
    agent(kind, tmp_path).check()
    with pytest.raises(MultiturnError, match=f"'{executable}', and there is no such command"):
        agent(kind, tmp_path, executable=executable).check()


def test_a_target_needs_to_name_neither_the_executable_nor_its_keys(kind: str) -> None:
    settings = standins.KINDS[kind].settings(name="a", provider=kind)
    window = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS")
    keys = {
        "codex": ("CODEX_API_KEY", "OPENAI_API_KEY"),
        "vscode": (*window, "VSCODE_IPC_HOOK_CLI"),
    }
    assert settings.executable == {"codex": "codex", "vscode": "code"}[kind]
    assert settings.pass_env == keys[kind]


# How a run ends: here the agent is a process


@pytest.mark.parametrize("executable", ["agent", "./agent"], ids=["on the path", "in a folder"])
def test_an_agent_answers_and_what_it_left_behind_is_ended(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    with standins.witness(tmp_path) as witness:
        heard = tmp_path / "heard"
        before = f"leave_behind({witness.path!r})\nwait_for({str(heard)!r})\n"
        standins.executable(tmp_path, before + standins.KINDS[kind].program)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        provider = agent(kind, tmp_path, executable=executable)
        request = ProviderRequest(question="Hi", input_files=(file("a", "A"),))
        answer = standins.until(witness.tell(heard), standins.invoked(provider, request))
    assert answer.text.encode() == answer.wire  # VS Code's was there in two pieces
    assert (answer.finish_reason, answer.retries) == ("stop", 0)
    assert left(tmp_path) == []


@pytest.mark.parametrize("cancels", [0, 1], ids=["late", "canceled"])
def test_a_run_that_is_ended_leaves_nothing_and_shows_no_secret(
    kind: str, tmp_path: Path, cancels: int
) -> None:
    with standins.witness(tmp_path) as witness:
        path = repr(witness.path)
        program = f"print(os.environ['KEY'] * 300, flush=True)\nleave_behind({path})\n"
        provider = agent(kind, tmp_path, f"{program}stay({path})", env={"KEY": "secret-4711"})
        work = standins.invoked(provider, ProviderRequest(question="Hi"))
        with pytest.raises(asyncio.CancelledError if cancels else ProviderError) as caught:
            standins.until(lambda: witness.heard(2), work, cancels=cancels)
    said = str(caught.value)
    assert cancels or "took more than 60 s (timeout_seconds); the end of its output: ***" in said
    assert "4711" not in said  # no piece of it either, where the output is cut
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    "given",
    [{"system": "Be brief."}, {"metadata": {"systemPrompt": "Be brief."}}],
    ids=["system", "metadata"],
)
def test_an_agent_gets_the_system_prompt_of_a_request_made_by_hand(
    kind: str, given: dict[str, Any], tmp_path: Path
) -> None:
    wire = agent(kind, tmp_path).wire(ProviderRequest(question="Hi", **given))
    if kind == "codex":
        headed = "[[ ## System Prompt ## ]]\n\nBe brief.\n\n[[ ## Conversation ## ]]\n\nHi"
        assert wire.body.decode() == headed
    else:
        assert "F5: left out the system prompt or guidelines" in wire.repairs[0]


def test_tools_cannot_be_given_to_it(kind: str) -> None:
    assert "F6: left out the tools" in wire(kind, tools=(Tool("now"),)).repairs
    assert not any(repair.startswith("F6") for repair in wire(kind).repairs)
