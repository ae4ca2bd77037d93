"""The action for GitHub, action.yml: each of its steps is run by Bash, as a runner does."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from repositories import TONE, commit, git, replace
from test_comments import BOT, ROOT, Forge, forge, loaded

__all__ = ["forge"]  # a fixture


def test_the_steps_check_report_comment_once_and_compare_snapshots(
    repository: Path, forge: Forge
) -> None:
    command = (sys.executable, "-m", "multiturn", "snapshot", "evals")
    subprocess.run(command, cwd=repository, check=True, capture_output=True)
    commit(repository)
    git(repository, "checkout", "-q", "-b", "change")
    replace(repository, TONE, "Two.", "Only two.")
    commit(repository)
    git(repository, "checkout", "-q", "main")
    git(repository, "merge", "-q", "--no-ff", "change", "-m", "the merge of the pull request")
    codes, said = steps(repository, forge)
    assert codes == {"install": 0, "check": 0, "report": 0, "comment": 0, "snapshot": 1}
    assert f"file={TONE},line=2::change of privilege: {TONE} changed" in said["snapshot"]
    (comment,) = forge.bodies(BOT)
    assert comment.startswith("<!-- multiturn ./evals -->\n## 2 cases changed")
    assert (repository.parent / "summary").read_text() == comment.partition("\n")[2]
    replace(repository, TONE, "Only two.", "Only three.")
    steps(repository, forge, "report", "comment")
    (comment,) = forge.bodies(BOT)  # the same one, edited
    assert "Only three." in comment


def test_each_project_has_a_comment_that_an_app_edits_and_no_imitation(
    repository: Path, forge: Forge
) -> None:
    forge.owner = "an-app[bot]"
    marker = "<!-- multiturn shop/evals -->"
    imitations = [(name, f"{marker}\nno change") for name in ("ada", "an-app", BOT)]
    for name, body in imitations:
        forge.add(name, body)
    replace(repository, TONE, "Two.", "Only two.")
    for name in ("shop", "bank"):
        shutil.copytree(repository / "evals", repository / name / "evals")
    commit(repository)
    for name in ("shop", "bank", "shop"):
        codes, _ = steps(repository, forge, "report", "comment", folder=name)
        assert codes == {"report": 0, "comment": 0}
    assert [(each["user"]["login"], each["body"]) for each in forge.comments[:3]] == imitations
    shop, bank = forge.bodies("an-app[bot]")
    assert shop.startswith(f"{marker}\n## 3 cases added")
    assert "shop/evals" in shop
    assert bank.startswith("<!-- multiturn bank/evals -->\n## 3 cases added")
    assert "bank/evals" in bank


def test_a_report_that_fails_is_no_comment_of_another_project(
    repository: Path, forge: Forge
) -> None:
    commit(repository)
    steps(repository, forge, "report", "comment")
    (comment,) = forge.bodies(BOT)
    (repository / "bank").mkdir()
    codes, said = steps(repository, forge, "report", "comment", folder="bank")
    assert codes == {"report": 1, "comment": 1}
    assert "no suite" in said["report"]
    assert forge.bodies(BOT) == [comment]


def steps(
    repository: Path, forge: Forge, *names: str, folder: str = "."
) -> tuple[dict[str, int], dict[str, str]]:
    """Run each step, or some, and return its exit code and what it says, by name."""
    action = loaded("action.yml")
    known = {f"inputs.{key}": each["default"] for key, each in action["inputs"].items()}
    known["inputs.folder"] = folder
    known |= {"github.token": "token", "github.event.pull_request.number": "7"}
    scripts = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join((scripts, os.environ["PATH"])),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_API_URL": forge.url,
        "GITHUB_GRAPHQL_URL": f"{forge.url}/graphql",
        "GITHUB_REPOSITORY": "g/p",
        "GITHUB_STEP_SUMMARY": str(repository.parent / "summary"),
        "RUNNER_TEMP": str(repository.parent),
        # It is installed: pip only resolves it, and builds nothing that needs a network.
        **{f"PIP_{name}": "1" for name in ("DRY_RUN", "NO_DEPS", "NO_INDEX")},
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this one the other way round
    }
    codes, said = {}, {}
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        if names and step["name"] not in names:
            continue
        given = {key: filled(text, known) for key, text in step.get("env", {}).items()}
        done = subprocess.run(
            ("bash", "-e", "-o", "pipefail", "-c", step["run"]),
            cwd=repository / filled(step.get("working-directory", "."), known),
            env={**environment, **given},
            capture_output=True,
            text=True,
        )
        codes[step["name"]] = done.returncode
        said[step["name"]] = done.stdout + done.stderr
    return codes, said


def filled(text: str, known: dict[str, str]) -> str:
    """Return a text with the values of its expressions, of which each must be known."""
    while match := re.search(r"\$\{\{ (.+?) \}\}", text):
        text = text.replace(match[0], known[match[1]])
    return text


def test_only_the_step_of_the_comment_gets_the_token_and_none_is_filled_into_a_script() -> None:
    found = loaded("action.yml")["runs"]["steps"]
    assert [step["name"] for step in found if "TOKEN" in step.get("env", {})] == ["comment"]
    assert all("${{" not in step["run"] for step in found)
    (comment,) = (step for step in found if step["name"] == "comment")
    assert "head.repo.full_name == github.repository" in comment["if"]
