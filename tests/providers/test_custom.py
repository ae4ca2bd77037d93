"""Providers of a user's own: what a targets file gives them, and what they give back."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

import commands
from multiturn import (
    Call,
    MultiturnError,
    ProviderError,
    ProviderRequest,
    ProviderResponse,
    load_target,
)
from multiturn.providers.custom import complete
from running import records, write_suite

MODULE = """\
from multiturn import AxProvider, ProviderError, ProviderResponse

CALLS = []


class Echoes(AxProvider):
    def __init__(self, **options):
        self.options = options
        if options.get("fail") == "start":
            raise ValueError(options["token"])

    async def __aenter__(self):
        CALLS.append("enter")
        return self

    async def __aexit__(self, *error):
        CALLS.append("exit")

    async def invoke(self, request):
        key = self.options.get("token")
        kind = self.options.get("fail")
        if kind == "vendor":
            raise ProviderError(f"no such key {key}", kind="http", retries=2)
        if kind == "bug":
            raise ValueError(f"no such key {key}")
        if kind == "text":
            return "Hello"
        text = f"{self.build_chat_prompt(request)[-1].content} {self.options}"
        return ProviderResponse(text=text, raw={"key": key}, usage={"input_tokens": 3})

class Hasty(Echoes):
    def invoke(self, request):
        return ProviderResponse(text="Hello")
"""
HELLO = ProviderRequest(question="Hello")
KEY = "sk-123456"
count = iter(range(100))


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a new module in the current folder."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # put back what importing adds
    monkeypatch.setenv("THE_KEY", KEY)
    name = f"custom_providers_{next(count)}"
    Path(f"{name}.py").write_text(MODULE)
    return name


def write(module: str, file: str = "targets.yaml", name: str = "Echoes", **options: Any) -> None:
    target = {"name": "mine", "provider": f"{module}:{name}", **options}
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(json.dumps({"targets": [target]}))


def ask() -> ProviderResponse:
    async def main() -> ProviderResponse:
        async with load_target("mine") as provider:
            return await provider.invoke(HELLO)

    return asyncio.run(main())


@pytest.mark.parametrize("file", ["targets.yaml", ".agentv/targets.yaml"])
def test_a_run_asks_it_under_the_name_of_the_target(module: str, file: str) -> None:
    write(module, file)
    write_suite(Path(), ["Hello"])
    done = commands.run("run", "a.eval.yaml", "--target", "mine", folder=Path.cwd())
    (result,) = records(done.stdout)
    assert (result["target"], result["response"]) == ("mine", "Hello {}")
    assert result["usage"] == {"input_tokens": 3}


def test_the_settings_are_its_arguments_and_it_is_opened_and_closed(module: str) -> None:
    given: dict[str, Any] = {
        "size": 5,
        "heat": 0.5,
        "on": True,
        "off": None,
        "list": ["a", 1],
        "word": "5",
        "timeout_seconds": 3,
    }
    write(module, **given, variable="x${{ THE_KEY }}")
    assert ask().text == f"Hello { ({**given, 'variable': 'x***'}) }"
    assert __import__(module).CALLS == ["enter", "exit"]


def test_its_name_is_text(module: str) -> None:
    Path("targets.yaml").write_text(f"[{{name: 007, provider: '{module}:Echoes'}}]")
    assert load_target("007").name == "007"


def test_the_digest_has_the_settings_and_never_a_key(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest(key: str, **options: Any) -> str:
        monkeypatch.setenv("THE_KEY", key)
        write(module, token="${{ THE_KEY }}", **options)
        return load_target("mine").wire(HELLO).digest()

    assert digest("first-key") == digest("other-key")
    assert digest("first-key", model="a") != digest("first-key", model="b")


@pytest.mark.parametrize("token", ["${{ THE_KEY }}", KEY])
def test_a_key_comes_back_from_nowhere(module: str, token: str) -> None:
    write(module, token=token)
    answer = ask()
    assert (answer.text, answer.raw) == ("Hello {'token': '***'}", {"key": "***"})
    assert KEY.encode() not in load_target("mine").wire(HELLO).body
    write(module, token=token, fail="start")
    with pytest.raises(MultiturnError, match=r"Echoes does not start: ValueError: \*\*\*$"):
        load_target("mine")


@pytest.mark.parametrize(
    ("fail", "what", "kind", "retries"),
    [
        pytest.param("vendor", "no such key ***", "http", 2, id="its own error"),
        pytest.param(
            *("bug", "M:Echoes failed at M.py:LINE: ValueError: no such key ***", "provider", 0),
            id="any other error",
        ),
        pytest.param(
            *("text", "M:Echoes returned str instead of a ProviderResponse", "provider", 0),
            id="an answer of another type",
        ),
    ],
)
def test_its_errors(module: str, fail: str, what: str, kind: str, retries: int) -> None:
    write(module, token="${{ THE_KEY }}", fail=fail)
    with pytest.raises(ProviderError) as caught:
        ask()
    error = caught.value
    said = re.sub(r"(?<=py:)\d+", "LINE", str(error).replace(module, "M"))
    assert (said, error.kind, error.retries) == (what, kind, retries)


def test_invoke_is_async(module: str) -> None:
    write(module, name="Hasty")
    with pytest.raises(ProviderError, match=f"invoke of {module}:Hasty must be async def"):
        ask()


NOT_ITS_TYPE = "an answer of the wrong form: Expected"


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"tool_calls": (Call("c1", "f", {"a": "\ud800"}),)}, "surrogates not allowed"),
        ({"tool_calls": (Call("c1", "f", {"a": object()}),)}, "type object is unsupported"),
        ({"tool_calls": "f()"}, f"{NOT_ITS_TYPE} `array`, got `str` - at `$.tool_calls`"),
        ({"thinking": object()}, "type object is unsupported"),
        ({"usage": {"input_tokens": "many"}}, f"{NOT_ITS_TYPE} `int`, got `str`"),
        ({"usage": None}, f"{NOT_ITS_TYPE} `object`, got `null` - at `$.usage`"),
        ({"text": None}, f"{NOT_ITS_TYPE} `str`, got `null` - at `$.text`"),
    ],
)
def test_an_answer_that_no_file_can_hold_is_the_error_of_its_case(
    fields: dict[str, Any], what: str
) -> None:
    class Odd:
        name = "odd"

        async def invoke(self, request: ProviderRequest) -> ProviderResponse:
            return ProviderResponse(**{"text": "Hi", "raw": object(), **fields})

    with pytest.raises(ProviderError, match="odd returned an answer") as caught:
        asyncio.run(complete(Odd()).invoke(HELLO))
    assert what in str(caught.value)
    assert caught.value.kind == "provider"


def test_a_variable_names_no_code(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIND", f"{module}:Echoes")
    Path("targets.yaml").write_text("[{name: mine, provider: '${{ KIND }}'}]")
    with pytest.raises(MultiturnError, match="there is no such provider"):
        load_target("mine")


LEAKY = """\
import sys
from multiturn import ProviderError, ProviderResponse


