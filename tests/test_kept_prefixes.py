"""What a change leaves of the prefix that the prompts of a suite share, for targets that cache."""

import json
from pathlib import Path

import pytest

from commands import run
from comparing import data_of, write
from repositories import commit, git, replace

# 64 letters are 15 tokens, by the weights of the estimate. The system message is 1,500, and before
# it, the mark of its role 3.17: (27 + 6 * 15 + 86) / 64. The role of the user's message, which all
# cases share as well, is 2.70: (27 + 4 * 15 + 86) / 64.
RULES = "a" * 6400
CASES = """\
guideline_patterns: ["*.rules.md"]
metadata: {systemPrompt: %s}
evalcases:
  - {id: one, input_messages: [{role: user, content: First}]}
  - {id: two, input_messages: [{role: user, content: Second}]}
  - {id: three, input_messages: [{role: user, content: Third}]}
"""
TARGETS = """\
- {name: gpt, provider: openai, model: gpt-4o, api_key: k}
- {name: plain, provider: anthropic, model: claude-sonnet-4-5, max_output_tokens: 9, api_key: k}
"""
LOST = "the shared prefix ends after 153 of 1,506 tokens now (3 cases of evals/s.eval.yaml)"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    write(tmp_path, {"evals/s.eval.yaml": CASES % RULES, "targets.yaml": TARGETS})
    commit(tmp_path)
    return tmp_path


def title(folder: Path, target: str = "gpt") -> str:
    words = ("evals", "--against", "HEAD", "--target", target, "--format", "markdown")
    done = run("report", *words, folder=folder)
    assert done.returncode == 0
    return done.stdout.partition("\n")[0]


def test_a_change_at_the_top_of_a_system_message_is_paid_in_every_request(repository: Path) -> None:
    replace(repository, "evals/s.eval.yaml", RULES, f"{RULES[:640]}b{RULES[641:]}")
    assert title(repository).endswith(f"; {LOST}")
    assert "prefix" not in title(repository, "plain")  # it caches only if the target asks for it
    words = ("evals", "--against", "HEAD", "--target", "gpt", "--output", "r.html")
    assert run("report", *words, folder=repository).returncode == 0
    (head,) = data_of((repository / "r.html").read_text()).splitlines()[-1:]
    assert json.loads(head)["growth"] == LOST


def test_a_guideline_in_the_middle_leaves_what_is_above_it(repository: Path) -> None:
    suite = repository / "evals/s.eval.yaml"
    suite.write_text(
        suite.read_text().replace("content: ", "content: [{type: file, value: z.rules.md}, ")
    )
    suite.write_text(suite.read_text().replace("}]}\n", "]}]}\n"))
    (repository / "evals/z.rules.md").write_text("a" * 64)
    commit(repository)
    (repository / "evals/z.rules.md").write_text("b" * 64)
    # The heading of the guidelines is above them.
    kept = title(repository).partition("ends after ")[2]
    assert kept.endswith(" tokens now (3 cases of evals/s.eval.yaml)")
    now, then = (int(each.replace(",", "")) for each in kept.split(" tokens")[0].split(" of "))
    assert 1503 < now < then - 15


def test_what_is_different_after_the_shared_prefix_loses_nothing(repository: Path) -> None:
    for old, new in (("First", "Fourth"), ("Second", "Seventh")):
        replace(repository, "evals/s.eval.yaml", old, new)
    assert "2 cases changed" in title(repository)
    assert "prefix" not in title(repository)


def test_a_prefix_that_is_too_short_for_the_cache_is_not_named(repository: Path) -> None:
    replace(repository, "evals/s.eval.yaml", RULES, RULES[:4000])
    commit(repository)
    replace(repository, "evals/s.eval.yaml", RULES[:4000], f"b{RULES[1:4000]}")
    assert "3 cases changed" in title(repository)
    assert "prefix" not in title(repository)
