"""Messages can be found: a search for five of their words, as they are shown, leads to the code."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
WORDS = 5
MOST = 60
# What makes a message, and the position of its text among the arguments.
MAKERS = {"ErrorDetail": 0, "Notice": 2, "UsageError": 0}
NAMES = re.compile(r"([A-Z]\w+Error|ErrorDetail|Notice)$")


class Message(NamedTuple):
    """A place where a message is made, and the texts in the code that it is made of."""

    file: str
    line: int
    texts: tuple[str, ...]

    @property
    def is_found(self) -> bool:
        """Whether one line of the code has five words of it."""
        lines = [line for text in self.texts for line in text.split("\n")]
        return any(len(re.findall(r"[^\W\d_]+", line)) >= WORDS for line in lines)


def messages() -> Iterator[Message]:
    """Yield the messages of multiturn and its stages."""
    for path in sorted([*ROOT.glob("pipeline/**/*.py"), *ROOT.glob("stages/**/*.py")]):
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        for scope in ast.walk(tree):
            if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from in_function(scope, tree, source, str(path.relative_to(ROOT)))


def in_function(
    function: ast.FunctionDef | ast.AsyncFunctionDef, module: ast.Module, source: str, file: str
) -> Iterator[Message]:
    """Yield the messages that a function makes by itself."""
    nodes = list(inside(function))
    caught = {node.name for node in nodes if isinstance(node, ast.ExceptHandler)}
    values: dict[str, list[ast.expr]] = {}
    for node in (*module.body, *nodes):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values.setdefault(name, []).append(value)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                values.setdefault(name, []).append(value)
    for node in nodes:
        if isinstance(node, ast.Call) and (text := text_of(node)) is not None:
            texts = tuple(texts_in(text, values, source))
            is_of_other = any(name in caught for name in shown_in(text))  # it hands on its words
            if any(re.search(r"[a-z]", each) for each in texts) and not is_of_other:
                yield Message(file, node.lineno, texts)


def inside(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of functions in it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from inside(child)


def shown_in(text: ast.expr) -> Iterator[str]:
    """Yield the names of what a text shows by itself."""
    for each in ast.walk(text):
        if isinstance(each, ast.FormattedValue) and isinstance(each.value, ast.Name):
            yield each.value.id


def text_of(call: ast.Call) -> ast.expr | None:
    """Return the argument that is the text of a message; None for any other call."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    if not NAMES.match(name):
        return None
    at = MAKERS.get(name, 0)
    return call.args[at] if len(call.args) > at else None


def texts_in(node: ast.expr, values: dict[str, list[ast.expr]], source: str) -> Iterator[str]:
    """Yield the literal texts of an expression, line by line as in the code."""
    known = dict(values)
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id in known:
            for value in known.pop(each.id):
                yield from texts_in(value, known, source)
    for each in ast.walk(node):
        if isinstance(each, ast.JoinedStr | ast.Constant) and each in literals(node):
            yield "\n".join(literal_lines(segment_of(source, each)))


@cache
def lines_of(source: str) -> list[bytes]:
    return source.encode().splitlines(keepends=True)


def segment_of(source: str, node: ast.expr) -> str:
    """Return an expression as it is written; ``ast.get_source_segment`` splits all each time."""
    lines = lines_of(source)[node.lineno - 1 : node.end_lineno]
    rest = len(lines[-1]) - (node.end_col_offset or 0)
    return b"".join(lines)[node.col_offset : -rest or None].decode()


def literals(node: ast.expr) -> list[ast.expr]:
    """Return the outermost literals of text in an expression."""
    if isinstance(node, ast.JoinedStr):
        return [node]
    if isinstance(node, ast.Constant):
        return [node] if isinstance(node.value, str) else []
    return [each for child in ast.iter_child_nodes(node) for each in literals(child)]  # type: ignore[arg-type]


def literal_lines(segment: str) -> Iterator[str]:
    """Yield the literal text on each line of the code, without placeholders."""
    for line in segment.split("\n"):
        found = re.findall(r"""[rf]*"((?:[^"\\]|\\.)*)"|[rf]*'((?:[^'\\]|\\.)*)'""", line)
        yield " ".join(re.sub(r"\{[^{}]*\}", " ", "".join(text)) for text in found)


def test_a_search_for_five_words_finds_a_message() -> None:
    made = list(messages())
    lost = [f"{each.file}:{each.line}" for each in made if not each.is_found]
    assert len(made) > 400
    assert len(lost) <= MOST, "\n".join(lost)
