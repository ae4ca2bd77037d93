"""A judge for each vendor's API: what it takes of settings and tools, by settings_judge.txt.

Written from vendors' pages, SDKs and others' live probes, without the product's own data. A judge
gets a body as it goes over the wire, and names what the API refuses and what no source decides.
A setting that an API ignores is accepted. Whether a model is still served is not judged.
"""

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

VERSIONS = ("2023-06-01", "2026-10-21")  # of Anthropic's API
DATA = Path(__file__).with_suffix(".txt")


class Finding(NamedTuple):
    """What keeps a body from being accepted: the class of the fact, its value, and who says so."""

    verdict: Literal["refused", "unknown"]
    fact: str
    value: Any
    source: str


class Sample(NamedTuple):
    """A body with one setting beside a plain prompt; the setting by the project's own name."""

    setting: str
    value: Any
    body: dict[str, Any]


class Row(NamedTuple):
    models: tuple[str, ...]
    conditions: tuple[tuple[str, list[str]], ...]
    values: tuple[tuple[str, list[str]], ...]  # each behind its sign: +, ? or -
    source: str


# --- The data


@cache
def sections() -> dict[str, list[str]]:
    """Return the lines of each section of the data, with the groups of names written out."""
    text = re.sub(r"^#.*\n", "", DATA.read_text(encoding="utf-8"), flags=re.MULTILINE)
    head, *rest = re.sub(r"\n[ ]+", " ", text).split("\n[")
    groups = dict(re.findall(r"^\$(\w+) = (.+)$", head, flags=re.MULTILINE))
    found = {}
    for section in rest:
        name, _, lines = section.partition("]\n")
        while "$" in lines:
            lines = re.sub(r"\$(\w+)", lambda group: groups[group[1]], lines)
        found[name] = lines.split("\n")
    return {name: [line for line in lines if line] for name, lines in found.items()}


def models(api: str) -> list[str]:
    """Return the names of an API's models that tests ask for."""
    return sections()[f"names: {api}"][0].split()


@cache
def rows(api: str, fact: str) -> tuple[Row, ...]:
    """Return what the data says of a fact, first for this API, then for all of its vendor."""
    owners = dict.fromkeys((api, api.split()[0]))
    return tuple(row(line) for of in owners for line in sections().get(f"{of}: {fact}", ()))


def row(line: str) -> Row:
    left, _, right = line.partition(" : ")
    verdicts, _, source = right.partition(" ; ")
    conditions = re.findall(r"@(\w+)=(\S+)", left)
    values = re.findall(r"([+?-])(.+?)(?= [+?-]|$)", verdicts)
    assert values, f"not a row: {line}"
    assert source, f"no source: {line}"
    return Row(
        tuple(word for word in left.split() if word[0] != "@"),
        tuple((name.replace("_", " "), of.split("|")) for name, of in conditions),
        tuple((sign, of.split()) for sign, of in values),
        source,
    )


def names(api: str, model: str) -> tuple[str, str]:
    """Return a model's name, and the one without a date, a number or a base of fine-tuning."""
    base = model.split(":")[1] if model.startswith("ft:") else model.removeprefix("models/")
    base = re.sub(r"-(\d{4}-\d\d-\d\d|\d{8}|\d{4}|00\d|0)$", "", base)
    ending = {"gemini": "-preview", "anthropic": "-latest"}.get(api, "")
    return model, base.removesuffix(ending)


@cache
def rows_about(api: str, model: str, fact: str) -> list[Row]:
    """Return those rows of a fact that are about a model."""
    own = names(api, model)
    return [
        row
        for row in rows(api, fact)
        if any(fnmatchcase(name, of) for name in own for of in row.models)
    ]


def holds(texts: Iterable[str], value: Any) -> bool:
    """Return whether a value is one of those that the data writes."""
    for text in texts:
        if limits := re.fullmatch(r"(!?)(-?\d+)\.\.(-?\d+)", text):
            is_number = isinstance(value, int | float)
            if is_number and (int(limits[2]) <= value <= int(limits[3])) != bool(limits[1]):
                return True
        elif text in ("any", str(value), f"{value:g}" if isinstance(value, float) else ""):
            return True
    return False


