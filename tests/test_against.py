"""``run --against``: only cases whose request is not what it was at a revision are sent."""

from pathlib import Path

import pytest

from comparing import write
from repositories import FILES, SUITE, TONE, commit, git, replace
from running import by_id, records, run

TARGETS = """\
- {name: local, provider: openai, base_url: "http://127.0.0.1:9", model: %s}
- {name: agent, provider: codex}
- {name: gem, provider: gemini, api_key: abcdef, model: gemini-2.5-flash}
"""
SHOP = "evals/shop.eval.yaml"


def sent(folder: Path, *arguments: str) -> set[str]:
    """Return the ids of the cases that are sent."""
    done = run(*(arguments or ("evals",)), "--against", "HEAD", folder=folder)
    assert done.returncode == 0
    return set(by_id(done.stdout))


@pytest.mark.parametrize(
    ("name", "old", "new", "ids"),
    [
        pytest.param(SHOP, "metadata", "# Notes\nmetadata", set(), id="a comment"),
        pytest.param(TONE, "Two.", "Two!", {"hours", "price"}, id="a guideline"),
        pytest.param(SHOP, "id: bye", "id: farewell", {"farewell"}, id="a new id"),
        pytest.param(SHOP, SUITE, SUITE[: SUITE.index("  - id: bye")], set(), id="a case less"),
    ],
)
def test_what_is_sent(repository: Path, name: str, old: str, new: str, ids: set[str]) -> None:
    replace(repository, name, old, new)
    assert sent(repository) == sent(repository / "evals", ".") == ids


def test_the_pipeline_is_that_of_each_side_and_the_target_is_todays(repository: Path) -> None:
    write(repository, {"targets.yaml": TARGETS % "old"})
    commit(repository)
    write(repository, {"targets.yaml": TARGETS % "new"})
    assert sent(repository, "evals", "--target=local", "--dry-run") == set()
    replace(repository, "house/house.py", "Ada", "Barbara")
    house = ("evals", "--pipeline=house/pipeline.yaml", "--dry-run")
    assert sent(repository, *house) == set()
    assert sent(repository, *house, "--target=agent") == {"hours", "price", "bye"}
    write(repository, {"new.yaml": "extends: spec\nconfigure: {embed_files: {header: '{path}'}}\n"})
    assert sent(repository, "evals", "--pipeline=new.yaml") == {"price"}


def test_what_could_not_be_read_then_is_sent(repository: Path) -> None:
    replace(repository, SHOP, "input_messages:\n      - {role: system", "x:\n      - {role: system")
    git(repository, "mv", "evals/list.txt", "evals/prices.txt")
    commit(repository)
    write(repository, FILES)
    assert sent(repository) == {"price", "bye"}


def test_what_the_target_would_have_refused_then_is_sent(repository: Path) -> None:
    replace(repository, SHOP, "role: user, content: Bye", "role: assistant, content: Bye")
    write(repository, {"targets.yaml": TARGETS % "m"})
    commit(repository)
    write(repository, FILES)
    assert sent(repository, "evals", "--target=gem", "--dry-run") == {"bye"}


def test_the_cases_that_are_left_out_have_no_line(repository: Path) -> None:
    left_out = "2 unchanged cases skipped (compared with HEAD)"
    replace(repository, "evals/list.txt", "10", "12")
    done = run("evals", "--against=HEAD", "--dry-run", folder=repository)
    assert [(line["id"], line["action"]) for line in records(done.stdout)] == [("price", "send")]
    assert [line for line in done.stderr.splitlines() if "input tokens" not in line] == [
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


def test_nothing_is_written_where_nothing_can_be_compared(repository: Path) -> None:
    done = run("-", "--against=HEAD", "--output=out.jsonl", folder=repository)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: --against compares files, and - is not a file\n"
    assert not (repository / "out.jsonl").exists()
