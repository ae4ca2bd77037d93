"""Targets: reading the file that names providers and their settings."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from multiturn.documents.imports import is_foreign
from multiturn.documents.input import check_path, read_small
from multiturn.documents.json_lines import node_of_given
from multiturn.documents.node import Node
from multiturn.documents.validation import check_finite, read_as
from multiturn.documents.yaml_reader import read_documents
from multiturn.errors import MultiturnError, did_you_mean, option
from multiturn.files.finding import Files
from multiturn.files.paths import above
from multiturn.model.request import PreparedRequest, ProviderRequest, message_of
from multiturn.model.settings import OTHER_NAMES, SettingsKeys, settled
from multiturn.providers.agents.codex import CodexProvider, CodexSettings
from multiturn.providers.agents.vscode import InsidersSettings, VSCodeProvider, VSCodeSettings
from multiturn.providers.anthropic.provider import AnthropicProvider, AnthropicSettings
from multiturn.providers.base import (
    ChatProvider,
    ChatSettings,
    ProviderResponse,
    Settings,
    TargetProvider,
    Wire,
)
from multiturn.providers.batch_api import BatchApi
from multiturn.providers.custom import CustomProvider, CustomSettings
from multiturn.providers.gemini.provider import GeminiProvider, GeminiSettings
from multiturn.providers.http import HttpProvider
from multiturn.providers.layout import Layout
from multiturn.providers.models import read_rows
from multiturn.providers.openai.provider import (
    AzureProvider,
    AzureSettings,
    OpenAIProvider,
    OpenAISettings,
)
from multiturn.providers.secrets import hide, is_secret

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


def _filled(
    target: Node, where: str, variables: Mapping[str, str], *, typed: bool, sends: bool
) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of a target with every ``${{ NAME }}`` filled in, and secret values.

    If typed, and in ``body``, numbers, booleans and null are such; otherwise all values are text.
    Unless the provider sends, a placeholder stands for a key or an address whose variable is not
    set and that is not needed.
    """
    secrets: list[str] = []
    kind = target.children["provider"].value
    kind = ALIASES.get(kind, kind)
    needed = KINDS[kind].provider.rules_by if kind in KINDS else ()

    def read(node: Node, label: str) -> Any:
        """Return the value of a setting; the label is its name, for errors."""
        if isinstance(node.children, dict):
            return {key: read(child, f"{label}.{key}") for key, child in node.children.items()}
        if isinstance(node.children, list):
            return [read(child, label) for child in node.children]
        is_typed = typed or label.partition(".")[0] == "body"
        place, written = node.place(where, label), node.source or node.value
        if node.is_null or not isinstance(node.value if is_typed else written, str):
            return node.value
        is_unlike = not is_typed and _UNLIKE.fullmatch(written)
        if is_unlike or "${{" in VARIABLE.sub("", written):
            raise MultiturnError("a variable is written as ${{ NAME }}", where=place)
        names = VARIABLE.findall(written)
        if unset := [name for name in names if name not in variables]:
            if not sends and label not in needed and shapes_no_body(label):
                return _UNSET
            what = f"the variable {unset[0]} is not set; set it, or write it into .env"
            raise MultiturnError(what, where=place)
        is_hidden = label.startswith("headers.")
        secrets.extend(variables[name] for name in names if is_hidden or is_secret(name))
        return VARIABLE.sub(lambda match: variables[match[1]], written)

    return {key: read(child, key) for key, child in target.children.items()}, secrets


def shapes_no_body(label: str) -> bool:
    """Return whether a setting is a key, an address or a variable of an agent."""
    key = label.partition(".")[0]
    return is_secret(label) or key in _APART


FILES = ("targets.yaml", ".agentv/targets.yaml")
DEFAULT = "echo"
_MAX_FILE = 10_000_000

_QUOTED = re.compile(r"(?<=[&*])\S+|(?<=the tag )'[^']*'|(?<=the key )'[^']*'")


class EchoProvider(ChatProvider):
    """Answers with the messages that an LLM API would get, as JSON; of media, with the digest."""

    kind = "echo"

    def prepared(self, layout: Layout, request: ProviderRequest) -> PreparedRequest:
        """Return the tools, and leave the messages unchanged."""
        layout.want_turns("C1")
        return PreparedRequest(messages=(), tools=request.tools, settings=request.settings)

    def write(self, request: PreparedRequest) -> dict[str, Any]:
        """Return the messages and the tools in our own form."""
        messages = [message_of(message) for message in request.messages]
        return {"messages": messages, **({"tools": request.tools} if request.tools else {})}

    async def ask(self, wire: Wire) -> ProviderResponse:
        """Answer with the body."""
        text = wire.body.decode()
        return ProviderResponse(text=text, raw=msgspec.json.decode(text), wire=wire.body)


