"""Comparing with a revision: repositories of every kind are read as they were, and left alone."""

import os
from pathlib import Path

import pytest

import commands
from comparing import data_of, run, run_process, summary, title, write
from repositories import FILES, SUITE, TONE, commit, git, replace

CASE = "evalcases: [{{id: {0}, input_messages: [{{role: user, content: {0}}}]}}]\n"


def test_what_is_on_neither_side_is_said(repository: Path) -> None:
    done = run(repository, "evls", "--against=HEAD")
    assert (done.returncode, done.stderr) == (
        2,
        "Error: there is no suite 'evls'; did you mean 'evals'?\n",
    )


def test_a_case_that_is_gone_can_be_asked_for(repository: Path) -> None:
    replace(repository, "evals/shop.eval.yaml", "id: bye", "id: farewell")
    assert ": 1 removed.\n" in summary(repository, "--case=bye")
    done = run(repository, "evals", "--against=HEAD", "--case=hi")
    assert done.returncode == 2
    assert "no case 'hi'" in done.stderr


def test_a_suite_that_cannot_be_read_now_is_not_removed(repository: Path) -> None:
    replace(repository, "evals/shop.eval.yaml", "guideline_patterns", "a: [}\nguideline_patterns")
    done = run(repository, "evals", "--format=markdown", "--against=HEAD")
    assert done.returncode == 1
    assert ": 3 failed.\n" in done.stdout
    assert done.stdout.count("it is not among the cases that can be read") == 3
    assert "removed" not in done.stdout


def test_a_suite_that_could_not_be_read_then_is_not_added(repository: Path) -> None:
    replace(repository, "evals/shop.eval.yaml", "guideline_patterns", "a: [}\nguideline_patterns")
    commit(repository)
    replace(repository, "evals/shop.eval.yaml", "a: [}\n", "")
    text = summary(repository)
    assert text.startswith(
        "## 3 cases changed; 1 cause: <code>evals/shop.eval.yaml&#58; it could not be converted"
        " before</code>\n"
    )
    assert "<code>at HEAD (" in text
    assert "evals/shop.eval.yaml&#58;1&#58;5&#58; not YAML" in text


def test_a_case_that_had_no_id_then_is_not_removed(repository: Path) -> None:
    replace(repository, "evals/shop.eval.yaml", "- id: bye", "- idd: bye")
    commit(repository)
    replace(repository, "evals/shop.eval.yaml", "- idd: bye", "- id: bye")
    text = summary(repository)
    assert ": 1 changed, 2 same.\n" in text


def test_a_link_leads_where_it_led_then(repository: Path) -> None:
    write(repository, {"a/one.eval.yaml": CASE.format("x"), "b/two.eval.yaml": CASE.format("x")})
    replace(repository, "b/two.eval.yaml", "content: x", "content: evil")
    (repository / "run.eval.yaml").symlink_to("a/one.eval.yaml")
    commit(repository)
    (repository / "run.eval.yaml").unlink()
    (repository / "run.eval.yaml").symlink_to("b/two.eval.yaml")
    done = run(repository, "run.eval.yaml", "--format=markdown", "--against=HEAD")
    assert ": 1 added, 1 removed.\n" in done.stdout


def test_an_absolute_link_inside_the_repository_stays_inside(repository: Path) -> None:
    (repository / "evals/list.txt").unlink()
    write(repository, {"evals/real.txt": "A book: 10"})
    (repository / "evals/list.txt").symlink_to(repository / "evals/real.txt")
    commit(repository)
    assert title(repository) == "## 0 cases changed"
    write(repository, {"evals/real.txt": "A book: 12"})
    assert title(repository) == "## 1 case changed; 1 cause: <code>evals/real.txt line 1</code>"


@pytest.mark.parametrize("was", ["a link", "a file"])
def test_no_folder_is_made_outside_for_the_current_one(
    repository: Path, tmp_path: Path, was: str
) -> None:
    (tmp_path / "out").mkdir()
    if was == "a link":
        (repository / "deep").symlink_to(tmp_path / "out")
    else:
        write(repository, {"deep": "a file"})
    commit(repository)
    (repository / "deep").unlink()
    write(repository, {"deep/er/a.eval.yaml": CASE.format("a")})
    done = run(repository / "deep/er", ".", "--against=HEAD")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"Error: --against: {repository / 'deep/er'} was no folder then\n"
    assert list((tmp_path / "out").iterdir()) == []


