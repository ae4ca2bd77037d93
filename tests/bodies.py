"""Random request bodies as vendors' APIs take them; the same number gives the same body."""

import base64
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Values = dict[str, Any]

# What YAML 1.1, templates, markers and terminals make something of; none of them is blank.
TEXTS = (
    *("Hello", "no", "12:30", "010", "~", "null", "1e3", "0x1F", "2024-01-01", "<<", "=", "- a"),
    *("{{ city }}", "{% if x %}", "${{ KEY }}", "$HOME", "%s {0}", "*a &b !c", "# no comment"),
    *("a: b", "a #b", "'", '"', "\\", "---", "...", "a\n---\nb", "? x", "[1]", "{a: 1}", "|", ">"),
    *(
        "[User]: Hi",
        "[[ ## Guidelines ## ]]",
        "<Attached: a.md>",
        "=== a.md ===",
        "[Tool call c1]:",
    ),
    *("  two\n    four\n", "\n\nx\n\n", "x\t\n y ", "a\r\nb\rc", "x\x00y", "\x1b[2J", "\u202eabc"),
    *(
        "Grüße \U0001f600",
        "\U0001f469\u200d\U0001f4bb",
        "a\u2028b\u2029c\x85d",
        "\ufeffx",
        "x" * 3000,
    ),
    *("./a.md", "/etc/passwd", "file://x", "@a.md", '{"role": "user"}', '[{"role": "user"}]'),
)
VALUES: tuple[Any, ...] = (
    *(*TEXTS, "", 0, -1.5, 10**20, 1e-7, 1.0, True, False, None, [], {}, [[]], [{"<<": {"a": 1}}]),
    {"a": [None, {"no": "yes", "": " "}]},
)
MEDIA = {
    "image": [
        ("image/png", b"\x89PNG\r\n\x1a\n"),
        ("image/jpeg", b"\xff\xd8\xff"),
        ("image/gif", b"GIF89a"),
        ("image/webp", b"RIFF....WEBP"),
    ],
    "document": [("application/pdf", b"%PDF-1.7\n")],
    "audio": [("audio/wav", b"RIFF....WAVE"), ("audio/mpeg", b"ID3\x03\x00")],
}
ADDRESS = "https://example.com/a.png"
NAMES = ("weather", "search_web", "read-file", "f")


class Chooser:
    """Makes the pieces that all bodies have."""

    def __init__(self, number: int) -> None:
        self.chance = random.Random(number)
        self.count = 0

    def some(self, share: float) -> bool:
        return self.chance.random() < share

    def text(self) -> str:
        return self.chance.choice(TEXTS)

    def arguments(self) -> Values:
        keys = self.chance.sample(("city", "größe", "a b", "<<", "no", "12", ""), 3)
        return {key: self.chance.choice(VALUES) for key in keys[: self.chance.randint(0, 3)]}

    def media(self, *kinds: str) -> tuple[str, str, str]:
        """Return the type of media, their bytes in base64, and a name."""
        kind = self.chance.choice(kinds or ("image", "document"))
        media_type, head = self.chance.choice(MEDIA[kind])
        data = base64.b64encode(head + self.chance.randbytes(self.chance.randint(9, 40))).decode()
        return media_type, data, self.chance.choice(("a.pdf", "my invoice.pdf", "Grüße.pdf"))

    def pieces(self) -> list[bool]:
        """Return whether each piece of a content is text: no two texts are neighbors."""
        texts = [self.some(0.5) for _ in range(self.chance.randint(2, 4))]
        return [is_text and not (at and texts[at - 1]) for at, is_text in enumerate(texts)]

    def call_ids(self) -> list[str]:
        first, self.count = self.count, self.count + self.chance.choice((1, 1, 2, 3))
        return [f"call_{at}-{self.chance.randint(0, 9)}" for at in range(first, self.count)]

    def signature(self) -> str:
        return base64.b64encode(self.chance.randbytes(12)).decode()

    def schema(self) -> Values:
        city = {"type": "string", "description": self.text(), "enum": ["no", "12:30"]}
        return {"type": "object", "properties": {"city": city, "on": {"type": ["null", "boolean"]}}}

    def closed_schema(self) -> Values:
        """Return one as Anthropic takes it of an answer, and OpenAI with ``strict``."""
        return {**self.schema(), "required": ["city", "on"], "additionalProperties": False}

    def rounds(self) -> int:
        return self.chance.randint(1, 4)

    def others(self, **given: Any) -> Values:
        """Return some of these keys."""
        return {key: value for key, value in given.items() if self.some(0.3)}

    def one(self, *values: Any) -> Any:
        return self.chance.choice(values)

    def form(self) -> Values:
        """Return a JSON Schema as OpenAI's APIs have it."""
        more = self.others(description="An answer.", strict=self.some(0.5))
        schema = self.closed_schema() if more.get("strict") else self.schema()
        return {"name": self.one("answer", "city"), **more, "schema": schema}


