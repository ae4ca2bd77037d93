"""Prompts with more tokens than a suite, or the project, allows."""

import json
from pathlib import Path

import pytest

from commands import run
from comparing import write

# By the weights of the estimate: a letter counts 15/64, a blank 2/64, other signs of ASCII 27/64.
# "You are a careful assistant.", which becomes the system message: (23 * 15 + 4 * 2 + 27) / 64, so
# 6. "Hello you": (8 * 15 + 2) / 64, so 2. "Hello you all": 3. A request counts 3, a message 4.
CASES = """\
evalcases:
  - {id: short, input_messages: [{role: user, content: Hello you}]}
  - {id: long, input_messages: [{role: user, content: Hello you all}]}
"""
SUITE = f"max_prompt_tokens: 19\n{CASES}"
LONG = (
    "case 'long': about 20 tokens, 6 in system messages, 3 in user messages:"
    " max_prompt_tokens is 19; shorten the prompt, or allow more"
)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"a.eval.yaml": SUITE}, id="of the suite"),
        pytest.param(
            {"a.eval.yaml": CASES, "multiturn.toml": "max_prompt_tokens = 19\n"},
            id="of the project",
        ),
        pytest.param(
            {"a.eval.yaml": SUITE, "multiturn.toml": "max_prompt_tokens = 9\n"},
            id="of the suite before the project's",
        ),
    ],
)
def test_a_longer_prompt_fails(root: Path, files: dict[str, str]) -> None:
    write(root, files)
    line = 4 - ("max" not in files["a.eval.yaml"])
    done = run("check", ".", folder=root)
    assert (done.returncode, done.stderr) == (1, f"a.eval.yaml:{line}: {LONG}\n")
    assert "without errors" not in done.stdout
    assert run("snapshot", ".", folder=root).returncode == 0  # it records what there is
    done = run("snapshot", ".", "--check", folder=root)
    assert (done.returncode, done.stderr) == (1, f"a.eval.yaml:{line}: {LONG}\n")
    assert done.stdout == "2 snapshots: 2 same; 1 failed\n"


def test_one_that_is_as_long_as_the_limit_is_right(root: Path) -> None:
    write(root, {"a.eval.yaml": SUITE.replace("19", "20")})
    for command in (["check", "."], ["snapshot", "."], ["snapshot", ".", "--check"]):
        assert run(*command, folder=root).returncode == 0


def test_many_that_are_too_long_are_one_cause(root: Path) -> None:
    long = CASES.splitlines()[-1]
    more = "\n".join(long.replace("long", f"long{at}") for at in range(5))
    write(root, {"a.eval.yaml": f"{SUITE}{more}\n"})
    done = run("check", ".", folder=root)
    *examples, rest = done.stderr.splitlines()
    assert len(examples) == 3
    assert rest.startswith("3 more errors with the same words; --debug names each: max_prompt_tok")
    done = run("check", ".", "--format", "json", folder=root)
    lines = list(map(json.loads, done.stdout.splitlines()))
    assert [line["line"] for line in lines] == [4, 5, 6, 7, 8, 9]
    assert lines[0] == {
        "severity": "error",
        "file": "a.eval.yaml",
        "line": 4,
        "column": None,
        "id": "long",
        "message": LONG,
    }


def test_what_made_it_grow_is_named_with_its_tokens(root: Path) -> None:
    suite = SUITE.replace("content: Hello you all", "content: [{type: file, value: n.txt}, Hello]")
    write(root, {"a.eval.yaml": suite.replace("19", "27"), "n.txt": "Hello you all\n"})
    assert run("snapshot", ".", folder=root).returncode == 0
    assert run("snapshot", ".", "--check", folder=root).returncode == 0
    (root / "n.txt").write_text("Hello you all\nHello you all, all of you\n")
    done = run("snapshot", ".", "--check", folder=root)
    # The file: its header, "=== n.txt ===", is (7 * 27 + 4 * 15 + 2 * 2) / 64, so 4, the line break
    # below that 86 / 64, so 1, and its text (30 * 15 + 7 * 2 + 86 + 27) / 64, so 9. With a line
    # break and "Hello", which are 161 / 64, the message is 17; with 6, and 3 + 2 * 4, that is 34.
    assert "case 'long': about 34 tokens, 14 in file n.txt, 6 in system messages" in done.stderr
    assert done.returncode == 1


def test_the_tokenizer_of_the_target_counts(root: Path) -> None:
    pytest.importorskip("bpe_openai")
    target = "- {name: gpt, provider: openai, model: gpt-4o, api_key: k}\n"
    write(root, {"a.eval.yaml": SUITE.replace("19", "1"), "targets.yaml": target})
    done = run("check", ".", "--target", "gpt", folder=root)
    assert "case 'long': 20 tokens, 6 in system messages, 3 in user" in done.stderr


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({"a.eval.yaml": SUITE.replace("19", "0")}, "max_prompt_tokens must be 1 or more"),
        (
            {"a.eval.yaml": CASES, "multiturn.toml": "max_prompt_tokens = '9'\n"},
            "multiturn.toml: max_prompt_tokens must be a number, not text",
        ),
    ],
)
def test_a_limit_is_a_number(root: Path, files: dict[str, str], error: str) -> None:
    write(root, files)
    assert error in run("check", ".", folder=root).stderr
