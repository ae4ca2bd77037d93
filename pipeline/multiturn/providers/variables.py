"""Variables in targets: ``${{ NAME }}`` is filled in from the environment."""

import os
import re
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from multiturn.documents.node import Node
from multiturn.errors import MultiturnError, Place
from multiturn.providers.secrets import is_secret

VARIABLE = re.compile(r"\$\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")

# a variable as a shell has it, or as a template
_UNLIKE = re.compile(r"\$(\{\w+\}|[A-Z_][A-Z\d_]+)|\{\{[^{}]*\}\}")
_APART = ("base_url", "endpoint", "headers", "env", "executable", "args", "cwd")
_UNSET = "https://variable-not-set.invalid"  # an address that nobody has, and a key that is none


def folders(path: Path) -> list[Path]:
    """Return the folder of a targets file, and before it the one that ``.agentv`` is in."""
    folder = path.parent
    return [folder.parent, folder] if folder.name == ".agentv" else [folder]


def environment(path: Path) -> dict[str, str]:
    """Return the environment, completed by the ``.env`` files next to the targets file."""
    given: dict[str, str] = {}
    for folder in folders(path):
        env = folder / ".env"
        if env.is_file():
            from dotenv import dotenv_values

            try:
                values = dotenv_values(env, interpolate=False)
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", None) or "it is not UTF-8"
                raise MultiturnError(f"cannot read it: {why}", where=env.as_posix()) from None
            given.update({name: value or "" for name, value in values.items()})
    return {**given, **os.environ}


class Values:
    """Reads the values of a target, and fills in every ``${{ NAME }}``.

    If typed, numbers, booleans and null are such; otherwise all values are text. Unless the
    provider sends, a placeholder stands for a key or an address whose variable is not set and
    that is not needed.
    """

    def __init__(
        self,
        where: str,
        environment: Mapping[str, str],
        *,
        typed: bool,
        sends: bool,
        needed: Container[str],
    ) -> None:
        self.where = where
        self.environment = environment
        self.typed = typed
        self.sends = sends
        self.needed = needed
        self.secrets: list[str] = []

    def read(self, node: Node, label: str) -> Any:
        """Return the value of a setting; the label is its name, for errors."""
        if isinstance(node.children, dict):
            items = node.children.items()
            return {key: self.read(child, f"{label}.{key}") for key, child in items}
        if isinstance(node.children, list):
            return [self.read(child, label) for child in node.children]
        if node.value is None or (self.typed and not isinstance(node.value, str)):
            return node.value
        place = node.place(self.where, label)
        written: str = node.source or node.value
        is_unlike = not self.typed and _UNLIKE.fullmatch(written)
        if is_unlike or "${{" in VARIABLE.sub("", written):
            raise MultiturnError("a variable is written as ${{ NAME }}", where=place)
        if not self.sends and label not in self.needed and shapes_no_body(label):
            unset = [name for name in VARIABLE.findall(written) if name not in self.environment]
            if unset:
                return _UNSET
        is_header = label.startswith("headers.")
        return VARIABLE.sub(
            lambda match: self.variable(match[1], place, is_hidden=is_header), written
        )

    def variable(self, name: str, place: Place, *, is_hidden: bool = False) -> str:
        """Return the value of a variable; a secret becomes that of one named like a key."""
        if name not in self.environment:
            what = f"the variable {name} is not set; set it, or write it into .env"
            raise MultiturnError(what, where=place)
        if is_hidden or is_secret(name):
            self.secrets.append(self.environment[name])
        return self.environment[name]


def shapes_no_body(label: str) -> bool:
    """Return whether a setting is a key, an address or a variable of an agent."""
    key = label.partition(".")[0]
    return is_secret(label) or key in _APART