class Kind(NamedTuple):
    """A kind of provider."""

    provider: type[TargetProvider]
    settings: type[Settings | ChatSettings]


KINDS = {
    "echo": Kind(EchoProvider, ChatSettings),
    "openai": Kind(OpenAIProvider, OpenAISettings),
    "azure": Kind(AzureProvider, AzureSettings),
    "anthropic": Kind(AnthropicProvider, AnthropicSettings),
    "gemini": Kind(GeminiProvider, GeminiSettings),
    "codex": Kind(CodexProvider, CodexSettings),
    "vscode": Kind(VSCodeProvider, VSCodeSettings),
    "vscode-insiders": Kind(VSCodeProvider, InsidersSettings),
}
ALIASES = {
    "azure-openai": "azure",
    "google": "gemini",
    "google-gemini": "gemini",
    "codex-cli": "codex",
}


def find_target(
    name: str | Mapping[str, Any], *, file: str | None = None, sends: bool = True
) -> TargetProvider:
    """Return the provider of a target, as ``load_target`` does; it looks for no defaults."""
    if isinstance(name, Mapping):
        node = node_of_given({"name": name.get("provider", ""), **name})
        read_as(node, _Named, where="")
        return _described(node, Path(), os.environ, sends=sends)
    if name == DEFAULT and file is None:
        return _echo()
    path = find_targets(file)
    if path is None:
        raise MultiturnError(
            f"no target {name!r}: there is no {' or '.join(FILES)} here or above;"
            f" name one with {option('targets', 'file')}, or use the target {DEFAULT!r}"
        )
    return read_target(path, name, sends=sends)


def read_target(
    path: Path, name: str, *, sends: bool, variables: Mapping[str, str] | None = None
) -> TargetProvider:
    """Return the provider of a target that a file describes, as ``load_target`` does.

    The variables are those that are set neither in the environment nor in ``.env``.
    """
    where = path.as_posix()
    documents = _documents(path)
    nodes = _nodes(documents, where)
    if name == DEFAULT:
        return _echo()
    if name not in nodes:
        raise MultiturnError(f"no target {name!r}; {did_you_mean(name, nodes)}", where=where)
    known = {**(variables or {}), **environment(path)}
    provider = _described(nodes[name], path, known, sends=sends)
    if isinstance(provider, HttpProvider):
        listed = (each.members["models"] for each in documents if "models" in each.members)
        provider.rows = tuple(row for each in listed for row in read_rows(each, where))
        provider.place = nodes[name].place(where)
    return provider


def _described(node: Node, path: Path, known: Mapping[str, str], *, sends: bool) -> TargetProvider:
    """Return the provider that a file describes; an empty path is that of a program's mapping."""
    where = path.as_posix() if path.name else ""
    kind, named = node.children["provider"].value, node.children["name"]
    settings, secrets = _filled(node, where, known, typed=":" in kind, sends=sends)
    if ":" not in kind:
        return _provider(settings, node, where, secrets)
    name = named.source or named.value  # as text
    options = {key: value for key, value in settings.items() if key not in ("name", "provider")}
    custom = CustomSettings(name=name, provider=settings["provider"], options=options)
    try:
        return CustomProvider(custom, folders(path)[0].absolute(), secrets)
    except MultiturnError as error:
        place = node.children["provider"].place(path.as_posix(), f"target {name!r}")
        raise MultiturnError(error.what, where=place) from error


def _echo() -> EchoProvider:
    return EchoProvider(ChatSettings(name=DEFAULT, provider=DEFAULT))


def target_names(file: str | None = None) -> list[str]:
    """Return the names of the targets, ``echo`` first; no variable is read."""
    path = find_targets(file)
    return [DEFAULT, *(_nodes(_documents(path), path.as_posix()) if path else ())]


def _documents(path: Path) -> list[Node]:
    """Return the documents of a targets file."""
    where = path.as_posix()
    text = read_small(str(path.absolute()), where, "a targets file", _MAX_FILE)
    try:
        return list(read_documents(text, where))
    except MultiturnError as error:  # what it quotes may be an API key
        raise MultiturnError(_QUOTED.sub("***", error.what), where=error.where) from None


class _Named(Struct):
    name: str | float  # which is read as text
    provider: str


