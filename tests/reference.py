"""The pages in docs/reference, made of the code: ``python tests/reference.py`` writes them anew.

Commands are as click has them, keys as the JSON Schemas, rules and models as their data, and the
Python API as its docstrings.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml

from multiturn.cli.group import command_line
from multiturn.cli.schemas import SCHEMAS, pipeline_schema, struct_schema
from multiturn.engine.project import Defaults
from multiturn.model.settings import SETTINGS, SettingsKeys
from multiturn.pipelines.contract import contract_of
from multiturn.pipelines.registry import find_stage, stage_names
from multiturn.providers import models, results
from multiturn.providers.anthropic import messages
from multiturn.providers.gemini import contents
from multiturn.providers.openai import chat, responses
from multiturn.providers.rules import RULES
from multiturn.providers.targets import ALIASES, KINDS
from multiturn.suites import schema

FOLDER = Path(__file__).parent.parent / "docs/reference"
MODULES = ("multiturn", "multiturn.testing", "multiturn.distributed")
SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$", re.MULTILINE)
ENTRY = re.compile(r"^    (\*{0,2}[\w.]+): (.*(?:\n {5,}.*)*)", re.MULTILINE)
Schema = dict[str, Any]


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """Return a table."""
    lines = [f"| {head} |", "|" + " --- |" * (head.count("|") + 1)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def code(words: object) -> str:
    return f"`{words}`"


# Commands


class MarkdownFormatter(click.HelpFormatter):
    """What click writes its help to; this one writes Markdown."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        self.write(f"```text\n{prog} {args}\n```\n")

    def write_text(self, text: str) -> None:
        for paragraph in text.split("\n\n"):
            self.write(f"\n{plain(paragraph)}\n")

    def write_dl(self, rows: Any, *_: Any, **__: Any) -> None:
        cells = [(code(name), plain(said)) for name, said in rows if "--help" not in name]
        if cells:
            self.write("\n" + table("option | meaning", cells))

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        self.write("" if name == "Options" else f"\n{name}:\n")
        yield

    def write_paragraph(self) -> None:
        """Paragraphs are apart already."""


def plain(text: str) -> str:
    """Return a text of help in one line, without what Markdown would take for a form."""
    return re.sub(r"([*_<\[\]\\])", r"\\\1", " ".join(text.split()))


def commands() -> Iterator[str]:
    context = click.Context(command_line, info_name="multiturn", obj="")
    for name in command_line.list_commands(context):
        yield from described(command_line, name, context)


def described(group: click.Group, name: str, above: click.Context) -> Iterator[str]:
    """Yield what the page says of a command, and of those below it."""
    command = group.get_command(above, name)
    assert command is not None
    context = click.Context(command, above, info_name=name)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            yield from described(command, each, context)
    else:
        formatter = MarkdownFormatter()
        command.format_help(context, formatter)
        yield f"## {context.command_path}\n\n{formatter.getvalue()}"


# Keys of files and of lines


def keys(properties: Mapping[str, Schema], required: Iterable[str] = ()) -> str:
    """Return a table of the keys that editors suggest."""
    return table(
        "key | values | meaning",
        (
            (
                code(name),
                values(schema) + (", required" if name in required else ""),
                re.sub(r"\bNone\b", "null", schema.get("description", "")),
            )
            for name, schema in properties.items()
            if not schema.get("doNotSuggest") and schema.get("description") != _UNUSED
        ),
    )


_UNUSED = "for other tools; not used here."
_TYPES = {"string": "text", "array": "list", "object": "mapping", "boolean": "true or false"}


def values(schema: Schema) -> str:
    """Return in words what a value may be."""
    kinds = schema.get("anyOf") or [{**schema, "type": each} for each in types_of(schema)]
    words = ", or ".join(dict.fromkeys(filter(None, map(kind_in_words, kinds))))
    default = schema.get("default")
    if isinstance(default, dict):
        return words
    return words + (f"; default {code(written(default))}" if default or default is False else "")


def types_of(schema: Schema) -> list[str | None]:
    types = schema.get("type")
    return types if isinstance(types, list) else [types]