def chat_body(number: int, has_media: bool = True) -> Values:
    """Return a body for OpenAI's Chat Completions."""
    make = Chooser(number)
    system = make.chance.choice(("system", "developer"))
    messages: list[Values] = []
    if make.some(0.6):
        messages.append({"role": system, "content": make.text()})
    for _ in range(make.rounds()):
        messages.append({"role": "user", "content": _chat_content(make, has_media)})
        if make.some(0.6):
            messages += _chat_calls(make)
        if make.some(0.7):
            messages.append({"role": "assistant", "content": make.text()})
        if make.some(0.1):
            messages.append({"role": system, "content": make.text()})
    thinks = make.some(0.3)
    body: Values = {"model": "gpt-5-mini" if thinks else "gpt-4o", "messages": messages}
    body |= make.others(stream=True, n=1, store=False, user="no", metadata={"a": "b"})
    if thinks:
        effort = make.one("minimal", "low", "medium", "high")
        body |= make.others(reasoning_effort=effort, verbosity=make.one("low", "high"))
        body |= make.others(max_completion_tokens=900)
    else:
        body |= make.others(top_p=make.one(0, 0.5, 1), seed=make.one(-7, 0, 10**9))
        body |= make.others(stop=make.one("no", ["\n", "12:30", "${{ KEY }}"], ["$HOME"]))
        body |= make.others(frequency_penalty=make.one(-2, 0.5), presence_penalty=make.one(0, 1.5))
        body |= make.others(logit_bias={"12": -100}, top_logprobs=2, logprobs=True)
        body |= make.one({}, {"max_completion_tokens": 9}, {"max_tokens": 99})
        body |= make.others(temperature=make.one(0, 0.7, 2))
    written = {"type": "json_schema", "json_schema": make.form()}
    form = make.one({"type": "text"}, {"type": "json_object"}, written)
    body |= make.others(response_format=form, service_tier=make.one("flex", "priority"))
    if make.some(0.1):
        body["reasoning"] = {"exclude": True, "max_tokens": 5}  # of a proxy
    if make.some(0.6):
        tools = [{"name": name, **_described(make, "parameters")} for name in NAMES]
        body["tools"] = [{"type": "function", "function": each} for each in tools]
        named = {"type": "function", "function": {"name": "f"}}
        body |= make.others(tool_choice=make.one("auto", "none", "required", named))
        body |= make.others(parallel_tool_calls=make.some(0.5))
    return body


def _chat_content(make: Chooser, has_media: bool) -> Any:
    """Return a text, or texts and media."""
    if not has_media or make.some(0.8):
        return make.text()
    return [
        {"type": "text", "text": make.text()} if is_text else _chat_media(make)
        for is_text in make.pieces()
    ]


def _chat_media(make: Chooser) -> Values:
    media_type, data, name = make.media()
    uri = f"data:{media_type};base64,{data}"
    if media_type == "application/pdf":
        return {"type": "file", "file": {"filename": name, "file_data": uri}}
    detail = {"detail": "low"} if make.some(0.3) else {}
    url = ADDRESS if make.some(0.2) else uri
    return {"type": "image_url", "image_url": {"url": url, **detail}}


def _chat_calls(make: Chooser) -> list[Values]:
    ids = make.call_ids()
    calls = [
        {
            "id": each,
            "type": "function",
            "function": {
                "name": make.chance.choice(NAMES),
                "arguments": json.dumps(make.arguments(), indent=make.chance.choice((None, 1))),
            },
        }
        for each in ids
    ]
    said = make.text() if make.some(0.4) else None
    results = [
        {"role": "tool", "tool_call_id": each, "content": make.chance.choice((make.text(), ""))}
        for each in ids
    ]
    return [{"role": "assistant", "content": said, "tool_calls": calls}, *results]


def _described(make: Chooser, key: str) -> Values:
    found: Values = {key: make.schema()}
    if make.some(0.5):
        found["description"] = make.text()
    if make.some(0.3):
        found["strict"] = make.some(0.5)
    if found.get("strict"):  # OpenAI takes no other (T13)
        found[key] |= {"required": ["city", "on"], "additionalProperties": False}
    return found


