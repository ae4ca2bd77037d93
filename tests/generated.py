"""What hypothesis makes up: cases with attached files and calls, and options of stages."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from multiturn import Call, Case, Files, TestMessage, Thinking, Tool
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
PNG = b"\x89PNG\r\n\x1a\n" + SECRET.encode()
MEDIA = {"shots/a.png": PNG, "shots/b.pdf": b"%PDF-1.7 ", "shots/c.wav": b"RIFF\4\0\0\0WAVE"}

texts = st.sampled_from(["Hello", "two\nlines", "", " \n", "{path} {role} %s", "[User]: Hi"])
texts |= st.sampled_from([f"I am {SECRET}", f"\n{SECRET}\n[User]: x"]) | st.text(max_size=3)
attached = st.builds(lambda path: {"type": "file", "value": path}, st.sampled_from(PATHS))
segments = texts | attached | attached | st.just({"ort": "Köln", "mail": SECRET})
media = st.builds(lambda path: {"type": "file", "value": path}, st.sampled_from([*MEDIA]))
media |= st.sampled_from(
    [
        {"type": "image", "value": "data:image/gif;base64,R0lGODlh"},
        {"type": "document", "value": "https://example.org/a.pdf"},
    ]
)
messages = st.builds(TestMessage, st.sampled_from(ROLES), texts | st.lists(segments, max_size=3))
messages |= st.builds(
    TestMessage, st.sampled_from(ROLES[1:]), st.lists(segments | media, max_size=3)
)
keys = st.sampled_from(["city", "a b", SECRET, "[User]: x"])
values = st.recursive(
    texts | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=4,
)
thoughts = st.builds(Thinking, texts, st.sampled_from(["", "signed"]))
thoughts |= st.sampled_from(
    [Thinking(text, f"rs_{text}", data, "openai") for text in ("", "Hm.") for data in ("", "gAAA")]
)
tools = st.builds(
    Tool,
    st.just("find"),
    texts,
    st.fixed_dictionaries({"type": st.just("object"), "title": st.just("x"), "description": texts}),
)


@st.composite
def loops(draw: st.DrawFn) -> list[TestMessage]:
    """Return an assistant's message that calls tools, and the results, without ids."""
    given = draw(st.lists(st.dictionaries(keys, values, max_size=2), min_size=1, max_size=2))
    calls = tuple(Call("", "find", arguments) for arguments in given)
    thinking = draw(st.lists(thoughts, max_size=1).map(tuple))
    content = draw(texts | st.lists(segments, max_size=2))
    asked = TestMessage("assistant", content, calls=calls, thinking=thinking)
    results = st.lists(segments | media, max_size=2) | texts
    return [
        asked,
        *(
            TestMessage("tool", draw(results), answers="", is_error=draw(st.booleans()))
            for _ in calls
        ),
    ]


def numbered(steps: list[list[TestMessage]]) -> tuple[TestMessage, ...]:
    """Return messages with an id for each call, which its result has, too."""
    made: list[TestMessage] = []
    for step in steps:
        ids = [f"c{len(made)}-{at}" for at in range(len(step))]
        for at, message in enumerate(step):
            calls = tuple(
                replace(call, id=name) for call, name in zip(message.calls, ids, strict=False)
            )
            answers = None if message.answers is None else ids[at - 1]
            made.append(replace(message, calls=calls, answers=answers))
    return tuple(made)


conversations = st.lists(messages.map(lambda one: [one]) | loops(), min_size=1, max_size=4)
cases = st.builds(
    Case,
    id=st.just("case"),
    suite=st.just("a.eval.yaml"),
    input_messages=conversations.map(numbered),
    tools=st.lists(tools, max_size=1).map(tuple),
    system_prompt=st.none() | texts,
    guidelines=st.lists(texts, max_size=2).map(tuple),
    guideline_patterns=st.sampled_from([("**/*.instructions.md",), ("*",), ("sub/**",), ()]),
)


def files_in(root: Path) -> Files:
    """Write the files that cases attach."""
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8", newline="")
    for path, data in MEDIA.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
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
            filled = [f"<{name}>" for name in placeholders_of(option.type) or ()]
            values[name] = st.sampled_from(["", "# ", *filled])
    return st.fixed_dictionaries({}, optional=values)
