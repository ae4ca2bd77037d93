"""Providers of a user's own: what a targets file gives them, and what they give back."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import commands
from multiturn import MultiturnError, ProviderError, ProviderRequest, ProviderResponse, load_target
from running import records, write_suite

MODULE = """\
from multiturn import AxProvider, ProviderError, ProviderResponse

CALLS = []


class Echoes(AxProvider):
    def __init__(self, **options):
        self.options = options

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


class Crashes:
    def __init__(self, token):
        raise ValueError(token)

    async def invoke(self, request): ...
"""
HELLO = ProviderRequest(question="Hello")
count = iter(range(100))


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a new module in the current folder."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # put back what importing adds
    monkeypatch.setenv("THE_KEY", "sk-123456")
    name = f"custom_providers_{next(count)}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    return name


def write(module: str, class_: str = "Echoes", file: str = "targets.yaml", **options: Any) -> None:
    target = {"name": "mine", "provider": f"{module}:{class_}", **options}
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(json.dumps({"targets": [target]}))


def ask() -> ProviderResponse:
    async def main() -> ProviderResponse:
        async with load_target("mine") as provider:
            return await provider.invoke(HELLO)

    return asyncio.run(main())


def run(suite: str = "a.eval.yaml") -> commands.Done:
    write_suite(Path(suite).parent, ["Hello"])
    return commands.run("run", suite, "--target", "mine", folder=Path.cwd())


@pytest.mark.parametrize("file", ["targets.yaml", ".agentv/targets.yaml"])
def test_a_run_asks_it_under_the_name_of_the_target(module: str, file: str) -> None:
    write(module, file=file)
    (result,) = records(run().stdout)
    assert (result["target"], result["response"]) == ("mine", "Hello {}")
    assert result["usage"] == {"input_tokens": 3}


def test_the_settings_are_its_arguments(module: str) -> None:
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


def test_its_name_is_text_and_it_is_opened_and_closed(module: str) -> None:
    Path("targets.yaml").write_text(f"[{{name: 007, provider: '{module}:Echoes'}}]")
    assert load_target("007").name == "007"
    write(module)
    ask()
    assert __import__(module).CALLS == ["enter", "exit"]


def test_the_digest_has_the_settings_and_never_a_key(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest(key: str, **options: Any) -> str:
        monkeypatch.setenv("THE_KEY", key)
        write(module, token="${{ THE_KEY }}", **options)
        return load_target("mine").wire(HELLO).digest()

    assert digest("first-key") == digest("other-key")
    assert digest("first-key", model="a") != digest("first-key", model="b")


@pytest.mark.parametrize("token", ["${{ THE_KEY }}", "sk-123456"])
def test_a_key_comes_back_from_nowhere(module: str, token: str) -> None:
    write(module, token=token)
    answer = ask()
    assert (answer.text, answer.raw) == ("Hello {'token': '***'}", {"key": "***"})
    assert b"sk-123456" not in load_target("mine").wire(HELLO).body
    for fail, error in (
        ("vendor", ("no such key ***", "http", 2)),
        ("bug", ("ValueError: no such key ***", "provider", 0)),
    ):
        write(module, token=token, fail=fail)
        with pytest.raises(ProviderError) as caught:
            ask()
        assert (str(caught.value), caught.value.kind, caught.value.retries) == error
    write(module, "Crashes", token=token)
    with pytest.raises(MultiturnError) as crashed:
        load_target("mine")
    assert str(crashed.value).endswith("Crashes does not start: ValueError: ***")


def test_an_answer_of_another_type_is_an_error(module: str) -> None:
    write(module, fail="text")
    done = run()
    assert done.returncode == 1
    assert "TypeError: it returned str instead of a ProviderResponse" in done.stderr


def test_a_variable_names_no_code(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIND", f"{module}:Echoes")
    Path("targets.yaml").write_text("[{name: mine, provider: '${{ KIND }}'}]")
    with pytest.raises(MultiturnError, match="there is no such provider"):
        load_target("mine")


def test_a_file_beside_a_suite_names_no_code(module: str) -> None:
    """Else who writes a suite could have a module imported."""
    write(module, file="evals/targets.yaml")
    done = run("evals/a.eval.yaml")
    assert done.returncode == 2
    assert "no target 'mine'" in done.stderr
