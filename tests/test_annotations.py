"""Annotations of a pull request of ten kinds of edits lie on lines that it changes."""

import re
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe

from browser import Reader
from commands import run
from comparing import write
from repositories import commit, git, replace

SHOP = """\
guideline_patterns: ["*.rules.md"]
metadata:
  systemPrompt: |
    You sell books.
    Be polite.
execution:
  temperature: 0.5
tools:
  - name: find
    description: Find a book.
    inputSchema: {type: object}
evalcases:
  - id: hours
    input_messages:
      - role: user
        content:
          - {type: file, value: tone.rules.md}
          - When do you open?
  - id: price
    input_messages:
      - role: user
        content: |-
          Hello.
          What does it cost?
"""
BACK = """\
guideline_patterns: ["*.rules.md"]
evalcases:
  - id: return
    input_messages:
      - {role: user, content: [{type: file, value: back.instructions.md}, May I?]}
  - id: late
    input_messages:
      - role: user
        content: Obey the customer.
      - role: user
        content: I am late.
  - id: gone
    input_messages: [{role: user, content: Bye}]
  - id: files
    input_messages:
      - {role: user, content: [{type: file, value: a.txt}, {type: file, value: b.txt}]}
"""
FILES = {
    "evals/shop.eval.yaml": SHOP,
    "evals/back.eval.yaml": BACK,
    "evals/tone.rules.md": "One.\nTwo.\nThree.\n",
    "evals/back.instructions.md": "Take it back.\n",
    "evals/a.txt": "A\nB\nC\n",
    "evals/b.txt": "D\n",
    "evals/c.rules.md": "E\n",
    "pipeline.yaml": "extends: spec\nconfigure:\n  embed_files:\n    header: '=== {path} ==='\n",
    "multiturn.toml": 'pipeline = "pipeline.yaml"\n',
}
S, B = "evals/shop.eval.yaml", "evals/back.eval.yaml"
PRIVILEGES = {
    "a guideline": ("evals/tone.rules.md", "Two.", "2."),
    "a pattern": (B, '["*.rules.md"]', '["*.rules.md", "**/*.md"]'),
    "a role": (B, "role: user\n        content: Obey", "role: system\n        content: Obey"),
    "a guideline of another suite": (B, "May I?", "{type: file, value: c.rules.md}, May I?"),
    "a system prompt": (S, "Be polite.", "Be brief."),
    "a tool": (S, "Find a book.", "Find any book."),
}
OTHERS = {
    "a file": ("evals/a.txt", "B", "Bee"),
    "an option": ("pipeline.yaml", "===", "---"),
    "a message": (S, "What does", "How much does"),
    "a setting": (S, "0.5", "0.7"),
    "an attachment": (B, "May I?", "{type: file, value: b.txt}"),
    "a new case": (
        B,
        "  - id: gone",
        "  - {id: new, input_messages: [{role: user, content: Hi}]}\n  - id: gone",
    ),
}


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Return a repository whose prompts are recorded and committed."""
    git(tmp_path, "init", "-q")
    write(tmp_path, FILES)
    assert run("snapshot", "evals", folder=tmp_path).returncode == 0
    commit(tmp_path)
    return tmp_path


def changed_lines(folder: Path) -> set[tuple[str, int]]:
    """Return the lines that Git shows as new, by file."""
    found, name = set(), ""
    for line in git(folder, "diff", "-U0").splitlines():
        if line.startswith("+++ b/"):
            name = line.removeprefix("+++ b/")
        if match := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, number = int(match[1]), int(match[2] or 1)
            found |= {(name, at) for at in range(first, first + number)}
    return found


def annotations(folder: Path) -> list[tuple[tuple[str, int], str]]:
    """Return the place and the message of each annotation."""
    done = run("snapshot", "evals", "--check", "--format=github", folder=folder)
    assert done.returncode == 1
    found = []
    for line in filter(re.compile("::error").match, done.stdout.splitlines()):
        properties, _, message = line.partition("::error title=multiturn snapshot --check")[
            2
        ].partition("::")
        known = dict(each.split("=") for each in properties.split(",") if each)
        found.append(((known.get("file", ""), int(known.get("line", 0))), message))
    return found


@pytest.mark.parametrize("edit", [*PRIVILEGES, *OTHERS])
def test_an_annotation_is_beside_the_line_that_changed(recorded: Path, edit: str) -> None:
    replace(recorded, *(PRIVILEGES | OTHERS)[edit])
    found = annotations(recorded)
    assert found
    for place, message in found:
        assert place in changed_lines(recorded), message
        assert message.startswith("change of privilege") == (edit in PRIVILEGES), message


def test_of_ten_edits_at_once_each_annotation_is_beside_a_changed_line(recorded: Path) -> None:
    for edit in (PRIVILEGES | OTHERS).values():
        replace(recorded, *edit)
    found = annotations(recorded)
    places = changed_lines(recorded)
    assert len(found) == 10  # GitHub shows no more
    assert [message for place, message in found if place not in places] == []
    said = "\n".join(message for _, message in found)
    for privilege in (
        "evals/tone.rules.md changed; it is part of a system message",
        "evals/back.instructions.md is new in a system message, by the pattern '**/*.md'",
        "user text becomes system text: 'Obey the customer.'",
        "evals/c.rules.md is new in a system message, by the pattern '*.rules.md'",
        "new text in a system message: 'You sell books.\\nBe brief.'",
        "the definition of the tool find changed",
    ):
        assert f"change of privilege: {privilege}" in said


@pytest.fixture
def ten_edits(recorded: Path) -> Path:
    """Return the page of a report about the pull request."""
    for name, (file, old, new) in (PRIVILEGES | OTHERS).items():
        replace(recorded, file, old, "B" * 64 if name == "a file" else new)
    words = ("evals", "--against", "HEAD", "--output", "r.html")
    assert run("report", *words, folder=recorded).returncode == 0
    return recorded / "r.html"


SHOWN = """() => [...document.querySelectorAll("body :not(script, noscript *)")]
    .filter((part) => !part.children.length && part.getBoundingClientRect().bottom < innerHeight)
    .map((part) => part.parentElement.textContent).join("\\n")"""


def test_the_first_screen_says_what_changed_who_got_a_privilege_and_what_it_costs(
    reader: Reader, ten_edits: Path
) -> None:
    page = reader.open(ten_edits, width=1280)
    shown = page.evaluate(SHOWN)
    for text in (
        "10 differences",
        "5 cases changed, 1 added",
        "6 changes of privilege",
        "evals/back.instructions.md is new in a system message, by the pattern '**/*.md'",
        "the definition of the tool find changed in 2 cases",
        # "B", 15/64, became 64 letters, 15 tokens.
        f"evals/a.txt changed 'B' → '{'B' * 64}' in 1 case, about +15 tokens",
        "embed_files.header in pipeline.yaml:4 '=== a.txt ===' → '--- a.txt ---' in 1 case",
    ):
        assert text in shown
    assert reader.errors == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1280)])
def test_everybody_can_read_the_report(
    reader: Reader, ten_edits: Path, scheme: Literal["light", "dark"], width: int
) -> None:
    page = reader.open(ten_edits, width=width, scheme=scheme)
    page.evaluate(Axe().axe_script)
    found = "axe.run().then((found) => found.violations.map(({ id }) => id))"
    for key in ("o", "n", "j", "?"):
        page.keyboard.press(key)
        assert page.evaluate(found) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_has_no_line_is_in_the_summary(recorded: Path) -> None:
    replace(recorded, B, "  - id: gone\n    input_messages: [{role: user, content: Bye}]\n", "")
    ((place, message),) = annotations(recorded)
    assert place == ("", 0)
    assert message.startswith("removed: snapshots/evals/back/gone.yaml")
