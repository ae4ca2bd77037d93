"""Targets: the file that names providers, and the settings of the one that is asked."""

import os
from pathlib import Path
from typing import Any

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
CODEX = "[{name: t, provider: codex}]"
HELLO = ProviderRequest(question="Hello")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()  # nothing above it counts
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("THE_KEY", raising=False)
    return tmp_path


def write(text: str, file: str = "targets.yaml") -> None:
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(text)


def settings_of(settings: str) -> Any:
    """Return the settings of a target, as they were read."""
    write(f"[{{name: t, {settings}}}]")
    return load_target("t").settings


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
    monkeypatch: pytest.MonkeyPatch, file: str, text: str
) -> None:
    monkeypatch.setenv("THE_KEY", "k-123456")
    write(text, file)
    with capture_logs() as logs:
        provider = load_target("az")
    settings = provider.settings
    assert (provider.name, settings.endpoint) == ("az", "https://x.openai.azure.com")
    assert (settings.api_key, settings.model) == ("k-123456", "gpt-x")
    assert logs == []


def test_the_nearest_targets_file_is_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = "[{{name: t, provider: codex, executable: {}}}]"
    write(target.format("outer"))
    (folder / "evals/deep").mkdir(parents=True)
    monkeypatch.chdir(folder / "evals/deep")
    assert load_target("t").settings.executable == "outer"
    write(target.format("inner"), "../targets.yaml")
    assert load_target("t").settings.executable == "inner"
    assert load_target("t", file="../../targets.yaml").settings.executable == "outer"


def test_a_targets_file_of_another_user_above_the_current_folder_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(CODEX)
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
    write(CODEX)
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
    assert (done.returncode, done.stderr) == (0, "")
    done = run("evals", "--target", "t", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no target 't'" in done.stderr


@pytest.mark.parametrize(
    ("settings", "read"),
    [
        *(
            pytest.param(
                f"provider: codex, executable: 'a-{written}-b', args: ['{written}']",
                {"executable": "a-5-b", "args": ("5",)},
                id=written,
            )
            for written in ("${{ FIVE }}", "${{FIVE}}", "${{  FIVE  }}")
        ),
        pytest.param(
            "provider: echo, max_retries: '${{ FIVE }}', temperature: '${{ FIVE }}'",
            {"max_retries": 5, "temperature": 5},
            id="a variable may hold a number",
        ),
        pytest.param(
            "provider: azure, endpoint: e, api_key: 0123456, model: 4.10",
            {"api_key": "0123456", "model": "4.10"},
            id="text that looks like a number stays as it is written",
        ),
        pytest.param(
            "provider: vscode-insiders", {"executable": "code-insiders"}, id="vscode-insiders"
        ),
        pytest.param(
            "provider: vscode-insiders, executable: mine",
            {"executable": "mine"},
            id="vscode-insiders of another name",
        ),
    ],
)
def test_the_settings_are(
    monkeypatch: pytest.MonkeyPatch, settings: str, read: dict[str, Any]
) -> None:
    monkeypatch.setenv("FIVE", "5")
    found = settings_of(settings)
    assert {name: getattr(found, name) for name in read} == read


@pytest.mark.parametrize(
    ("file", "env"),
    [
        pytest.param("targets.yaml", ".env", id="beside the file"),
        pytest.param(".agentv/targets.yaml", ".agentv/.env", id="inside .agentv"),
        pytest.param(".agentv/targets.yaml", ".env", id="beside .agentv"),
    ],
)
def test_a_variable_is_read_from_dot_env_and_the_environment_wins(
    monkeypatch: pytest.MonkeyPatch, file: str, env: str
) -> None:
    write(AZURE, file)
    write("# keys\nTHE_KEY='from the file'\n", env)
    assert load_target("az").settings.api_key == "from the file"
    monkeypatch.setenv("THE_KEY", "from the environment")
    assert load_target("az").settings.api_key == "from the environment"


def test_both_dot_env_files_of_agentv_are_read() -> None:
    write(AZURE.replace("gpt-x", "${{ THE_MODEL }}"), ".agentv/targets.yaml")
    write("THE_MODEL=gpt-y\n", ".agentv/.env")
    write("THE_KEY=k-123456\n", ".env")
    settings = load_target("az").settings
    assert (settings.model, settings.api_key) == ("gpt-y", "k-123456")


def test_a_variable_that_only_another_target_needs_may_be_missing() -> None:
    write(f"{AZURE}  - {{name: other, provider: echo}}\n")
    assert load_target("other").name == "other"
    with pytest.raises(MultiturnError, match="THE_KEY"):
        load_target("az")


@pytest.mark.parametrize(
    ("provider", "kind", "settings"),
    [
        ("azure-openai", "azure", "model: m, api_key: abcdef, endpoint: e"),
        ("google", "gemini", "model: m, api_key: abcdef"),
        ("google-gemini", "gemini", "model: m, api_key: abcdef"),
        ("codex-cli", "codex", "args: []"),
        ("vscode-insiders", "vscode", "args: []"),
    ],
)
def test_a_provider_has_aliases(provider: str, kind: str, settings: str) -> None:
    write(f"[{{name: t, provider: {provider}, {settings}}}]")
    assert load_target("t").wire(HELLO).provider == kind


def test_echo_needs_no_file_is_the_default_and_cannot_be_redefined() -> None:
    assert (load_target().name, load_target("echo").name) == ("echo", "echo")
    write("[{name: echo, provider: codex}]")
    assert load_target().wire(HELLO).provider == "echo"


def test_an_unknown_key_is_a_warning_and_no_error() -> None:
    write("- name: t\n  provider: echo\n  temper: 0.5\n- {name: u, provider: echo, x: 1}\n")
    with capture_logs() as logs:
        assert load_target("t").name == "t"
    (log,) = logs
    assert (log["event"], log["log_level"]) == ("target.unknown_key", "warning")
    assert log["where"] == "targets.yaml:3:3"
    assert log["why"] == 'unknown key "temper"; did you mean "temperature"?'
