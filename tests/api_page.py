"""docs/api.md: what is written there by hand, then the docstrings of the public names.

``python tests/api_page.py`` writes the second part anew.
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "docs/api.md"
MODULES = ("multiturn", "multiturn.testing", "multiturn.distributed")
SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$", re.MULTILINE)
ENTRY = re.compile(r"^    (\*{0,2}[\w.]+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


def page() -> str:
    """Return the page as it should be."""
    by_hand, begin, _ = PAGE.read_text(encoding="utf-8").partition(f"## {MODULES[0]}\n")
    assert begin, "the page has lost the heading of its second part"
    parts = [by_hand.removesuffix("\n")]
    for name in MODULES:
        module = import_module(name)
        parts.append(f"## {name}\n")
        for public in sorted(module.__all__, key=str.casefold):
            parts += entry(public, getattr(module, public))
    return "\n".join(parts)


def entry(name: str, thing: Any) -> Iterator[str]:
    """Yield what the page says of a name, and of a class's public methods."""
    yield f"### {name}\n"
    yield f"```text\n{signature(name, thing)}\n```\n"
    yield from text(thing.__doc__)
    for key, member in sorted(vars(thing).items()) if inspect.isclass(thing) else ():
        function = getattr(member, "fget", None) or getattr(member, "func", None)
        function = function or getattr(member, "__func__", member)
        if key.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        is_property = function is not member and not isinstance(member, classmethod | staticmethod)
        yield f"#### {name}.{key if is_property else signature(key, function)}\n"
        yield from text(function.__doc__)


def signature(name: str, thing: Any) -> str:
    """Return how a function or a class is called; types are in the code."""
    parameters = [
        parameter.replace(annotation=parameter.empty)
        for parameter in inspect.signature(thing).parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    written = str(inspect.Signature(parameters))
    return f"{name}{re.sub(r' at 0x[0-9a-f]+', '', written)}"


def text(docstring: str | None) -> Iterator[str]:
    """Yield a docstring as Markdown."""
    cleaned = inspect.cleandoc(docstring or "").replace("``", "`")
    parts = SECTION.split(cleaned)
    yield from prose(parts[0])
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        section, _, rest = body.strip("\n").partition("\n\n")
        items = [f"- `{key}`: {' '.join(said.split())}" for key, said in ENTRY.findall(section)]
        said = "\n".join(items) or " ".join(section.split())
        yield f"**{title}**\n\n{said}\n"
        yield from prose(rest)


def prose(paragraphs: str) -> Iterator[str]:
    for paragraph in filter(None, paragraphs.strip().split("\n\n")):
        yield f"```pycon\n{paragraph}\n```\n" if paragraph.startswith(">>>") else f"{paragraph}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
