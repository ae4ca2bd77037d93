"""Targets: the file that names providers, and the settings of the one that is asked."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from multiturn import MultiturnError, ProviderRequest, load_target
from multiturn.providers.targets import target_names
from running import run, write_suite

AZURE = """\
targets:
  - name: az
    provider: azure
    endpoint: https://x.openai.azure.com
    api_key: ${{ THE_KEY }}
    model: gpt-x
"""
Write = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()  # nothing above it counts
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("THE_KEY", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param("targets.yaml", AZURE, id="a mapping with targets"),
        pytest.param("targets.yaml", AZURE.partition("\n")[2], id="a bare list"),
        pytest.param(
            ".agentv/targets.yaml",
            f"$schema: agentv-targets-v2.2\n{AZURE}",
            id="AgentV's own file",
        ),
    ],
)
def test_a_target_is_found_by_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str
) -> None:
    monkeypatch.setenv("THE_KEY", "k-123456")
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(text)
    with capture_logs() as logs:
        provider = load_target("az")
    assert provider.name == "az"
    assert provider.settings.endpoint == "https://x.openai.azure.com"
    assert provider.settings.api_key == "k-123456"
    assert provider.settings.model == "gpt-x"
    assert logs == []


def test_the_nearest_targets_file_is_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = "[{{name: t, provider: codex, executable: {}}}]"
    (folder / "evals/deep").mkdir(parents=True)
    (folder / "targets.yaml").write_text(target.format("outer"))
    monkeypatch.chdir(folder / "evals/deep")
    assert load_target("t").settings.executable == "outer"
    (folder / "evals/targets.yaml").write_text(target.format("inner"))
    assert load_target("t").settings.executable == "inner"
    assert load_target("t", file="../../targets.yaml").settings.executable == "outer"


def test_a_targets_file_of_another_user_above_the_current_folder_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "targets.yaml").write_text("[{name: t, provider: codex}]")
    (folder / "evals").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    assert load_target("t").name == "t"
    monkeypatch.chdir(folder / "evals")
    for load in (lambda: load_target("t"), target_names):
        with pytest.raises(MultiturnError) as caught:
            load()
        assert str(caught.value) == (
            "../targets.yaml: this targets file belongs to another user;"
            " name it with --targets if you trust it"
        )
    assert load_target("t", file="../targets.yaml").name == "t"


def test_nothing_above_the_repository_is_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "repository/.git").mkdir(parents=True)
    (folder / "targets.yaml").write_text("[{name: t, provider: codex}]")
    monkeypatch.chdir(folder / "repository")
    with pytest.raises(MultiturnError, match="no target 't'"):
        load_target("t")


def test_a_targets_file_beside_a_suite_starts_nothing(folder: Path) -> None:
    """Else who writes a suite could start programs, or have keys sent to a server of theirs."""
    (folder / "evals").mkdir()
    (folder / "evals/targets.yaml").write_text(
        "[{name: echo, provider: codex, executable: ./evil}, {name: t, provider: codex}]"
    )
    write_suite(folder, ["Hello"], "evals/a.eval.yaml")
    done = run("evals", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    done = run("evals", "--target", "t", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no target 't'" in done.stderr


@pytest.mark.parametrize("written", ["${{ WORD }}", "${{WORD}}", "${{  WORD  }}"])
def test_a_variable_is_read_from_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setenv("WORD", "one")
    (folder / "targets.yaml").write_text(
        f"[{{name: t, provider: codex, executable: 'a-{written}-b', args: ['{written}']}}]"
    )
    settings = load_target("t").settings
    assert settings.executable == "a-one-b"
    assert list(settings.args) == ["one"]


def test_a_variable_may_hold_a_number(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIES", "5")
    monkeypatch.setenv("HEAT", "0")
    (folder / "targets.yaml").write_text(
        "[{name: t, provider: echo, max_retries: '${{ RETRIES }}', temperature: '${{ HEAT }}'}]"
    )
    assert load_target("t").settings.max_retries == 5
    assert load_target("t").settings.temperature == 0


def test_text_that_looks_like_a_number_stays_as_it_is_written(folder: Path) -> None:
    (folder / "targets.yaml").write_text(
        "[{name: 007, provider: azure, endpoint: e, api_key: 0123456, model: 4.10}]"
    )
    settings = load_target("007").settings
    assert (settings.api_key, settings.model) == ("0123456", "4.10")


@pytest.mark.parametrize(
    ("file", "env"),
    [
        pytest.param("targets.yaml", ".env", id="beside the file"),
        pytest.param(".agentv/targets.yaml", ".agentv/.env", id="inside .agentv"),
        pytest.param(".agentv/targets.yaml", ".env", id="beside .agentv"),
    ],
)
def test_a_variable_is_read_from_dot_env_and_the_environment_wins(
    folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, env: str
) -> None:
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(AZURE)
    (folder / env).write_text("# keys\nTHE_KEY='from the file'\n")
    assert load_target("az").settings.api_key == "from the file"
    monkeypatch.setenv("THE_KEY", "from the environment")
    assert load_target("az").settings.api_key == "from the environment"


def test_both_dot_env_files_of_agentv_are_read(folder: Path) -> None:
    (folder / ".agentv").mkdir()
    (folder / ".agentv/targets.yaml").write_text(AZURE.replace("gpt-x", "${{ THE_MODEL }}"))
    (folder / ".agentv/.env").write_text("THE_MODEL=gpt-y\n")
    (folder / ".env").write_text("THE_KEY=k-123456\n")
    settings = load_target("az").settings
    assert (settings.model, settings.api_key) == ("gpt-y", "k-123456")


def test_a_variable_that_only_another_target_needs_may_be_missing(folder: Path) -> None:
    (folder / "targets.yaml").write_text(f"{AZURE}  - {{name: other, provider: echo}}\n")
    assert load_target("other").name == "other"
    with pytest.raises(MultiturnError, match="THE_KEY"):
        load_target("az")


@pytest.mark.parametrize(
    ("provider", "kind", "settings"),
    [
        pytest.param("azure-openai", "azure", "model: m, api_key: abcdef, endpoint: e", id="azure"),
        pytest.param("google", "gemini", "model: m, api_key: abcdef", id="google"),
        pytest.param("google-gemini", "gemini", "model: m, api_key: abcdef", id="google-gemini"),
        pytest.param("codex-cli", "codex", "args: []", id="codex-cli"),
        pytest.param("vscode-insiders", "vscode", "args: []", id="vscode-insiders"),
    ],
)
def test_a_provider_has_aliases(folder: Path, provider: str, kind: str, settings: str) -> None:
    (folder / "targets.yaml").write_text(f"[{{name: t, provider: {provider}, {settings}}}]")
    request = ProviderRequest(question="Hello")
    assert load_target("t").wire(request).provider == kind


@pytest.mark.parametrize(
    ("more", "executable"),
    [
        pytest.param("", "code-insiders", id="by itself"),
        pytest.param(", executable: mine", "mine", id="unless told otherwise"),
    ],
)
def test_vscode_insiders_starts_code_insiders(folder: Path, more: str, executable: str) -> None:
    (folder / "targets.yaml").write_text(f"[{{name: t, provider: vscode-insiders{more}}}]")
    assert load_target("t").settings.executable == executable


def test_echo_needs_no_file_and_is_the_default(folder: Path) -> None:
    assert load_target().name == "echo"
    assert load_target("echo").name == "echo"
    (folder / "targets.yaml").write_text(AZURE)
    assert load_target().name == "echo"


def test_no_other_target_may_be_called_echo(folder: Path) -> None:
    (folder / "targets.yaml").write_text("[{name: echo, provider: codex}]")
    assert load_target().wire(ProviderRequest(question="Hello")).provider == "echo"


def test_a_key_that_is_nearly_one_of_the_settings_is_an_error(folder: Path) -> None:
    (folder / "targets.yaml").write_text("[{name: t, provider: codex, modle: m}]")
    with pytest.raises(MultiturnError) as caught:
        load_target("t")
    assert str(caught.value) == 'targets.yaml:1:29: unknown key "modle"; did you mean "model"?'


def test_an_unknown_key_is_a_warning_and_no_error(folder: Path) -> None:
    (folder / "targets.yaml").write_text(
        "- name: t\n  provider: echo\n  temper: 0.5\n- {name: u, provider: echo, x: 1}\n"
    )
    with capture_logs() as logs:
        assert load_target("t").name == "t"
    (log,) = logs
    assert (log["event"], log["log_level"]) == ("target.unknown_key", "warning")
    assert log["where"] == "targets.yaml:3:3"
    assert log["why"] == 'unknown key "temper"; did you mean "temperature"?'
