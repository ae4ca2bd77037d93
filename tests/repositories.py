"""A repository with a suite, its guideline, and a pipeline with a stage of its own."""

import subprocess
from pathlib import Path

SUITE = """\
guideline_patterns: ["**/*.rules.md"]
metadata: {systemPrompt: You sell books.}
evalcases:
  - id: hours
    input_messages:
      - {role: user, content: [{type: file, value: tone.rules.md}, When do you open?]}
  - id: price
    input_messages:
      - {role: user, content: [{type: file, value: tone.rules.md}, {type: file, value: list.txt}]}
  - id: bye
    input_messages:
      - {role: system, content: Be kind.}
      - {role: user, content: Bye}
"""
STAGE = """\
from multiturn import Conversion, Part, stage


def signed(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return (*parts, Part("text", "Signed: Ada"))


@stage(requires={"question"}, provides={"question"})
def sign(conversion: Conversion) -> Conversion:
    \"\"\"Sign it.\"\"\"
    return conversion.edit_question(signed)
"""
FILES = {
    "evals/shop.eval.yaml": SUITE,
    "evals/tone.rules.md": "One.\nTwo.\nThree.\nFour.\nFive.\n",
    "evals/list.txt": "A book: 10\n",
    "house/pipeline.yaml": (
        "extends: spec\ninsert: [{stage: 'house:sign', after: render_question}]\n"
    ),
    "house/house.py": STAGE,
}
TONE = "evals/tone.rules.md"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ("git", *identity, *arguments)
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "--allow-empty", "-m", "a commit")


def replace(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))