def test_no_program_fetches_what_a_partial_clone_lacks(repository: Path, tmp_path: Path) -> None:
    replace(repository, TONE, "Two.", "Two!")
    commit(repository)
    git(repository, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", repository.as_uri(), "clone")
    clone, ran = tmp_path / "clone", tmp_path / "ran"
    git(clone, "config", "remote.origin.url", f"ext::sh -c touch% {ran}")
    git(clone, "config", "protocol.ext.allow", "always")
    done = run(clone, "evals", "--against=HEAD~1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: --against: this partial clone lacks files of that commit; git archive REV fetches"
        " them\n"
    )
    assert not ran.exists()


def test_a_relative_path_of_python_finds_this_multiturn(repository: Path) -> None:
    write(repository, {"lib/multiturn/__init__.py": "raise SystemExit('an old one')"})
    commit(repository)
    (repository / "lib/multiturn/__init__.py").unlink()
    (repository / "lib/multiturn").rmdir()
    inherited = os.environ.get("PYTHONPATH", "")
    environment = {**os.environ, "PYTHONPATH": f"lib{os.pathsep}{inherited}"}
    done = run(repository, "evals", "--format=markdown", "--against=HEAD", env=environment)
    assert (done.stderr, done.stdout.partition("\n")[0]) == ("", "## 0 cases changed")


def test_what_a_stage_prints_then_is_not_in_the_report(repository: Path) -> None:
    printed = "    print('A WORD')\n    return conversion"
    replace(repository, "house/house.py", "    return conversion", printed)
    commit(repository)
    replace(repository, "house/house.py", "    print('A WORD')\n", "")
    done = run_process(
        *(repository, "evals", "--format=markdown", "--against=HEAD"),
        "--pipeline=house/pipeline.yaml",
    )
    assert done.stdout.startswith("## 0 cases changed\n")
    assert done.stderr.count("A WORD") == 3


def test_an_error_of_then_names_no_temporary_folder(repository: Path, tmp_path: Path) -> None:
    (repository / "evals/list.txt").unlink()
    (repository / "evals/list.txt").symlink_to("../../outside.txt")
    write(repository, {"../outside.txt": "Out."})
    commit(repository)
    (repository / "evals/list.txt").unlink()
    write(repository, {"evals/list.txt": "A book: 10"})
    report = run(repository, "evals", "--against=HEAD")
    assert report.returncode == 0
    data = data_of(report.stdout)
    assert str(tmp_path / "temporary") not in data
    assert "it could not be converted before" in data


def test_only_a_shallow_clone_is_said_to_be_one(repository: Path, tmp_path: Path) -> None:
    commit(repository)
    done = run(repository, "evals", "--against=HEAD~9")
    assert done.stderr == "Error: --against: there is no commit 'HEAD~9' here\n"
    git(tmp_path, "clone", "-q", "--depth=1", repository.as_uri(), "shallow")
    done = run(tmp_path / "shallow", "evals", "--against=HEAD~1")
    assert done.stderr.endswith(" here; a shallow clone has the latest ones only\n")


def test_a_link_out_of_the_root_that_is_gone_now_is_no_obstacle(repository: Path) -> None:
    write(repository, {"../out/z.eval.yaml": SUITE})
    (repository / "evals/z.eval.yaml").symlink_to(repository / "../out/z.eval.yaml")
    commit(repository)
    (repository / "evals/z.eval.yaml").unlink()
    done = run(repository, "evals", "--format=markdown", "--against=HEAD")
    assert (done.returncode, done.stderr) == (0, "")
    assert ": 3 same.\n" in done.stdout
    assert "evals/z.eval.yaml&#58; it leads outside" in done.stdout
    assert "temporary" not in done.stdout


def test_a_suite_may_be_new_or_gone_in_its_folder(repository: Path) -> None:
    write(repository, {"new/notes.md": "None yet."})
    commit(repository)
    write(repository, {"new/a.eval.yaml": CASE.format("a")})
    (repository / "evals/shop.eval.yaml").unlink()
    for named in (["new", "evals"], ["new/a.eval.yaml", "evals/shop.eval.yaml"]):
        done = run(repository, *named, "--format=markdown", "--against=HEAD")
        assert (done.returncode, done.stderr) == (0, "")
        assert ": 1 added, 3 removed.\n" in done.stdout


def test_a_link_out_of_the_repository_is_not_followed(repository: Path, tmp_path: Path) -> None:
    write(tmp_path, {"out/shop.eval.yaml": SUITE, "out/tone.rules.md": "x", "out/list.txt": "x"})
    git(repository, "mv", "evals", "kept")
    (repository / "evals").symlink_to(tmp_path / "out")
    commit(repository)
    (repository / "evals").unlink()
    write(repository, FILES)
    done = run(repository, "evals", "--format=markdown", "--against=HEAD")
    assert (done.returncode, done.stderr) == (0, "")
    assert ": 3 added.\n" in done.stdout
    assert "evals&#58; it led out of the repository" in done.stdout


def test_git_applies_its_filters_and_runs_no_hook(repository: Path, tmp_path: Path) -> None:
    git(repository, "config", "filter.shout.clean", "tr A-Z a-z")
    git(repository, "config", "filter.shout.smudge", "tr a-z A-Z")
    write(repository, {".gitattributes": "*.txt filter=shout\n", "evals/list.txt": "A BOOK: 10\n"})
    commit(repository)
    log = tmp_path / "log"
    for name in ("post-index-change", "post-checkout", "fsmonitor"):
        write(repository, {f".git/hooks/{name}": f"#!/bin/sh\necho {name} >>'{log}'\n"})
        (repository / ".git/hooks" / name).chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(repository / ".git/hooks/fsmonitor"))
    assert title(repository) == "## 0 cases changed"
    assert not log.exists()


def test_the_environment_of_a_hook_does_not_matter(repository: Path) -> None:
    replace(repository, TONE, "Two.", "Two!")
    environment = {
        **os.environ,
        "GIT_DIR": "../.git",
        "GIT_WORK_TREE": "..",
        "GIT_INDEX_FILE": ".git/index",
    }
    arguments = ("../evals", "--format=markdown", "--against=HEAD")
    done = run(repository / "evals", *arguments, env=environment)
    assert done.stderr == ""
    assert done.stdout.startswith(f"## 2 cases changed; 1 cause: <code>{TONE} line 2</code>\n")


@pytest.mark.parametrize("command", ["report", "convert"])
def test_no_suite_is_written_over(repository: Path, command: str) -> None:
    arguments = (command, "evals", "--output", "house/../evals/shop.eval.yaml")
    done = commands.run(*arguments, folder=repository)
    assert done.returncode == 2
    assert done.stderr.endswith("evals/shop.eval.yaml' is a suite; name another file\n")
    assert (repository / "evals/shop.eval.yaml").read_text() == SUITE