class Silent(Exception):
    def __init__(self, key):
        self.key = key

    def __str__(self):
        raise ValueError(self.key)


class Own(BaseException):
    pass


def fail(kind, key):
    if kind.endswith("error"):
        raise ValueError(f"bad {key}")
    if kind.endswith("exit"):
        sys.exit(key)
    if kind.endswith("silent"):
        raise Silent(key)
    if kind.endswith("own"):
        raise Own(key)


class Leaky:
    def __init__(self, *, token, fail):
        self.key, self.kind = token, fail
        self.fail("start")

    def fail(self, where):
        if self.kind.startswith(where):
            fail(self.kind, self.key)

    @property
    def accepts(self):
        self.fail("accepts")
        return ()

    async def __aenter__(self):
        self.fail("open")

    async def __aexit__(self, *error):
        self.fail("close")

    async def invoke(self, request):
        self.fail("invoke")
        if self.kind == "kind":
            raise ProviderError("no", kind=self.key, wire=self.key.encode())
        if self.kind == "place":
            raise ProviderError("no", where=self.key, case_id=self.key)
        if self.kind == "what":
            raise ProviderError([self.key])
        return ProviderResponse(
            text="Hello",
            finish_reason=f"because of {self.key}",
            usage={f"tokens of {self.key}": 3},
            raw=({self.key: (self.key,)},),
            wire=self.key.encode(),
        )
"""


@pytest.mark.parametrize(
    "fail",
    [
        *(f"{where} {how}" for where in ("start", "accepts", "open", "close", "invoke")
          for how in ("error", "exit", "silent", "own")),
        *("kind", "place", "what", "nothing"),
    ],
)  # fmt: skip
def test_a_key_is_in_no_output_of_a_command(module: str, fail: str) -> None:
    Path(f"{module}.py").write_text(LEAKY)
    write(module, name="Leaky", token="${{ THE_KEY }}", fail=fail)
    write_suite(Path(), ["Hello"])
    arguments = ("run", "a.eval.yaml", "--target", "mine", "--record-wire", "--output", "out.jsonl")
    done = commands.run(*arguments, folder=Path.cwd())
    results = Path("out.jsonl").read_text() if Path("out.jsonl").exists() else ""
    assert KEY not in done.stdout + done.stderr + results
    where, _, how = fail.partition(" ")
    said = {"error": "ValueError: bad ***", "exit": "SystemExit: ***", "own": "Own: ***"}
    if how:
        text = said.get(how, "Silent: its text cannot be shown")
        line = f"{module}:Leaky {WORDS[where]}"
        assert re.search(rf"{line}[^:]*(:\d+)?: {re.escape(text)}\n", done.stderr)
        assert "Traceback" not in done.stderr
        assert done.returncode == (1 if where == "invoke" else 2)
    if fail == "nothing":
        [result] = records(results)
        assert result["finish_reason"] == "because of ***"
        assert (result["usage"], result["wire"]) == ({"tokens of ***": 3}, "***")


WORDS = {
    **dict.fromkeys(("start", "accepts"), "does not start"),
    "open": "does not open",
    "close": "does not close",
    "invoke": "failed at",
}
