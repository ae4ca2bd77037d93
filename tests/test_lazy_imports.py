"""What is imported only where it is needed."""

import subprocess
import sys
from pathlib import Path

from comparing import write

CONVERT = """
import sys
from multiturn import Conversion, load_pipeline, load_suite
pipeline = load_pipeline("spec")
for case in load_suite("a.eval.yaml"):
    print(pipeline(Conversion(case)).question)
print(*sorted(name for name in sys.modules if name.startswith("multiturn.providers.")))
"""
OURS = """
evalcases:
  - id: a
    input_messages:
      - {role: user, content: [Hi, {type: text, value: there}]}
      - {role: assistant, tool_calls: [{id: c1, name: now, arguments: {}}]}
      - {role: tool, tool_call_id: c1, content: noon}
"""
THEIRS = """
evalcases:
  - id: a
    input_messages: [{role: user, content: [{type: text, text: Hi}]}]
"""


def imported_for(folder: Path, suite: str) -> list[str]:
    """Return the modules of providers that converting a suite imports."""
    write(folder, {"a.eval.yaml": suite})
    done = subprocess.run(
        [sys.executable, "-c", CONVERT], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()[-1].split()


def test_a_suite_in_our_own_form_imports_no_vendor(tmp_path: Path) -> None:
    assert imported_for(tmp_path, OURS) == []


def test_one_with_the_blocks_of_vendors_imports_their_keys_only(tmp_path: Path) -> None:
    assert imported_for(tmp_path, THEIRS) == [
        *("multiturn.providers.anthropic", "multiturn.providers.anthropic.messages"),
        *("multiturn.providers.openai", "multiturn.providers.openai.chat"),
        *("multiturn.providers.reading", "multiturn.providers.settings"),
    ]
