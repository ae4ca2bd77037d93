"""Targets: the file that names providers, and the settings of the one that is asked."""

import os
from json import loads
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from media_files import image
from multiturn import Media, MultiturnError, ProviderRequest, load_target
from multiturn.logs import Notice, warnings_to
from multiturn.providers.targets import target_names
from running import run, write_suite
from vendors import chat

AZURE = """\
targets:
  - name: t
    provider: azure
    endpoint: https://x.openai.azure.com
    api_key: ${{ THE_KEY }}
    model: gpt-x
"""
CODEX = "[{{name: t, provider: codex, executable: {}}}]"
HELLO = ProviderRequest(question="Hello")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()  # nothing above it counts
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("THE_KEY", raising=False)
    monkeypatch.setenv("FIVE", "5")
    return tmp_path


def write(text: str, file: str = "targets.yaml") -> None:
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(text)


def settings(file: str | None = None) -> Any:
    """Return the settings of the target, as they were read."""
    return load_target("t", file=file).settings


@pytest.mark.parametrize(
    ("file", "text", "env"),
    [
        pytest.param("targets.yaml", AZURE, ".env", id="a mapping with targets"),
        pytest.param("targets.yaml", AZURE.partition("\n")[2], ".env", id="a bare list"),
        pytest.param(
            *(".agentv/targets.yaml", f"$schema: agentv-targets-v2.2\n{AZURE}", ".agentv/.env"),
            id="AgentV's own file",
        ),
        pytest.param(".agentv/targets.yaml", AZURE, ".env", id="and a .env beside its folder"),
    ],
)
def test_a_target_is_found_and_its_variables(
    monkeypatch: pytest.MonkeyPatch, file: str, text: str, env: str
) -> None:
    write(text, file)
    write("# keys\nTHE_KEY='from the file'\n", env)
    with capture_logs() as logs:
        found = settings()
    assert (found.name, found.model, found.endpoint) == ("t", "gpt-x", "https://x.openai.azure.com")
    assert found.api_key == "from the file"
    assert logs == []
    monkeypatch.setenv("THE_KEY", "from the environment")
    assert settings().api_key == "from the environment"


def test_variables_in_another_encoding_are_an_error_that_names_their_file(folder: Path) -> None:
    write(AZURE, "targets.yaml")
    (folder / ".env").write_bytes(b"THE_KEY=caf\xe9\n")
    with pytest.raises(MultiturnError, match=r"^\.env: cannot read it: it is not UTF-8$"):
        settings()


def test_the_nearest_targets_file_is_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(CODEX.format("outer"))
    (folder / "evals/deep").mkdir(parents=True)
    monkeypatch.chdir(folder / "evals/deep")
    assert settings().executable == "outer"
    write(CODEX.format("inner"), "../targets.yaml")
    assert settings().executable == "inner"
    assert settings(file="../../targets.yaml").executable == "outer"


def test_a_targets_file_of_another_user_above_the_current_folder_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(CODEX.format("mine"))
    (folder / "evals").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    assert load_target("t").name == "t"
    monkeypatch.chdir(folder / "evals")
    for load in (settings, target_names):
        with pytest.raises(MultiturnError) as caught:
            load()
        assert str(caught.value) == (
            "../targets.yaml: this targets file belongs to another user;"
            " name it with file= if you trust it"
        )
    assert load_target("t", file="../targets.yaml").name == "t"


def test_nothing_above_the_repository_is_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(CODEX.format("mine"))
    (folder / "repository/.git").mkdir(parents=True)
    monkeypatch.chdir(folder / "repository")
    with pytest.raises(MultiturnError, match="no target 't'"):
        load_target("t")


def test_a_targets_file_beside_a_suite_starts_nothing(folder: Path) -> None:
    """Else who writes a suite could start programs, or have keys sent to a server of theirs."""
    write(
        "[{name: echo, provider: codex, executable: ./evil}, {name: t, provider: codex}]",
        "evals/targets.yaml",
    )
    write_suite(folder, ["Hello"], "evals/a.eval.yaml")
    done = run("evals", folder=folder)
    said = "1 answered, 0 reused, 0 failed, 0 retried; 1 sent with repairs: C9\n"
    assert (done.returncode, done.stderr) == (0, said)
    done = run("evals", "--target", "t", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no target 't'" in done.stderr


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param(
            "provider: codex, executable: 'a-${{FIVE}}-b', args: ['${{  FIVE  }}']",
            {"executable": "a-5-b", "args": ("5",)},
            id="a variable is filled in",
        ),
        pytest.param(
            "provider: echo, max_retries: '${{ FIVE }}', temperature: '${{ FIVE }}'",
            {"max_retries": 5, "temperature": 5},
            id="a variable may hold a number",
        ),
        pytest.param(
            "provider: azure, endpoint: http://e, api_key: 0123456, model: 4.10",
            {"api_key": "0123456", "model": "4.10"},
            id="text that looks like a number stays as it is written",
        ),
        pytest.param(
            "provider: openai, api_key: k, model: m",
            {"base_url": "https://api.openai.com/v1"},
            id="without a base_url it is OpenAI",
        ),
        pytest.param(
            "provider: vscode-insiders", {"executable": "code-insiders"}, id="vscode-insiders"
        ),
    ],
)
def test_the_settings_are(written: str, read: dict[str, Any]) -> None:
    write(f"[{{name: t, {written}}}]")
    found = settings()
    assert {name: getattr(found, name) for name in read} == read


