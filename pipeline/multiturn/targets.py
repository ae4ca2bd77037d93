"""Targets: the file that names providers and their settings, and what it takes from elsewhere."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from multiturn.errors import MultiturnError, did_you_mean
from multiturn.logs import logger
from multiturn.provider import SECRET_NAME, hide
from multiturn.validation import read_as
from multiturn.yaml_events import Node, read_documents

FILES = ("targets.yaml", ".agentv/targets.yaml")
DEFAULT = "echo"

_QUOTED = re.compile(r"(?<=[ &*])(?<=[&*])\S+|(?<=the tag )'[^']*'|(?<=the key )'[^']*'")
_PLACEHOLDER = re.compile(r"\$\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


class _Kind(NamedTuple):
    """A kind of provider: where its classes are, and what a target sets if it says nothing."""

    module: str
    class_name: str
    defaults: Mapping[str, Any] = {}


_KINDS = {
    "echo": _Kind("echo", "Echo"),
    "azure": _Kind("azure", "Azure"),
    "anthropic": _Kind("anthropic", "Anthropic"),
    "gemini": _Kind("gemini", "Gemini"),
    "vscode": _Kind("vscode", "VSCode"),
    "vscode-insiders": _Kind("vscode", "VSCode", {"executable": "code-insiders"}),
    "codex": _Kind("codex", "Codex"),
}
_ALIASES = {
    "azure-openai": "azure",
    "google": "gemini",
    "google-gemini": "gemini",
    "codex-cli": "codex",
}


def load_target(name: str = DEFAULT, *, file: str | None = None, near: Iterable[str] = ()) -> Any:
    """Return the provider of a target.

    Args:
        name: of the target; ``echo`` needs no file.
        file: the targets file; without it the nearest ``targets.yaml`` or
            ``.agentv/targets.yaml`` is taken.
        near: where to look for it: in these folders and all above them, then in the current one.

    Raises:
        MultiturnError: there is no such target, or its settings are not as its provider wants
            them; a variable that only another target uses may be missing.
    """
    path = Path(file) if file is not None else _find(near)
    if path is None:
        if name != DEFAULT:
            raise MultiturnError(
                f"no target {name!r}: there is no {' or '.join(FILES)} here or above;"
                f" write one, or use the target {DEFAULT!r}"
            )
        return _provider(name, DEFAULT, {"name": name, "provider": DEFAULT}, None, "")
    where = path.as_posix()
    try:
        text = path.read_bytes()
    except OSError as error:
        raise MultiturnError(f"cannot read {where!r}: {error.strerror}") from None
    nodes: dict[str, Node] = {}
    for document in _documents(text, where):
        for node in _targets(document, where):
            found = _text(node, "name", where)
            if found in nodes:
                what = f"the target {found!r} stands twice, first on line {nodes[found].line}"
                raise MultiturnError(what, where=node.place(where))
            nodes[found] = node
    if name not in nodes:
        if name == DEFAULT:
            return _provider(name, DEFAULT, {"name": name, "provider": DEFAULT}, None, where)
        raise MultiturnError(f"no target {name!r}; {did_you_mean(name, nodes)}", where=where)
    node = nodes[name]
    values = _Values(where, _environment(path))
    settings = {key: values.read(child, key) for key, child in node.children.items()}
    kind = settings["provider"] = _text(node, "provider", where)
    return _provider(name, kind, settings, node, where, values.secrets)


def _find(near: Iterable[str]) -> Path | None:
    """Return the nearest targets file."""
    for start in (*near, "."):
        folder = Path(start).absolute()
        for above in (folder, *folder.parents):
            for name in FILES:
                if (above / name).is_file():
                    return Path(os.path.relpath(above / name))
            if (above / ".git").exists():
                break
    return None


def _targets(document: Node, where: str) -> list[Node]:
    """Return the nodes of a document's targets: it is their list, or has it as ``targets``."""
    listed = document
    if isinstance(document.children, dict):
        listed = document.children.get("targets", document)
    if not isinstance(listed.children, list):
        what = 'a targets file has "targets:", a list of name, provider and settings'
        raise MultiturnError(what, where=listed.place(where))
    return listed.children


def _text(node: Node, key: str, where: str) -> str:
    """Return the text behind a key that every target has."""
    if not isinstance(node.children, dict):
        raise MultiturnError("a target is a mapping", where=node.place(where))
    child = node.children.get(key)
    if child is None or not isinstance(child.source or child.value, str):
        raise MultiturnError(f"a target has a {key}; add one", where=node.place(where))
    return child.source or str(child.value)


def _documents(text: bytes, where: str) -> Iterator[Node]:
    """Yield the documents; what may be a key is hidden in the errors of YAML, too."""
    try:
        yield from read_documents(text, where)
    except MultiturnError as error:
        raise MultiturnError(_QUOTED.sub("***", error.what), where=error.where) from None


def _environment(path: Path) -> dict[str, str]:
    """Return the environment, over the ``.env`` beside the targets file or its folder."""
    folders = [path.parent]
    if path.parent.name == ".agentv":
        folders.insert(0, path.parent.parent)
    given: dict[str, str] = {}
    for folder in folders:
        env = folder / ".env"
        if env.is_file():
            from dotenv import dotenv_values

            values = dotenv_values(env, interpolate=False)
            given.update({name: value or "" for name, value in values.items()})
    return {**given, **os.environ}


class _Values:
    """The values of a target, as text, with ``${{ NAME }}`` filled in."""

    def __init__(self, where: str, environment: Mapping[str, str]) -> None:
        self.where = where
        self.environment = environment
        self.secrets: list[str] = []

    def read(self, node: Node, label: str) -> Any:
        if isinstance(node.children, dict):
            items = node.children.items()
            return {key: self.read(child, f"{label}.{key}") for key, child in items}
        if isinstance(node.children, list):
            return [self.read(child, label) for child in node.children]
        if node.value is None:
            return None
        place = node.place(self.where, label)
        return _PLACEHOLDER.sub(
            lambda match: self.variable(match[1], place), node.source or node.value
        )

    def variable(self, name: str, place: str) -> str:
        if name not in self.environment:
            what = f"the variable {name} is not set; set it, or write it into .env"
            raise MultiturnError(what, where=place)
        value = self.environment[name]
        if SECRET_NAME.search(name):
            self.secrets.append(value)
        return value


def _provider(
    name: str,
    kind: str,
    settings: Mapping[str, Any],
    node: Node | None,
    where: str,
    secrets: Sequence[str] = (),
) -> Any:
    kind = _ALIASES.get(kind, kind)
    if kind not in _KINDS:
        what = f"target {name!r}: there is no provider {kind!r}; {did_you_mean(kind, _KINDS)}"
        raise MultiturnError(what, where=node.children["provider"].place(where) if node else where)
    module, class_name, defaults = _KINDS[kind]
    home = import_module(f"multiturn.providers.{module}")
    settings_type = getattr(home, f"{class_name}Settings")
    known = settings_type.__struct_fields__
    if node is None:
        read = settings_type(**settings)
    else:
        for key in settings.keys() - set(known):
            place = node.children[key].key_place(where)
            hint = did_you_mean(key, known)
            logger().warning("target.unknown_key", key=key, where=place, hint=hint)
        filled = structs.replace(node, value={**defaults, **settings})
        label = f"target {name!r}"
        try:
            read = read_as(filled, settings_type, where=where, label=label, strict=False)
        except MultiturnError as error:
            raise MultiturnError(hide(error.what, secrets), where=error.where) from None
    return getattr(home, f"{class_name}Provider")(read, secrets)
