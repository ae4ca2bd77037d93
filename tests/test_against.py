"""``run --against``: only cases whose request is not what it was at a revision are sent."""

import os
from pathlib import Path

import pytest

from running import by_id, records, run
from test_report import FILES, SUITE, TONE, commit, git, replace, repository, write

__all__ = ["repository"]

HOUSE = ("--pipeline", "house/pipeline.yaml")
NEW = "  - {id: new, input_messages: [{role: user, content: New}]}\n"
TARGETS = """\
- {name: local, provider: openai, base_url: "http://127.0.0.1:9", model: %s}
- {name: agent, provider: codex}
"""
SHOP = "evals/shop.eval.yaml"


def sent(folder: Path, *arguments: str, code: int = 0) -> tuple[set[str], str]:
    """Return the ids of the cases that are sent, and the last line on standard error."""
    done = run(*(arguments or ("evals",)), "--against", "HEAD", folder=folder)
    assert done.returncode == code
    return set(by_id(done.stdout)), done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "old", "new", "ids", "left_out"),
    [
        pytest.param(SHOP, "metadata", "# Notes\nmetadata", set(), "3 cases", id="a comment"),
        pytest.param(TONE, "Two.", "Two!", {"hours", "price"}, "1 case", id="a guideline"),
        pytest.param("evals/list.txt", "10", "12", {"price"}, "2 cases", id="a file"),
        pytest.param(SHOP, "content: Bye", "content: Ciao", {"bye"}, "2 cases", id="a message"),
        pytest.param(SHOP, "books", "tea", {"hours", "price"}, "1 case", id="the system prompt"),
        pytest.param(SHOP, SUITE, SUITE + NEW, {"new"}, "3 cases", id="a new case"),
        pytest.param(SHOP, "id: bye", "id: farewell", {"farewell"}, "2 cases", id="a new id"),
        pytest.param(SHOP, SUITE, SUITE[: SUITE.index("  - id: bye")], set(), "2 cases", id="less"),
    ],
)
def test_what_is_sent(
    repository: Path, name: str, old: str, new: str, ids: set[str], left_out: str
) -> None:
    replace(repository, name, old, new)
    assert sent(repository) == (ids, f"{left_out} left out, whose requests are the same at HEAD")


def test_the_pipeline_is_that_of_each_side_and_the_target_is_todays(repository: Path) -> None:
    write(repository, {"targets.yaml": TARGETS % "old"})
    commit(repository)
    write(repository, {"targets.yaml": TARGETS % "new"})
    assert sent(repository, "evals", "--target=local", "--dry-run")[0] == set()
    replace(repository, "house/house.py", "Ada", "Barbara")
    agent = ("evals", *HOUSE, "--target=agent", "--dry-run")
    assert sent(repository, *agent)[0] == {"hours", "price", "bye"}
    replace(repository, "house/pipeline.yaml", "extends: spec", "extends: design")
    assert sent(repository, "evals", *HOUSE)[0] == {"bye"}
    write(repository, {"new.yaml": "extends: spec\nconfigure: {embed_files: {header: '{path}'}}\n"})
    assert sent(repository, "evals", "--pipeline=new.yaml")[0] == {"price"}
    write(repository, {"multiturn.toml": 'pipeline = "new.yaml"'})
    assert sent(repository)[0] == {"price"}


def test_what_could_not_be_read_then_is_sent(repository: Path) -> None:
    replace(repository, SHOP, "input_messages:\n      - {role: system", "x:\n      - {role: system")
    git(repository, "mv", "evals/list.txt", "evals/prices.txt")
    commit(repository)
    write(repository, FILES)
    assert sent(repository)[0] == {"price", "bye"}


def test_it_does_not_matter_from_where_and_how_suites_are_named(repository: Path) -> None:
    replace(repository, "evals/list.txt", "10", "12")
    (repository.parent / "link").symlink_to(repository)
    for folder, name in (
        (repository / "evals", "."),
        (repository / "house", "../evals/shop.eval.yaml"),
        (repository / "house", str(repository.parent / "link/evals")),
        (repository.parent / "link", "./evals"),
    ):
        assert sent(folder, name)[0] == {"price"}


def test_the_cases_that_are_left_out_have_no_line(repository: Path) -> None:
    left_out = "2 cases left out, whose requests are the same at HEAD"
    replace(repository, "evals/list.txt", "10", "12")
    done = run("evals", "--against=HEAD", "--dry-run", folder=repository)
    assert [(line["id"], line["action"]) for line in records(done.stdout)] == [("price", "send")]
    assert done.stderr.splitlines() == [
        "1 to send, 0 to reuse, 0 refused; nothing was sent",
        left_out,
    ]
    arguments = ("evals", "--against=HEAD", "--output=out.jsonl")
    for resume, counts in (((), "1 answered, 0 reused"), (("--resume",), "0 answered, 1 reused")):
        done = run(*arguments, *resume, folder=repository)
        assert list(by_id(repository / "out.jsonl")) == ["price"]
        assert done.stderr.splitlines() == [
            f"{counts}, 0 failed, 0 retried: out.jsonl",
            left_out,
        ]
    replace(repository, "evals/list.txt", "12", "14")
    done = run(*arguments, "--resume", "--dry-run", folder=repository)
    assert [(line["id"], line["action"]) for line in records(done.stdout)] == [("price", "send")]


def test_a_case_that_fails_is_a_failure_as_ever(repository: Path) -> None:
    replace(repository, SHOP, "{role: user, content: Bye}", "{role: usr, content: Bye}")
    commit(repository)
    done = run("evals", "--against=HEAD", "--output=out.jsonl", folder=repository)
    assert (done.returncode, list(by_id(repository / "out.jsonl"))) == (1, ["bye"])


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("evals", "--against=nope"), "--against: there is no commit 'nope' here"),
        (("-", "--against=HEAD"), "--against compares files, and - is not a file"),
        (("../other.eval.yaml", "--against=HEAD"), "is outside the repository"),
    ],
)
def test_what_cannot_be_compared(repository: Path, arguments: tuple[str, ...], what: str) -> None:
    write(repository.parent, {"other.eval.yaml": SUITE, "tone.rules.md": "", "list.txt": ""})
    done = run(*arguments, "--output=out.jsonl", folder=repository)
    assert (done.returncode, done.stdout) == (2, "")
    assert what in done.stderr
    assert os.path.exists(repository / "out.jsonl") is False