def anthropic_body(number: int) -> Values:
    """Return a body for Anthropic's Messages API."""
    make = Chooser(number)
    messages: list[Values] = [{"role": "user", "content": _anthropic_content(make)}]
    for _ in range(make.rounds()):
        messages += _anthropic_turns(make)
    body: Values = {"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": messages}
    if make.some(0.6):
        body["system"] = make.text()
    body |= make.others(stream=True, stop_sequences=["no", "{{ x }}"], metadata={"user_id": "no"})
    body |= make.others(service_tier=make.one("auto", "standard_only"), inference_geo="us")
    if thinks := make.some(0.3):
        budget = {"type": "enabled", "budget_tokens": 1024}
        body["thinking"] = make.one(budget, {**budget, "display": "omitted"}, {"type": "disabled"})
        body["max_tokens"] = 2048
    else:
        body |= make.one({}, {"temperature": make.one(0, 0.7, 1)}, {"top_p": 0.5})
        body |= make.others(top_k=5)
    output = make.others(format={"type": "json_schema", "schema": make.closed_schema()})
    if make.some(0.2):
        body["model"] = "claude-opus-4-5"
        output |= {"effort": make.one("low", "medium", "high")}
    body |= {"output_config": output} if output else {}
    if make.some(0.6):
        body["tools"] = [{"name": name, **_described(make, "input_schema")} for name in NAMES]
        forced = ({"type": "any"}, {"type": "tool", "name": "f"})
        parallel = make.others(disable_parallel_tool_use=make.some(0.5))
        choices: tuple[Values, ...] = ({"type": "none"}, {"type": "auto", **parallel})
        choices += () if thinks else tuple({**each, **parallel} for each in forced)
        body |= make.others(tool_choice=make.one(*choices))
    return body


def _anthropic_content(make: Chooser) -> Any:
    """Return a text, or texts and media."""
    if make.some(0.8):
        return make.text()
    return [
        {"type": "text", "text": make.text()} if is_text else _anthropic_media(make)
        for is_text in make.pieces()
    ]


def _anthropic_media(make: Chooser, *kinds: str) -> Values:
    media_type, data, _ = make.media(*kinds)
    kind = "document" if media_type == "application/pdf" else "image"
    source = {"type": "base64", "media_type": media_type, "data": data}
    if kind == "image" and make.some(0.2):
        source = {"type": "url", "url": ADDRESS}
    return {"type": kind, "source": source}


def _anthropic_turns(make: Chooser) -> list[Values]:
    """Return a message of the assistant, and what follows it."""
    blocks: list[Values] = []
    for _ in range(make.chance.choice((0, 0, 1, 2))):
        if make.some(0.3):
            blocks.append({"type": "redacted_thinking", "data": make.signature()})
        else:
            signature = make.signature()
            thought = {"type": "thinking", "thinking": make.text(), "signature": signature}
            blocks.append(thought)
    if not make.some(0.6):
        text = make.text()
        spoken = [*blocks, {"type": "text", "text": text}] if blocks else text
        said = {"role": "assistant", "content": spoken}
        return [said, {"role": "user", "content": _anthropic_content(make)}]
    if make.some(0.5):
        blocks.append({"type": "text", "text": make.text()})
    ids = make.call_ids()
    for each in ids:
        name = make.chance.choice(NAMES)
        blocks.append({"type": "tool_use", "id": each, "name": name, "input": make.arguments()})
    results: list[Values] = [
        {
            "type": "tool_result",
            "tool_use_id": each,
            **_anthropic_result(make),
        }
        for each in ids
    ]
    if make.some(0.5):
        results.append({"type": "text", "text": make.text()})
    return [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]


def _anthropic_result(make: Chooser) -> Values:
    """Return the content of a result, if any; one that failed is only text."""
    if make.some(0.2):
        return {"content": make.text(), "is_error": True}
    if make.some(0.2):
        return {}
    if make.some(0.8):
        return {"content": make.text()}
    image = _anthropic_media(make, "image")
    return {"content": [{"type": "text", "text": make.text()}, image]}