def kind_in_words(schema: Schema) -> str:
    if "enum" in schema:
        return ", ".join(code(written(value)) for value in schema["enum"] if value is not None)
    if "$ref" in schema:
        return "mapping"
    kind = schema.get("type")
    if kind == "null":
        return ""
    if "propertyNames" in schema:
        return f"mapping of {kind_in_words(schema['propertyNames'])}"
    if kind == "array" and (inner := values(schema.get("items", {}))):
        return f"list of {inner}"
    if kind not in ("integer", "number"):
        return _TYPES.get(kind, "") if isinstance(kind, str) else ""
    least, most = schema.get("minimum"), schema.get("maximum", 1e300)
    above = schema.get("exclusiveMinimum")
    limits = f" above {above}" if above is not None else ""
    if least is not None:
        limits = f" from {least:g}" + (f" to {most:g}" if most < 1e300 else "")
    return f"{'whole ' * (kind == 'integer')}number{limits}"


def written(value: object) -> str:
    """Return a value as YAML has it."""
    return value if isinstance(value, str) else json.dumps(value)


def section(title: str, struct: Any) -> str:
    """Return the keys of a struct below a title."""
    found = struct_schema(struct)
    return f"## {title}\n\n{keys(found['properties'], found['required'])}"


def project() -> Iterator[str]:
    said = dict(re.findall(r"^    (\w+): .*  # (.*)$", inspect.getsource(Defaults), re.MULTILINE))
    properties = struct_schema(Defaults)["properties"]
    yield keys({name: {**each, "description": said[name]} for name, each in properties.items()})


def targets() -> Iterator[str]:
    schemas = {name: struct_schema(kind.settings) for name, kind in KINDS.items()}
    shown = {*SETTINGS}
    marks = {"Every target": "name", "Every API": "api_key", "Every agent": "cwd"}
    for title, mark in marks.items():
        some = [each["properties"] for each in schemas.values() if mark in each["properties"]]
        shared = {
            key: each
            for key, each in some[0].items()
            if key not in shown and all(other.get(key) == each for other in some)
        }
        yield f"## {title}\n\n{keys(shared, ('name', 'provider', 'model'))}"
        shown |= {*shared}
    for name, found in schemas.items():
        own = {key: each for key, each in found["properties"].items() if key not in shown}
        also = [code(alias) for alias, meant in ALIASES.items() if meant == name]
        yield f"## {name}\n" + (f"\nAlso written {', '.join(also)}.\n" if also else "")
        if own:
            yield keys(own, found["required"])
    yield section("models", models.Row)


def suites() -> Iterator[str]:
    yield section("A suite", schema.SuiteKeys)
    yield section("A case", schema.CaseKeys)
    yield section("Metadata", schema.MetadataKeys)
    yield section("A message", schema.MessageKeys)
    yield section("A segment", schema.SegmentKeys)
    yield section("An image, a document or audio", schema.MediaKeys)
    yield section("Thinking", schema.ThinkingKeys)
    yield section("Hidden thinking", schema.HiddenKeys)
    yield section("A call", schema.CallKeys)
    yield section("A tool", schema.ToolKeys)


def settings() -> Iterator[str]:
    own = struct_schema(SettingsKeys)["properties"]
    forms = (chat.KEYS, responses.KEYS, messages.KEYS, contents.KEYS)
    bodies = [{name: key.path for name, key in form.items()} for form in forms]
    bodies[0]["max_output_tokens"] = "max_completion_tokens"  # max_tokens_field of a target says it
    rows = (
        (
            code(name),
            values(own[name]),
            own[name]["description"],
            *(code(paths[name]) if name in paths else "" for paths in bodies),
        )
        for name in SETTINGS
    )
    yield table(
        "setting | values | meaning | Chat Completions | Responses | Anthropic | Gemini", rows
    )


def pipelines() -> Iterator[str]:
    found = pipeline_schema()
    yield keys(found["properties"])
    for name in stage_names():
        options = found["$defs"][f"options_of_{name}"]
        yield f"## {name}\n\n{options['description']}\n"
        if contract := contract_of(find_stage(name)):
            yield f"It {contract.in_words()}.\n"
        if options["properties"]:
            yield keys(options["properties"])