def decide(api: str, model: str, fact: str, facts: Mapping[str, Any]) -> Finding | None:
    """Return what the data says of one fact of a body; None if it is accepted."""
    value = facts[fact]
    for row in rows_about(api, model, fact):
        given = [(str(facts.get(name, "unset")), of) for name, of in row.conditions]
        if not all(have in of or (have != "unset" and "any" in of) for have, of in given):
            continue
        for sign, texts in row.values:
            if holds(texts, value):
                verdict: Literal["refused", "unknown"] = "refused" if sign == "-" else "unknown"
                return None if sign == "+" else Finding(verdict, fact, value, row.source)
    return Finding("unknown", fact, value, "no source says")


# --- What a body sets

FACTS = {
    key: fact
    for fact, keys in {
        "temperature": "temperature",
        "top_p": "top_p topP",
        "top_k": "top_k topK",
        "stop": "stop stop_sequences stopSequences",
        "seed": "seed",
        "penalties": "frequency_penalty presence_penalty frequencyPenalty presencePenalty",
        "effort value": "reasoning_effort effort thinkingLevel",
        "thinking form": "thinking thinkingConfig",
        "structured output": "response_format format responseMimeType",
        "verbosity": "verbosity",
        "service_tier": "service_tier serviceTier",
        "parallel": "parallel_tool_calls disable_parallel_tool_use",
        "forced tool choice": "tool_choice toolConfig",
        "largest output": "max_tokens max_completion_tokens max_output_tokens maxOutputTokens",
        "system": "system systemInstruction",
    }.items()
    for key in keys.split()
}
SAMPLING = ("temperature", "top_p", "top_k")