def gemini_body(number: int) -> Values:
    """Return a body for the Gemini API."""
    make = Chooser(number)
    contents: list[Values] = [{"role": "user", "parts": _gemini_parts(make)}]
    for _ in range(make.rounds()):
        contents += _gemini_turns(make)
    body: Values = {"contents": contents}
    if make.some(0.6):
        body["systemInstruction"] = {"role": "user", "parts": [{"text": make.text()}]}
    config = make.others(topP=0.5, topK=3, stopSequences=["no"], temperature=0.7, maxOutputTokens=9)
    config |= make.others(seed=-1, frequencyPenalty=0.5, presencePenalty=-1, candidateCount=1)
    thinking = make.others(includeThoughts=True)
    thinking |= make.one({}, {"thinkingBudget": make.one(0, -1, 99)}, {"thinkingLevel": "LOW"})
    config |= {"thinkingConfig": thinking} if thinking else {}
    json_only, schema = {"responseMimeType": "application/json"}, make.schema()
    of_google = {"responseSchema": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}}
    config |= make.one(
        *({}, json_only, json_only | {"responseJsonSchema": schema}, json_only | of_google),
        *({"responseMimeType": "text/x.enum"} | of_google, {"responseModalities": ["TEXT"]}),
    )
    body |= {"generationConfig": config} if config else {}
    safety = {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}
    body |= make.others(safetySettings=[safety], labels={"a": "b"}, serviceTier="flex")
    if make.some(0.6):
        declared = []
        for name in NAMES:
            described = _described(make, "parametersJsonSchema")
            described.pop("strict", None)
            declared.append({"name": name, **described})
        body["tools"] = [{"functionDeclarations": declared}]
        modes: tuple[Values, ...] = (
            *({"mode": "AUTO"}, {"mode": "NONE"}, {"mode": "ANY"}),
            {"mode": "ANY", "allowedFunctionNames": ["f"]},
        )
        if make.some(0.5):
            body["toolConfig"] = {"functionCallingConfig": make.chance.choice(modes)}
    return body


def _gemini_parts(make: Chooser) -> list[Values]:
    """Return a text, or texts and media."""
    if make.some(0.8):
        return [{"text": make.text()}]
    return [{"text": make.text()} if is_text else _gemini_media(make) for is_text in make.pieces()]


def _gemini_media(make: Chooser) -> Values:
    media_type = "image/gif"
    while media_type == "image/gif":  # which Gemini does not take
        media_type, data, _ = make.media("image", "document", "audio")
    media_type = media_type.replace("audio/mpeg", "audio/mp3")  # as Google's guide has it
    return {"inlineData": {"mimeType": media_type, "data": data}}


def _gemini_turns(make: Chooser) -> list[Values]:
    parts: list[Values] = []
    if make.some(0.4):
        parts.append({"text": make.text(), "thought": True, "thoughtSignature": make.signature()})
    if not make.some(0.6):
        turn = {"role": "model", "parts": [*parts, {"text": make.text()}]}
        return [turn, {"role": "user", "parts": _gemini_parts(make)}]
    if make.some(0.5):
        parts.append({"text": make.text()})
    results = []
    for each in make.call_ids():
        name = make.chance.choice(NAMES)
        part: Values = {"functionCall": {"id": each, "name": name, "args": make.arguments()}}
        if make.some(0.5):
            part["thoughtSignature"] = make.signature()
        parts.append(part)
        said = {make.chance.choice(("output", "output", "error")): make.text()}
        results.append({"functionResponse": {"id": each, "name": name, "response": said}})
    turns: list[Values] = [{"role": "model", "parts": parts}, {"role": "user", "parts": results}]
    if make.some(0.4):
        turns.append({"role": "user", "parts": [{"text": make.text()}]})
    return turns


def responses_body(number: int) -> Values:
    """Return a body for OpenAI's Responses API."""
    make = Chooser(number)
    thinks = make.some(0.5)
    system = make.chance.choice(("system", "developer"))
    items: list[Values] = []
    if leads := make.some(0.4):
        items.append({"role": system, "content": make.text()})
    for _ in range(make.rounds()):
        items.append({"role": "user", "content": _response_content(make)})
        if make.some(0.6):
            items += _response_calls(make, thinks)
        if make.some(0.7):
            items += _reasoning(make, thinks)
            items.append({"role": "assistant", "content": make.text()})
    body: Values = {"model": "gpt-5-mini" if thinks else "gpt-4o", "input": items, "store": False}
    if any(each.get("type") == "reasoning" for each in items) or thinks:
        body["include"] = ["reasoning.encrypted_content"]
    if not leads and make.some(0.5):
        body["instructions"] = make.text()
    body |= make.others(stream=True, user="no", max_output_tokens=99, service_tier="flex")
    text: Values = {}
    if thinks:
        effort = make.others(effort=make.one("minimal", "low", "medium", "high"))
        effort |= make.others(summary="auto")
        body |= {"reasoning": effort} if effort else {}
        text |= make.others(verbosity=make.one("low", "medium", "high"))
    else:
        body |= make.others(temperature=make.one(0, 0.7, 2), top_p=0.5, top_logprobs=2)
    form = {"type": "json_schema", **make.form()}
    text |= make.others(format=make.one({"type": "text"}, {"type": "json_object"}, form))
    body |= {"text": text} if text else {}
    if make.some(0.6):
        body["tools"] = []
        for name in NAMES:
            described = _described(make, "parameters")
            strict = described.pop("strict", False)
            body["tools"].append({"type": "function", "name": name, **described, "strict": strict})
        named = {"type": "function", "name": "f"}
        body |= make.others(tool_choice=make.one("auto", "none", "required", named))
        body |= make.others(parallel_tool_calls=make.some(0.5))
    return body