def output() -> Iterator[str]:
    yield section("multiturn run", results.Result)
    yield section("Its error", results.Failure)
    yield section("What made it", results.Made)
    for each in SCHEMAS.values():
        line = each()
        if "$ref" in line:
            found = line["$defs"][line["$ref"].rpartition("/")[2]]
            title = line["title"].removeprefix("A line of ")
            yield f"## {title}\n\n{found['description']}\n\n{keys(found['properties'])}"


# Data


def wire_rules() -> Iterator[str]:
    for vendor in dict.fromkeys(rule.vendor for rule in RULES.values()):
        rows = ((r.id, r.rule, r.source) for r in RULES.values() if r.vendor == vendor)
        yield f"## {vendor}\n\n{table('id | rule | seen in', rows)}"


def known_models() -> Iterator[str]:
    file = Path(models.__file__).with_name("models.yaml")
    known = yaml.load(file.read_text(encoding="utf-8"), yaml.CBaseLoader)
    for vendor, rows in known.items():
        cells = (
            (
                ", ".join(map(code, row["names"])),
                ", ".join(facts(row)),
                f"{row['source']}, {row['seen']}",
            )
            for row in rows
        )
        yield f"## {vendor}\n\n{table('models | what is known | source', cells)}"


def facts(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a row says of its models."""
    for name, said in row.get("takes", {}).items():
        yield f"{name}: {said if isinstance(said, str) else ', '.join(said)}"
    for name, said in row.items():
        if name not in ("names", "source", "seen", "takes", "when"):
            parts = said.items() if isinstance(said, dict) else ()
            words = ", ".join(said) if isinstance(said, list) else said
            yield f"{name}: {' '.join(f'{key} {value}' for key, value in parts) or words}"
    for name, said in row.get("when", {}).items():
        yield f"where {name} is {' or '.join(said)}"


# Python


def python() -> Iterator[str]:
    for name in MODULES:
        module = import_module(name)
        yield f"## {name}\n"
        for public in sorted(module.__all__, key=str.casefold):
            yield from entry(public, getattr(module, public))


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


class Page(NamedTuple):
    """A page of the reference."""

    title: str
    words: str
    parts: Callable[[], Iterator[str]]

    def text(self) -> str:
        return "\n".join([f"# {self.title}\n", f"{self.words}\n", *self.parts()])


PAGES = {
    "commands": Page(
        "Commands",
        "`multiturn COMMAND --help` shows the same. An option that is not given may get its\n"
        "value from [the project's defaults](project.md).",
        commands,
    ),
    "models": Page(
        "What is known of each model",
        "A name that no row has is unknown: see [Models](../models.md).",
        known_models,
    ),
    "output": Page(
        "What commands print",
        "The keys of a line of JSON: see [Results](../results.md) for those of `run`.",
        output,
    ),
    "pipelines": Page(
        "Pipelines and stages",
        "Keys of a pipeline file, and options of stages: see [Pipelines](../pipelines.md).",
        pipelines,
    ),
    "project": Page(
        "The project's defaults",
        "Keys of `multiturn.toml`, or of `[tool.multiturn]` in `pyproject.toml`: see\n"
        "[Pipelines](../pipelines.md#your-own).",
        project,
    ),
    "python": Page(
        "Python API",
        "The public names; all else is internal. [Python](../python.md) shows how to use them.",
        python,
    ),
    "settings": Page(
        "Settings of a request",
        "Keys of `execution` in a suite or a case, and of targets: see\n"
        "[Suites](../suites.md#settings). The last four columns say where a vendor's body has it;\n"
        "a setting that its vendor lacks is refused (C10).",
        settings,
    ),
    "suites": Page(
        "Suites",
        "Keys of suites: see [Suites](../suites.md). Those of other tools are read, too.",
        suites,
    ),
    "targets": Page(
        "Targets",
        "Keys of a target: see [Targets](../targets.md). Each target of a model takes the\n"
        "[settings of a request](settings.md), too.",
        targets,
    ),
    "wire-rules": Page(
        "Wire rules",
        "What an API refuses, or answers badly. A repaired prompt is a different experiment, so\n"
        "the result names each repair by the id of the rule that requires it. What cannot be\n"
        "repaired without changing its meaning is refused before anything is sent.",
        wire_rules,
    ),
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / f"{name}.md").write_text(page.text(), encoding="utf-8")