def _nodes(documents: list[Node], where: str) -> dict[str, Node]:
    """Return the targets of a file, by name."""
    nodes: dict[str, Node] = {}
    for document in documents:
        listed = document.members.get("targets", document)
        if document.members and listed is document:
            what = f"targets are listed under targets, not under {next(iter(document.members))!r}"
            raise MultiturnError(what, where=document.place(where))
        read_as(listed, list[_Named], where=where, called=lambda path: f"targets{path}")
        for node in listed.children:
            name = node.children["name"]
            found = name.source or name.value
            if found in nodes:
                what = f"duplicate target {found!r}, first used on line {nodes[found].line}"
                raise MultiturnError(what, where=node.place(where))
            if found == DEFAULT:
                what = f"{DEFAULT!r} is the target that sends nothing; give this one another name"
                raise MultiturnError(what, where=node.place(where))
            nodes[found] = node
    return nodes


def find_targets(file: str | None) -> Path | None:
    """Return the named targets file, else the nearest; None if there is none."""
    check_path(file or "")
    if file is not None:
        return Path(file)
    folder = os.getcwd()
    for parent in above(folder):
        for name in FILES:
            if os.path.isfile(path := os.path.join(parent, name)):
                found = Path(os.path.relpath(path))
                if parent != folder and is_foreign(found):
                    what = "this targets file belongs to another user; name it with"
                    what += f" {option('targets', 'file')}"
                    raise MultiturnError(f"{what} if you trust it", where=found.as_posix())
                return found
        if os.path.exists(os.path.join(parent, ".git")):
            break
    return None


def _provider(
    settings: dict[str, Any], node: Node, where: str, secrets: Sequence[str]
) -> TargetProvider:
    """Return the provider that a target's settings describe."""
    label = f"target {settings['name']!r}"
    kind = ALIASES.get(settings["provider"], settings["provider"])
    if kind not in KINDS:
        what = f"{label}: there is no such provider; {did_you_mean(kind, KINDS)}"
        raise MultiturnError(hide(what, secrets), where=node.children["provider"].place(where))
    provider_type, settings_type = KINDS[kind]
    known = settings_type.__struct_fields__
    for key in [key for key in settings if key not in known]:
        place = node.children[key].key_place(where)
        what = f'unknown key "{key}"; {did_you_mean(OTHER_NAMES.get(key, key), known)}'
        if "body" in known:
            what += "; what only one vendor has is written in body"
        raise MultiturnError(what, where=place)
    try:
        read = read_as(node, settings_type, where=where, label=label, strict=False, filled=settings)
        if isinstance(read, SettingsKeys):
            folder = folders(Path(where))[0].absolute()
            read = settled(read, node, Files(folder, folder), where, f"{label}: ")
    except MultiturnError as error:
        others = settings.keys() - {"name", "provider", "api"}
        values = (str(settings[key]) for key in others)
        quoted = [repr(value) for value in values if value not in known and len(value) > 3]
        raise MultiturnError(hide(error.what, [*quoted, *secrets]), where=error.where) from None
    if getattr(read, "body", None):
        check_finite(node.children["body"], "body", where, label)
    provider = provider_type(read, secrets)
    for key, value in settings.items():
        # A server of one's own may take any word as its key, and often gets its own name.
        is_shown = key not in ("name", "provider") and not shapes_no_body(key)
        if is_shown and hide(value, provider.secrets) == "***":
            what = f"{label}: {key} is the same as a key, which is never shown; correct it"
            place = node.children[key].place(where)
            raise MultiturnError(hide(what, provider.secrets), where=place)
    return provider


def batches_of(provider: TargetProvider) -> BatchApi:
    """Return the Batch API of a target's provider; a MultiturnError if it has none."""
    if not provider.batch_api:
        kinds = ", ".join(kind for kind, row in KINDS.items() if row.provider.batch_api)
        what = f"the target {provider.name!r} has no batches; leave out --batch, or name a target"
        raise MultiturnError(f"{what} of one of these providers: {kinds}")
    api: BatchApi = provider.batch_api(provider)
    return api


def counter_of(provider: TargetProvider) -> HttpProvider:
    """Return the provider of a target whose vendor counts tokens; a MultiturnError if none."""
    if not isinstance(provider, HttpProvider) or not provider.counts_tokens:
        kinds = ", ".join(sorted(k for k, row in KINDS.items() if row.provider.counts_tokens))
        what = f"the vendor of the target {provider.name!r} has no endpoint that counts tokens"
        raise MultiturnError(f"{what}; those of {kinds} have one")
    return provider
