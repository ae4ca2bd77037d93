"""Templates, which other tools render: multiturn takes text, and refuses them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from multiturn.documents.node import Node
from multiturn.errors import MultiturnError, quoted
from multiturn.suites.vocabulary import DEFAULTS_KEYS

_MARKS = (("{{", "}}"), ("{%", "%}"), ("{#", "#}"))
_BESIDE = ("prompts", *DEFAULTS_KEYS, "testData", "vars")

Template = tuple[Node, str]  # a text of a suite, and what in it is a template


class Braces(NamedTuple):
    """What braces mean in a suite."""

    beside: str = ""  # the key of the suite by which they are templates
    is_literal: bool = False  # the suite says that they are text
    shared: Template | None = None  # a template in what the suite gives to all cases


def braces_of(keys: Mapping[str, Node], name: str) -> Braces:
    """Return what braces mean in a suite; templates of its own are an error."""
    is_literal = "templates" in keys and keys["templates"].value == "literal"
    beside = "" if is_literal else next((key for key in _BESIDE if key in keys), "")
    shared = None if is_literal else next(_templates_in(_texts(keys)), None)
    if beside and shared is not None:
        raise _refused(shared, beside, name, "")
    return Braces(beside, is_literal, shared)


def check_case(
    braces: Braces, keys: Mapping[str, Node], has_vars: bool, name: str, label: str
) -> None:
    """Refuse a template in a case, if it has variables, or its suite says so."""
    beside = "vars" if has_vars else braces.beside
    if beside and not braces.is_literal:
        found = next(_templates_in(_texts(keys)), braces.shared)
        if found is not None:
            raise _refused(found, beside, name, label)


def template_in(text: str) -> str | None:
    """Return a template in a text, as Jinja and Nunjucks write it; None if there is none.

    >>> template_in("a {{ b }} c"), template_in("{% if x %}"), template_in("{ a }} {{")
    ('{{ b }}', '{% if x %}', None)
    """
    for start, end in _MARKS:
        first = text.find(start)
        if first >= 0 and (last := text.find(end, first + 2)) >= 0:
            return text[first : last + 2]
    return None


def _texts(keys: Mapping[str, Node]) -> Iterator[Node]:
    """Yield what a suite or a case writes that becomes prompt text."""
    for key in ("input", "input_messages", "guidelines"):
        if key in keys:
            yield keys[key]
    metadata = keys["metadata"].children if "metadata" in keys else None
    if isinstance(metadata, dict):
        yield from (metadata[key] for key in ("systemPrompt", "system_prompt") if key in metadata)


def _templates_in(nodes: Iterable[Node]) -> Iterator[Template]:
    """Yield each text below some nodes, those of keys too, that has a template."""
    for node in nodes:
        texts: Iterable[str] = ()
        below: Iterable[Node] = node.children or ()
        if isinstance(node.value, str):
            texts = [node.value]
        elif isinstance(node.children, dict):
            texts, below = node.children, node.children.values()
        for text in texts:
            if (template := template_in(text)) is not None:
                yield node, template
        yield from _templates_in(below)


def _refused(found: Template, beside: str, name: str, label: str) -> MultiturnError:
    node, template = found
    what = f"{quoted(template)} is a template beside {beside}; multiturn takes conversations, not"
    what += " templates: write the text itself, or templates: literal in the suite if the braces"
    return MultiturnError(f"{what} are text", where=node.place(name, label))