def facts_of(api: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a body sets, by the class of the fact. What it does not set is left out."""
    holder = body.get("generationConfig", {}) if api == "gemini" else body
    simple = [key for key in ("service_tier", "serviceTier", "verbosity") if key in body]
    found: dict[str, Any] = {FACTS[key]: body[key] for key in simple}
    for key in ("topP", "topK", "seed", *SAMPLING):
        if holder.get(key) is not None:
            found[FACTS[key]] = holder[key]
    for fact in ("penalties", "largest output"):
        set_ = [holder[key] for key, of in FACTS.items() if of == fact and key in holder]
        if set_:
            found[fact] = max(set_, key=abs)
    for key in ("stop", "stop_sequences", "stopSequences"):
        if holder.get(key) is not None:
            found["stop"] = 1 if isinstance(holder[key], str) else len(holder[key])
    if body.get("tools"):
        found["tools over chat" if api == "openai chat" else "tools"] = "functions"
    if body.keys() & {"system", "systemInstruction", "instructions"}:
        found["system"] = "system"
    more = {"anthropic": anthropic_facts, "gemini": gemini_facts}.get(api)
    found |= more(body) if more else openai_facts(body, is_chat=api == "openai chat")
    return {fact: value for fact, value in found.items() if value is not None}


def openai_facts(body: Mapping[str, Any], *, is_chat: bool) -> dict[str, Any]:
    text = body.get("text", {})
    messages = body.get("messages" if is_chat else "input", ())
    roles = {each.get("role") for each in messages if isinstance(each, dict)}
    sound = "audio" in body.get("modalities", ()) or '"input_audio"' in json.dumps(messages)
    choice = body.get("tool_choice", "auto")
    named = "named" if isinstance(choice, dict) else None
    effort = body.get("reasoning_effort") if is_chat else body.get("reasoning", {}).get("effort")
    format_ = body.get("response_format" if is_chat else "-", text.get("format", {})).get("type")
    found = {
        "endpoint": "chat" if is_chat else "responses",
        "effort value": effort,
        "structured output": None if format_ == "text" else format_,
        "forced tool choice": "required" if choice == "required" else named,
        "parallel": {True: "on", False: "off", None: None}[body.get("parallel_tool_calls")],
        "max_tokens": body.get("max_tokens"),
        "needs audio": "text only" if is_chat and not sound else None,
    }
    if "verbosity" in text:
        found["verbosity"] = text["verbosity"]
    if roles & {"system", "developer"}:
        found["system"] = "system"
    return found


def anthropic_facts(body: Mapping[str, Any]) -> dict[str, Any]:
    choice, output = body.get("tool_choice", {}), body.get("output_config", {})
    switch = choice.get("disable_parallel_tool_use")
    return {
        "effort value": output.get("effort"),
        "structured output": (output.get("format") or {}).get("type"),
        "thinking form": body.get("thinking", {}).get("type"),
        "forced tool choice": {"any": "required", "tool": "named"}.get(choice.get("type")),
        "parallel": None if switch is None else "off" if switch else "on",
    }


def gemini_facts(body: Mapping[str, Any]) -> dict[str, Any]:
    config = body.get("generationConfig", {})
    thinking = config.get("thinkingConfig", {})
    calling = body.get("toolConfig", {}).get("functionCallingConfig", {})
    forced = "named" if calling.get("allowedFunctionNames") else "required"
    is_json = config.get("responseMimeType") == "application/json"
    has_schema = bool(config.keys() & {"responseSchema", "responseJsonSchema"})
    level = thinking.get("thinkingLevel")
    return {
        "effort value": None if level is None else level.upper(),
        "thinking form": thinking.get("thinkingBudget"),
        "structured output": "json_schema" if has_schema else "json_object" if is_json else None,
        "forced tool choice": forced if calling.get("mode") == "ANY" else None,
    }


# --- The form of a body, by the SDKs' types


def strict(schema: Any) -> Any:
    """Return a schema of pydantic that forbids further keys and consumes each iterable."""
    if isinstance(schema, dict):
        changed = {key: strict(value) for key, value in schema.items()}
        if schema.get("type") == "typed-dict":
            changed["extra_behavior"] = "forbid"
        elif schema.get("type") == "generator":
            changed["type"] = "list"
        return changed
    is_sequence = isinstance(schema, list | tuple)
    return type(schema)(map(strict, schema)) if is_sequence else schema


@cache
def type_of(module: str, name: str) -> Any:
    """Return the validator of an SDK's type. google-genai's models are strict by themselves."""
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator

    adapter: Any = TypeAdapter(getattr(import_module(module), name))
    is_model = module.startswith("google")
    return adapter if is_model else SchemaValidator(strict(adapter.core_schema))


OF_GEMINI = {
    "contents": "Content",
    "systemInstruction": "Content",
    "tools": "Tool",
    "toolConfig": "ToolConfig",
    "generationConfig": "GenerationConfig",
    "safetySettings": "SafetySetting",
    "serviceTier": "ServiceTier",
}
OF_BODIES = {
    "openai chat": ("openai.types.chat.completion_create_params", "CompletionCreateParams"),
    "openai responses": ("openai.types.responses.response_create_params", "ResponseCreateParams"),
    "anthropic": ("anthropic.types.message_create_params", "MessageCreateParams"),
}


def typed(api: str, body: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield what an SDK has a type for: its key, the type and the value."""
    if api != "gemini":
        module, name = OF_BODIES[api]
        # Anthropic's SDK has dropped these, and the older version of the API still knows them.
        dropped = SAMPLING if api == "anthropic" else ()
        kept = {key: value for key, value in body.items() if key not in dropped}
        yield "", type_of(module, f"{name}NonStreaming"), kept
        return
    for key in OF_GEMINI.keys() & body.keys():
        for value in body[key] if isinstance(body[key], list) else [body[key]]:
            yield key, type_of("google.genai.types", OF_GEMINI[key]), value


def malformed(api: str, body: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what does not have the form of the SDK's types, once for each class of fact."""
    from pydantic import ValidationError

    found: dict[str, str] = {}
    for key, type_, value in typed(api, body):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # google-genai only warns of an unknown value
                type_.validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            for each in error.errors(include_url=False):
                path = [key, *map(str, each["loc"])]
                fact = next((FACTS[name] for name in reversed(path) if name in FACTS), "form")
                found.setdefault(fact, f"{'.'.join(path)}: {each['msg']}")
        except UserWarning as warning:
            is_level = "thinkinglevel" in str(warning).lower().replace("_", "")
            found["effort value" if is_level else FACTS.get(key, "form")] = str(warning)
    for key in body.keys() - OF_GEMINI.keys() - {"store"} if api == "gemini" else ():
        found[FACTS.get(key, "form")] = f"{key}: no such field"
    yield from (Finding("refused", fact, why, "SDK") for fact, why in found.items())


# --- Schemas, and what contradicts itself


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a JSON Schema and all that is in it."""
    if isinstance(schema, dict):
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(part, dict | list):
            yield from parts(part)


def schemas(api: str, body: Mapping[str, Any]) -> Iterator[tuple[str, bool, dict[str, Any]]]:
    """Yield each schema of a body, the class of its fact, and whether it is for strict output."""
    for tool in body.get("tools", ()) if api != "gemini" else ():
        tool = tool.get("function", tool)
        schema = tool.get("parameters") or tool.get("input_schema") or {}
        yield "tool schema", tool.get("strict") is True, schema
    of = body.get("response_format") or body.get("text", {}).get("format") or {}
    of = of.get("json_schema", of) or {}
    of = of or {"strict": True, **(body.get("output_config", {}).get("format") or {})}
    if "schema" in of:
        yield "structured output", of.get("strict") is True, of["schema"]


def schema_faults(api: str, body: Mapping[str, Any]) -> Iterator[Finding]:
    is_openai = api.startswith("openai")
    for fact, is_strict, schema in schemas(api, body):
        if api == "anthropic" and fact == "tool schema":
            if schema.keys() & {"oneOf", "anyOf", "allOf"}:
                why = "claude-code #40075, opencode #37916, cantinarr #497 (live)"
                yield Finding("refused", fact, "a union at the top", why)
            for key in schema.get("properties", ()):
                if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key):
                    why = "claude-code #79418, n8n #30590 (live)"
                    yield Finding("refused", fact, key, why)
        for part in parts(schema):
            if is_openai and part.get("type") == "array" and "items" not in part:
                why = "aichat #1049, ms-agent #610 (live)"
                yield Finding("refused", fact, "an array without items", why)
            if not is_strict or part.get("type") != "object":
                continue
            missing = {*part.get("properties", ())} - {*part.get("required", ())}
            if part.get("additionalProperties") is not False or (is_openai and missing):
                why = "trae-agent #173, camel #2231 (live); Anthropic's page, by fableguide"
                yield Finding("refused", fact, "an object that is not closed", why)


def contradictions(api: str, body: Mapping[str, Any]) -> Iterator[Finding]:
    budget = body.get("thinking", {}).get("budget_tokens") if api == "anthropic" else None
    if budget is not None and not 1024 <= budget < body["max_tokens"]:
        why = "SDK: at least 1,024 and less than max_tokens"
        yield Finding("refused", "thinking form", budget, why)
    config = body.get("generationConfig", {})
    given = config.keys() & {"responseSchema", "responseJsonSchema"}
    if len(given) == 2 or (given and config.get("responseMimeType") != "application/json"):
        why = "GenerationConfig's reference"
        yield Finding("refused", "structured output", sorted(given), why)


def judge(
    api: str, model: str, body: Mapping[str, Any], version: str = VERSIONS[-1]
) -> list[Finding]:
    """Return what an API refuses of a body, and what nobody knows; nothing if it takes it all.

    Args:
        api: "openai chat", "openai responses", "anthropic" or "gemini".
        model: its name, which Gemini's bodies do not hold.
        body: what goes over the wire.
        version: of Anthropic's API.
    """
    found = [*malformed(api, body), *schema_faults(api, body), *contradictions(api, body)]
    facts = facts_of(api, body)
    given = {**facts, "version": version}
    known = {finding.fact for finding in found}
    decided = (decide(api, model, fact, given) for fact in facts if fact not in known)
    return found + [finding for finding in decided if finding is not None]


def verdict(findings: Iterable[Finding]) -> str:
    """Return refused, unknown, or accepted where nothing was found."""
    verdicts = {finding.verdict for finding in findings}
    return "refused" if "refused" in verdicts else "unknown" if verdicts else "accepted"


# --- Bodies to judge

PROMPT = "Name a river in France. Answer in JSON."
SCHEMA = {
    "type": "object",
    "properties": {"river": {"type": "string"}},
    "required": ["river"],
    "additionalProperties": False,
}
NAMED = {"name": "river", "schema": SCHEMA, "strict": True}
TOOL = {"name": "river", "description": "Find a river."}
# Each value of each setting, by the project's names for them.
SETTINGS: dict[str, tuple[Any, ...]] = {
    "plain": (None,),
    "temperature": (0, 0.5, 1),
    "top_p": (0.5, 1),
    "top_k": (40,),
    "stop": (["END"], ["END", "STOP"]),
    "seed": (3,),
    "frequency_penalty": (0, 0.5),
    "presence_penalty": (0, 0.5),
    "reasoning_effort": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "reasoning_tokens": (2048,),
    "response_format": ("json_object", "json_schema"),
    "tool_choice": ("auto", "required", "river"),
    "parallel_tool_calls": (False,),
    "verbosity": ("low",),
    "max_output_tokens": (100, 1_000_000),
    "system": ("Be brief.",),
}
TIERS = {"anthropic": ("auto", "standard_only"), "gemini": ("standard", "flex", "priority")}


def bodies(api: str, model: str) -> Iterator[Sample]:
    """Yield the plain body, then one for each value of each setting.

    A setting that an API has no field for has the name that another vendor gives it.
    """
    tiers = TIERS.get(api, ("auto", "default", "flex", "priority"))
    write = {"anthropic": anthropic_fields, "gemini": gemini_fields}.get(api)
    messages = [{"role": "user", "content": PROMPT}]
    starts: dict[str, dict[str, Any]] = {
        "openai chat": {"model": model, "messages": messages},
        "openai responses": {"model": model, "input": messages},
        "anthropic": {"model": model, "max_tokens": 4096, "messages": messages},
        "gemini": {"contents": [{"role": "user", "parts": [{"text": PROMPT}]}]},
    }
    plain = starts[api]
    for setting, values in {**SETTINGS, "service_tier": tiers}.items():
        for value in values:
            fields = write(setting, value) if write else openai_fields(api, setting, value)
            yield Sample(setting, value, {**plain, **(fields if setting != "plain" else {})})


def openai_fields(api: str, setting: str, value: Any) -> dict[str, Any]:
    """Return the fields of a body for one setting."""
    is_chat = api == "openai chat"
    match setting, is_chat:
        case "system", _:
            messages = [{"role": "system", "content": value}, {"role": "user", "content": PROMPT}]
            return {"messages" if is_chat else "input": messages}
        case (("tool_choice" | "parallel_tool_calls"), _):
            function = {**TOOL, "parameters": SCHEMA, "strict": True}
            tool = {"type": "function", **({"function": function} if is_chat else function)}
            if value == "river":
                named = {"name": value}
                value = {"type": "function", **({"function": named} if is_chat else named)}
            return {"tools": [tool], setting: value}
        case "response_format", True:
            schema = {"json_schema": NAMED} if value == "json_schema" else {}
            return {setting: {"type": value, **schema}}
        case "response_format", False:
            return {
                "text": {"format": {"type": value, **(NAMED if value != "json_object" else {})}}
            }
        case "reasoning_tokens", _:
            return {"thinking": {"type": "enabled", "budget_tokens": value}}
        case "reasoning_effort", False:
            return {"reasoning": {"effort": value}}
        case "verbosity", False:
            return {"text": {setting: value}}
        case "max_output_tokens", True:
            return {"max_completion_tokens": value}
    return {setting: value}


def anthropic_fields(setting: str, value: Any) -> dict[str, Any]:
    """Return the fields of a body for one setting."""
    match setting:
        case "tool_choice" | "parallel_tool_calls":
            kinds = {"auto": {"type": "auto"}, "required": {"type": "any"}}
            choice = kinds.get(value, {"type": "tool", "name": value})
            off = {"type": "auto", "disable_parallel_tool_use": True}
            tools = [{**TOOL, "input_schema": SCHEMA}]
            return {"tools": tools, "tool_choice": off if value is False else choice}
        case "response_format":
            schema = {"schema": SCHEMA} if value == "json_schema" else {}
            return {"output_config": {"format": {"type": value, **schema}}}
        case "reasoning_effort":
            return {"output_config": {"effort": value}}
        case "reasoning_tokens":
            return {"thinking": {"type": "enabled", "budget_tokens": value}}
        case "stop":
            return {"stop_sequences": value}
        case "max_output_tokens":
            return {"max_tokens": value}
    return {setting: value}


def gemini_fields(setting: str, value: Any) -> dict[str, Any]:
    """Return the fields of a body for one setting."""
    match setting:
        case "system":
            return {"systemInstruction": {"parts": [{"text": value}]}}
        case "tool_choice" | "parallel_tool_calls":
            tools = [{"functionDeclarations": [{**TOOL, "parametersJsonSchema": SCHEMA}]}]
            if value is False:
                return {"tools": tools, setting: value}
            calling: dict[str, Any] = {"mode": "AUTO" if value == "auto" else "ANY"}
            if value == "river":
                calling["allowedFunctionNames"] = [value]
            return {"tools": tools, "toolConfig": {"functionCallingConfig": calling}}
        case "service_tier":
            return {"serviceTier": value}
        case "response_format":
            schema = {"responseJsonSchema": SCHEMA} if value == "json_schema" else {}
            return {"generationConfig": {"responseMimeType": "application/json", **schema}}
        case "reasoning_effort":
            return {"generationConfig": {"thinkingConfig": {"thinkingLevel": value.upper()}}}
        case "reasoning_tokens":
            return {"generationConfig": {"thinkingConfig": {"thinkingBudget": value}}}
    names = {"stop": "stopSequences"}
    camel = re.sub(r"_(\w)", lambda letter: letter[1].upper(), setting)
    return {"generationConfig": {names.get(setting, camel): value}}
