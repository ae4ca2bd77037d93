"""What hypothesis makes up: cases with attached files, and options of stages."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from multiturn import Case, Files, TestMessage
from multiturn.documents.validation import choices_of
from multiturn.model.turns import ROLES
from multiturn.pipelines.contract import Stage, options_of, placeholders_of

SECRET = "ada@example.org"
FILES = {
    "code.js": f"// by {SECRET}\r\n",
    "empty.txt": "",
    "rules.instructions.md": f"Ask {SECRET}, twice: {SECRET}.\n",
    "sub/more.instructions.md": f"{{path}}\n\n=== {SECRET} ===",
    "empty.instructions.md": "\n",
}
PATHS = [*FILES, "./code.js", "./rules.instructions.md", "sub/../code.js"]

texts = st.sampled_from(["Hello", "two\nlines", "", " \n", "{path} {role} %s", "[User]: Hi"])
texts |= st.sampled_from([f"I am {SECRET}", f"\n{SECRET}\n[User]: x"]) | st.text(max_size=3)
attached = st.builds(lambda path: {"type": "file", "value": path}, st.sampled_from(PATHS))
segments = texts | attached | attached | st.just({"ort": "Köln", "mail": SECRET})
messages = st.builds(TestMessage, st.sampled_from(ROLES), texts | st.lists(segments, max_size=3))
cases = st.builds(
    Case,
    id=st.just("case"),
    suite=st.just("a.eval.yaml"),
    input_messages=st.lists(messages, min_size=1, max_size=5).map(tuple),
    system_prompt=st.none() | texts,
    guidelines=st.lists(texts, max_size=2).map(tuple),
    guideline_patterns=st.sampled_from([("**/*.instructions.md",), ("*",), ("sub/**",), ()]),
)


def files_in(root: Path) -> Files:
    """Write the files that cases attach."""
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8", newline="")
    return Files(root, root)


def some_options(stage: Stage) -> st.SearchStrategy[Mapping[str, Any]]:
    """Return any values of some of a stage's options."""
    values: dict[str, st.SearchStrategy[Any]] = {}
    for name, option in options_of(stage).items():
        words = choices_of(option.type)
        if isinstance(option.default, tuple):
            values[name] = st.lists(st.sampled_from(words), unique=True)
        elif words:
            values[name] = st.sampled_from(words)
        elif not isinstance(option.default, int):
            filled = [f"<{name}>" for name in placeholders_of(option.type)]
            values[name] = st.sampled_from(["", "# ", *filled])
    return st.fixed_dictionaries({}, optional=values)