def test_a_variable_that_only_another_target_needs_may_be_missing() -> None:
    write(f"{AZURE}  - {{name: other, provider: echo}}\n")
    assert load_target("other").name == "other"


@pytest.mark.parametrize(
    ("provider", "kind", "settings"),
    [
        ("azure-openai", "azure", "model: m, api_key: abcdef, endpoint: http://e"),
        ("google", "gemini", "model: m, api_key: abcdef"),
        ("google-gemini", "gemini", "model: m, api_key: abcdef"),
        ("codex-cli", "codex", "args: []"),
        ("vscode-insiders", "vscode", "args: []"),
    ],
)
def test_a_provider_has_other_names(provider: str, kind: str, settings: str) -> None:
    write(f"[{{name: t, provider: {provider}, {settings}}}]")
    assert load_target("t").wire(HELLO).provider == kind


def test_echo_needs_no_file_is_the_default_and_cannot_be_redefined() -> None:
    assert (load_target().name, load_target("echo").name) == ("echo", "echo")
    write("[{name: echo, provider: codex}]")
    assert load_target().wire(HELLO).provider == "echo"


def test_without_a_name_the_target_is_the_projects() -> None:
    write("[{name: gem, provider: gemini, api_key: abcdef, model: gemini-2.5-flash}]")
    Path("multiturn.toml").write_text('target = "gem"\n')
    assert (load_target().name, load_target("echo").name) == ("gem", "echo")
    Path("multiturn.toml").write_text('target = "gen"\n')
    with pytest.raises(MultiturnError, match=r"no target 'gen'.* \(multiturn.toml sets target\)"):
        load_target()


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("temper", "temperature"),
        ("max_tokens", "max_output_tokens"),
        ("max_completion_tokens", "max_output_tokens"),
        ("stop_sequences", "stop"),
        ("thinkingConfig", "reasoning_tokens"),
        ("extra_body", "body"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_name_and_names_body(
    key: str, near: str
) -> None:
    write(f"- {{name: t, provider: openai, api_key: abcdef, model: m,\n  {key}: 1}}")
    with pytest.raises(MultiturnError) as caught:
        load_target("t")
    assert str(caught.value) == (
        f'targets.yaml:2:3: unknown key "{key}"; did you mean "{near}"?;'
        " what only one vendor has is written in body"
    )


def test_a_target_without_a_model_has_no_body_to_name() -> None:
    write("- {name: t, provider: codex, top_p: 1}")
    with pytest.raises(MultiturnError, match='unknown key "top_p"') as caught:
        load_target("t")
    assert "body" not in str(caught.value)


SCHEMA = '{"type": "object", "properties": {"river": {"type": "string"}}}'
OPENAI = "name: t, provider: openai, api_key: abcdef, base_url: https://api.openai.com/v1"


def body_of(**given: Any) -> Any:
    return msgspec.json.decode(load_target("t").wire(chat(("user", "Hello"), **given)).body)


def test_each_setting_of_a_target_is_sent() -> None:
    write(
        f"- {{{OPENAI}, model: gpt-4o, default_system: omit, temperature: 0.5, top_p: 0.25,"
        " max_output_tokens: 64, stop: [END, STOP], seed: 3, frequency_penalty: 1,"
        " presence_penalty: -1, response_format: json, service_tier: flex,"
        " body: {logit_bias: {'50256': -100}, logprobs: true, more: [null, 1.5, '2']}}"
    )
    assert body_of() == {
        "messages": [{"role": "user", "content": "Hello"}],
        "model": "gpt-4o",
        "temperature": 0.5,
        "top_p": 0.25,
        "max_completion_tokens": 64,
        "stop": ["END", "STOP"],
        "seed": 3,
        "frequency_penalty": 1,
        "presence_penalty": -1,
        "response_format": {"type": "json_object"},
        "service_tier": "flex",
        "logit_bias": {"50256": -100},
        "logprobs": True,
        "more": [None, 1.5, "2"],
    }
    assert body_of(stop=("END",), temperature=0)["stop"] == ["END"]


@pytest.mark.parametrize("path", ["targets.yaml", ".agentv/targets.yaml"])
def test_a_schema_is_a_file_beside_the_targets_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Or beside the folder of AgentV's; from wherever it is called."""
    write(f"- {{{OPENAI}, model: gpt-4o, response_format: {{schema: forms/river.json}}}}", path)
    (folder / "forms").mkdir()
    (folder / "forms/river.json").write_text(SCHEMA)
    (folder / "evals").mkdir()
    monkeypatch.chdir(folder / "evals")
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": loads(SCHEMA)}}
    assert body_of()["response_format"] == wanted


@pytest.mark.parametrize(
    ("written", "error"),
    [
        ("stop: END", "targets.yaml:2:8: target 't': stop must be a list, not text"),
        (
            "response_format: {schema: ../river.json}",
            "targets.yaml:2:28: target 't': response_format: '../river.json' is outside the root",
        ),
        (
            "response_format: {schema: river.json}",
            "targets.yaml:2:28: target 't': response_format: no file 'river.json'",
        ),
        (
            "response_format: {scheme: river.json}",
            "targets.yaml:2:19: target 't': response_format: unknown key \"scheme\"; did you mean",
        ),
        ("body: {x: .nan}", "targets.yaml:2:8: target 't': body"),
        ("top_p: 1.5", "targets.yaml:2:9: target 't': top_p must be 1 or less"),
        (
            "verbosity: loud",
            "targets.yaml:2:13: target 't': there is no verbosity",
        ),
        (
            "default_system: You are kind.",
            "targets.yaml:2:18: target 't': there is no default_system ***; choose",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_an_error(folder: Path, written: str, error: str) -> None:
    (folder.parent / "river.json").write_text(SCHEMA)
    write(f"- {{{OPENAI}, model: gpt-4o,\n {written}}}")
    with pytest.raises(MultiturnError) as caught:
        load_target("t")
    assert str(caught.value).startswith(error)


WARM = chat(("user", "Hello"), temperature=0)
NEW = "{name: t, provider: gemini, api_key: abcdef, model: gemini-9"


def doubts() -> list[str]:
    """Return the warnings of a target that sends one request twice."""
    target, notices = load_target("t"), list[Notice]()
    with warnings_to(notices.append):
        for _ in range(2):
            target.wire(WARM)
    return [f"{notice.where}: {notice.why}" for notice in notices]


def test_what_is_not_known_of_a_model_is_said_once() -> None:
    write(f"targets:\n- {NEW}}}\n")
    assert doubts() == [
        "targets.yaml:2:3: target 't': not known whether gemini-9 takes a temperature;"
        " say model_takes: {temperature: true}, or temperature: omit"
    ]


def test_each_setting_that_is_not_known_is_said_once_for_all_cases() -> None:
    """Whatever its value; nothing is said of those that each API has, as no row refuses them."""
    write(f"- {{{OPENAI}, model: gpt-9, top_p: 0.5, stop: [END], service_tier: auto}}")
    target, notices = load_target("t"), list[Notice]()
    with warnings_to(notices.append):
        for value in (0, 0.5, 0.5):
            target.wire(chat(("user", f"Hello {value}"), temperature=value, seed=1))
    assert [notice.why for notice in notices] == [
        "not known whether gpt-9 takes a temperature; say model_takes: {temperature: true}, or"
        " temperature: omit",
        "not known whether gpt-9 takes top_p; say model_takes: {top_p: true}, or leave out top_p",
        "not known whether gpt-9 takes seed; say model_takes: {seed: true}, or leave out seed",
    ]


def test_another_server_takes_what_its_documentation_names() -> None:
    write(
        "- {name: t, provider: openai, model: qwen3, base_url: http://localhost:1234/v1,"
        " temperature: 0.5, top_p: 0.5, stop: [END], seed: 3, frequency_penalty: 1,"
        " presence_penalty: 1, response_format: json, body: {top_k: 40}}"
    )
    notices = list[Notice]()
    with warnings_to(notices.append):
        assert body_of()["top_k"] == 40
    assert notices == []


def test_a_setting_that_the_model_ignores_is_left_out() -> None:
    write(
        "- {name: t, provider: gemini, api_key: abcdef, model: gemini-3.6-flash,"
        " temperature: 0.5, top_p: 0.5, top_k: 3, seed: 4}"
    )
    wire = load_target("t").wire(HELLO)
    assert wire.repairs[1:] == (
        "G8: left out the temperature 0.5, which the model ignores",
        "G8: left out the top_p 0.5, which the model ignores",
        "G8: left out the top_k 3, which the model ignores",
    )
    assert msgspec.json.decode(wire.body)["generationConfig"] == {"seed": 4}


def test_a_row_may_hold_for_some_settings_only() -> None:
    """Temperatures of a model that does not think, or thinks little, or of which nobody knows."""
    rows = "".join(
        f"- {{names: [gpt-9], when: {{reasoning_effort: {efforts}}},"
        f" takes: {{temperature: {word}}}, source: us, seen: 2026-11-22}}\n"
        for efforts, word in (("[unset, none]", "yes"), ("[high]", "no"))
    )
    write(f"targets:\n- {{{OPENAI}, model: gpt-9, temperature: 0.5}}\nmodels:\n{rows}")
    target, notices = load_target("t"), list[Notice]()
    with warnings_to(notices.append):
        assert body_of()["temperature"] == 0.5
        assert notices == []
        with pytest.raises(MultiturnError, match="C4: a target gets only what it is said to take"):
            target.wire(chat(("user", "Hello"), reasoning_effort="high"))
        notices.clear()
        target.wire(chat(("user", "Hello"), reasoning_effort="low"))
    assert [notice.why.partition(";")[0] for notice in notices] == [
        "not known whether gpt-9 takes a temperature"
    ]


def test_a_row_that_holds_for_a_setting_that_there_is_not_is_an_error() -> None:
    row = "{names: [a], when: {effort: [low]}, takes: {seed: no}, source: us, seen: 2026-11-22}"
    write(f"targets: [{NEW}}}]\nmodels: [{row}]\n")
    with pytest.raises(MultiturnError, match="when has no 'effort'; choose from: temperature"):
        load_target("t")


def test_a_row_says_how_many_tokens_an_image_is() -> None:
    row = "image_tokens: {form: image, each: 576}, source: its card, seen: 2026-11-24"
    write(f"targets:\n- {{{OPENAI}, model: gpt-9}}\nmodels:\n- {{names: [gpt-9], {row}}}\n")
    assert load_target("t").abilities.image_tokens(Media.of(image())) == 576
    write(f"targets: [{NEW}}}]\nmodels: [{{names: [a], {row.replace('each', 'every')}}}]\n")
    with pytest.raises(MultiturnError, match='unknown key "every"; choose from: form, each'):
        load_target("t")


def test_what_sources_dispute_is_said_with_them() -> None:
    models = "".join(
        f"- {{names: [gemini-9], takes: {{temperature: {word}}},"
        f" source: {who}, seen: 2026-11-22}}\n"
        for word, who in (("yes", "Ann"), ("no", "Bob"))
    )
    write(f"targets:\n- {NEW}}}\nmodels:\n{models}")
    (said,) = doubts()
    assert "sources disagree whether gemini-9 takes a temperature (yes: Ann; no: Bob); say" in said


@pytest.mark.parametrize(
    ("settings", "models"),
    [
        pytest.param(", model_takes: {temperature: true}}", "", id="the target"),
        pytest.param("}", "takes: {temperature: yes}", id="a row of the file"),
    ],
)
def test_nothing_is_said_where_it_is_known_by(settings: str, models: str) -> None:
    row = f"- {{names: [gemini-*], {models}, source: us, seen: 2026-11-22}}\n"
    write(f"targets:\n- {NEW}{settings}\n" + (f"models:\n{row}" if models else ""))
    assert doubts() == []


def test_a_row_of_the_file_wins_over_those_that_ship() -> None:
    row = "{names: [gemini-2.5-*], takes: {temperature: no}, source: us, seen: 2026-11-22}"
    write(
        "targets: [{name: t, provider: gemini, api_key: abcdef, model: gemini-2.5-flash}]\n"
        f"models: [{row}]\n"
    )
    with pytest.raises(MultiturnError, match="set temperature: omit"):
        load_target("t").wire(WARM)


def test_a_wrong_row_is_an_error_with_its_place() -> None:
    row = "{names: [a], takes: {temperature: maybe}, source: us, seen: x}"
    write(f"targets:\n- {NEW}}}\nmodels:\n- {row}\n")
    with pytest.raises(MultiturnError, match=r"^targets\.yaml:4:") as caught:
        load_target("t")
    assert "maybe" in str(caught.value)