def _response_content(make: Chooser) -> Any:
    """Return a text, or texts and media."""
    if make.some(0.8):
        return make.text()
    return [
        {"type": "input_text", "text": make.text()} if is_text else _response_media(make)
        for is_text in make.pieces()
    ]


def _response_media(make: Chooser) -> Values:
    media_type, data, name = make.media()
    uri = f"data:{media_type};base64,{data}"
    if media_type == "application/pdf":
        return {"type": "input_file", "filename": name, "file_data": uri}
    url = ADDRESS if make.some(0.2) else uri
    return {"type": "input_image", "image_url": url, "detail": make.chance.choice(("auto", "low"))}


def _reasoning(make: Chooser, thinks: bool) -> list[Values]:
    if not thinks or make.some(0.5):
        return []
    make.count += 1
    summary = [make.text() for _ in range(make.chance.randint(0, 2))]
    return [
        {
            "type": "reasoning",
            **({"id": f"rs_{make.count}"} if make.some(0.8) else {}),
            "summary": [{"type": "summary_text", "text": each} for each in summary],
            "encrypted_content": make.signature(),
        }
    ]


def _response_calls(make: Chooser, thinks: bool) -> list[Values]:
    items = _reasoning(make, thinks)
    if make.some(0.4):
        items.append({"role": "assistant", "content": make.text()})
    ids = make.call_ids()
    items += [
        {
            "type": "function_call",
            "call_id": each,
            "name": make.chance.choice(NAMES),
            "arguments": json.dumps(make.arguments()),
        }
        for each in ids
    ]
    said = (make.text(), "")
    items += [
        {"type": "function_call_output", "call_id": each, "output": make.chance.choice(said)}
        for each in ids
    ]
    return items


OF_TELEMETRY = (
    *("temperature", "max_completion_tokens", "top_p", "seed", "stop"),
    *("frequency_penalty", "presence_penalty"),
)


def in_telemetry(body: Values) -> Values:
    """Return what OpenTelemetry has of a body for Chat Completions: no choice of a tool."""
    given: Values = {"gen_ai.provider.name": "openai", "gen_ai.operation.name": "chat"}
    messages = [*body["messages"]]
    if messages[0]["role"] == "system":
        text = messages.pop(0)["content"]
        given["gen_ai.system_instructions"] = [{"type": "text", "content": text}]
    given["gen_ai.input.messages"] = [
        {"role": each["role"], "parts": [*_parts_of(each)]} for each in messages
    ]
    for name in ("model", *OF_TELEMETRY):
        if name in body:
            names = {"max_completion_tokens": "max_tokens", "stop": "stop_sequences"}
            key = names.get(name, name)
            given[f"gen_ai.request.{key}"] = body[name]
    if "tools" in body:
        functions = [{"type": "function", **each["function"]} for each in body["tools"]]
        given["gen_ai.tool.definitions"] = functions
    return given


def _parts_of(message: Values) -> Iterator[Values]:
    if message["role"] == "tool":
        said = message["content"]
        yield {"type": "tool_call_response", "id": message["tool_call_id"], "response": said}
        return
    if message["content"] is not None:
        yield {"type": "text", "content": message["content"]}
    for call in message.get("tool_calls", ()):
        function = call["function"]
        arguments = json.loads(function["arguments"])
        yield {
            "type": "tool_call",
            "id": call["id"],
            "name": function["name"],
            "arguments": arguments,
        }


BODIES: dict[str, Callable[[int], Values]] = {
    "chat": chat_body,
    "responses": responses_body,
    "anthropic": anthropic_body,
    "gemini": gemini_body,
}
