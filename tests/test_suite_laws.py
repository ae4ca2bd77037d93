"""Laws of reading: no string of a suite vanishes, and each dialect gives the same requests."""

import base64
import csv
import io
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layout import laid_out
from multiturn import (
    Case,
    ChatMessage,
    Conversion,
    MultiturnError,
    ProviderRequest,
    explain,
    load_suite,
)
from multiturn.logs import Notice, warnings_to

PAGE = (Path(__file__).parent.parent / "docs/suites.md").read_text(encoding="utf-8")
SPEC = laid_out()

# --- Each string of a suite is in the prompt, documented as something else, or named

MARK = "zq"  # in each string that a suite makes up
HEADS = (b"\x89PNG\r\n\x1a\n", b"%PDF-", b"ID3\x03\x00")
IN_BASE64 = ("iVBORw0KGgp", "JVBERi1", "SUQzAwB")
LISTED = [
    set(re.findall("`(.+?)`", row.split("|")[2]))
    for row in PAGE.partition("### Keys of other tools")[2].splitlines()
    if row.startswith("| ") and "`" in row
]
PLACES = ("suite", "case", "message", "options", "input", "execution", "tool", "call", "block")
IRRELEVANT = dict(zip(PLACES, LISTED, strict=True))
ANSWERS = ["expected_messages", "expected_output", "preferred_output", "ideal"]
ANSWERS += ["outcome", "criteria", "expected_outcome"]
SETTINGS = {"$schema", "id", "guideline_patterns", "conversation_id", *ANSWERS}
PROMPTS = ("systemPrompt", "system_prompt")
MESSAGES = ("input_messages", "input", "messages")
REFUSED = ["system", "instructions", "instruction", "functions", "choices", "turns", "include"]


class Maker:
    """Makes up parts of a suite; each string is there once, and begins with a mark."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def word(self) -> str:
        self.count += 1
        return f"{MARK}{self.count}x"

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def one_of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def anything(self) -> Any:
        word = self.word
        return self.one_of(word(), [word(), {word(): word()}], {word(): [word()]}, 5, None)

    def some(self, keys: dict[str, Any], percent: int = 25) -> dict[str, Any]:
        """Return some of the keys, each with what its function makes."""
        return {key: make() for key, make in keys.items() if self.chance(percent)}

    def extra(self, place: str) -> dict[str, Any]:
        """Return keys that are irrelevant, unknown, or refused."""
        known = sorted(IRRELEVANT[place])
        keys = {self.one_of(*known): self.anything() for _ in range(2) if self.chance(30)}
        if self.chance(25):
            keys[self.word()] = self.anything()
        if place in ("suite", "case") and self.chance(5):
            keys[self.one_of(*REFUSED)] = self.anything()
        return keys

    def text(self) -> str:
        word = self.word()
        return str(self.one_of(word, f"{word} and {self.word()}", f"{{{{ {word} }}}}", word, word))

    def uri(self, head: bytes) -> str:
        """Return bytes that begin as those of media, with a word of their own, in base64."""
        return base64.b64encode(head + self.word().encode()).decode()

    def media(self) -> dict[str, Any]:
        """Return an image, a document or audio in the form of one of the tools."""
        (image, pdf, audio), address = map(self.uri, HEADS), f"https://{self.word()}"
        form = self.one_of(
            {"type": "image", "value": self.one_of(f"data:;base64,{image}", address)},
            {"type": "file", "value": f"data:;base64,{audio}", "name": self.word()},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}},
            {"type": "image_url", "image_url": {"url": address, **self.odd()}},
            {"type": "file", "file": {"file_data": pdf, "filename": self.word()}},
            {"type": "input_audio", "input_audio": {"data": audio, "format": "mp3"}},
            {"type": "input_image", "image_url": address, "detail": "low"},
            {"type": "input_file", "file_data": f"data:;base64,{pdf}", "filename": self.word()},
            {"type": "input_text", "text": self.text()},
            {"type": "image", "source": self.source("image/png", image, address)},
            {"type": "document", "source": self.source("application/pdf", pdf, address)},
            {"type": "document", "source": {"type": "text", "data": self.text(), **self.odd()}},
            {"type": "image", "image": self.one_of(f"data:;base64,{image}", address)},
            {"type": "audio", "audio": f"data:;base64,{audio}", "format": "mp3"},
            {"type": "document", "document": f"data:;base64,{pdf}", "filename": self.word()},
            {"type": "image", "source": address, "media_type": "image/png"},
        )
        citations = {"citations": lambda: {"enabled": True, **self.odd()}}
        odd = self.some({"title": self.word, "context": self.word, **citations}, 3)
        return {**form, **odd, **self.extra("block"), **self.odd()}

    def source(self, media_type: str, data: str, address: str) -> dict[str, Any]:
        inline = {"type": "base64", "media_type": media_type, "data": data}
        return {**self.one_of(inline, {"type": "url", "url": address}), **self.odd()}

    def segment(self) -> Any:
        if self.chance(30):
            return self.media()
        return self.one_of(
            self.text(),
            {"type": "text", "value": self.text()},
            {"type": "text", "text": self.text(), **self.extra("input")},
            {"type": "file", "value": "a.md"},
            {self.word(): self.word(), self.word(): [self.word(), {self.word(): self.text()}]},
            {"file": self.word()},
        )

    def message(self) -> dict[str, Any]:
        content = self.segment() if self.chance(60) else [self.segment(), self.segment()]
        role = self.one_of("user", "user", "assistant", "system", "developer", "tool")
        odd = {"name": self.word, "tool_calls": lambda: self.one_of([], None, [self.anything()])}
        return {"role": role, "content": content, **self.some(odd, 3), **self.extra("message")}

    def schema(self) -> dict[str, Any]:
        described = {"type": "string", "description": self.text()}
        return {"type": "object", "properties": {self.word(): described}, self.word(): self.text()}

    def tool(self) -> dict[str, Any]:
        name, said = self.word(), {"description": self.text()}
        ours = {"name": name, **said, "parameters": self.schema(), "strict": True}
        anthropic = {"name": name, **said, "input_schema": self.schema()}
        openai = {"type": "function", "function": {**ours, **self.odd()}}
        return {**self.one_of(ours, openai, anthropic), **self.extra("tool")}

    def odd(self) -> dict[str, Any]:
        """Return an unknown key, at times."""
        return {self.word(): self.anything()} if self.chance(10) else {}

    def arguments(self) -> dict[str, Any]:
        return {self.word(): self.one_of(self.text(), [self.word(), {self.word(): 5}], None)}

    def call(self, form: str) -> dict[str, Any]:
        call = {"id": self.word(), **self.odd()}
        if form == "anthropic":
            use = {"type": "tool_use", "name": self.word(), "input": self.arguments()}
            return {**call, **use, **self.extra("block")}
        call |= self.extra("call")
        if form == "inspect":
            return {**call, "function": self.word(), "arguments": self.arguments()}
        if form == "openai":
            function = {"name": self.word(), "arguments": json.dumps(self.arguments())}
            return {**call, "type": "function", "function": {**function, **self.odd()}}
        signed = self.some({"thought_signature": self.word})
        return {**call, "name": self.word(), "arguments": self.arguments(), **signed}

    def thinking(self) -> dict[str, Any]:
        keys = self.one_of(
            {"type": "thinking", "thinking": self.text(), "signature": self.word()},
            {"type": "redacted_thinking", "data": self.word()},
            {"type": "reasoning", "reasoning": self.text(), "signature": self.word()},
            {"type": "reasoning", "reasoning": self.word(), "redacted": True},
        )
        return {**keys, **self.extra("block"), **self.odd()}

    def tool_messages(self) -> list[dict[str, Any]]:
        """Return a message with calls, and their results."""
        form = self.one_of("ours", "openai", "anthropic", "inspect")
        calls = [self.call(form) for _ in range(self.random.randint(1, 2))]
        content: list[Any] = [self.thinking() for _ in range(2) if self.chance(40)]
        content += [self.text()] if self.chance(50) else []
        said = {"role": "assistant", **self.extra("message")}
        if form == "anthropic":
            answers = [
                {"type": "tool_result", "tool_use_id": call["id"], "content": self.content()}
                | self.some({"is_error": lambda: True})
                | self.extra("block")
                for call in calls
            ]
            rest = [self.text()] if self.chance(50) else []
            return [
                {**said, "content": [*content, *calls]},
                {"role": "user", "content": [*answers, *rest], **self.extra("message")},
            ]
        name = {"inspect": "function", "openai": "name"}.get(form)
        return [{**said, "content": content, "tool_calls": calls}] + [
            {"role": "tool", "tool_call_id": call["id"], "content": self.content()}
            | ({name: call.get("function")} if name == "function" else {})
            | ({name: call["function"]["name"]} if name == "name" and self.chance(50) else {})
            | self.extra("message")
            for call in calls
        ]

    def content(self) -> Any:
        text = {"type": "text", "text": self.text()}
        return self.one_of(self.text(), [text], [self.media(), text, self.media()], "")

    def conversation(self) -> list[dict[str, Any]]:
        messages = [self.message() for _ in range(self.random.randint(1, 3))]
        return messages + (self.tool_messages() if self.chance(30) else [])

    def given_input(self) -> Any:
        return self.one_of(
            self.text(),
            self.conversation(),
            json.dumps(self.conversation()),
            self.message(),
            {self.word(): self.text()},
            {
                "messages": self.conversation(),
                **self.some({"tools": lambda: [self.tool()]}, 10),
                **self.extra("input"),
            },
        )

    def metadata(self) -> Any:
        return self.some({**dict.fromkeys(PROMPTS, self.word), self.word(): self.anything}, 40)

    def options(self) -> Any:
        keys = dict.fromkeys([*sorted(IRRELEVANT["options"]), self.word()], self.anything)
        return self.some(keys, 20) | self.some({"prefix": self.word, "transformVars": self.word}, 3)

    def variables(self, name: str) -> Any:
        others = {self.word(): self.anything, "expected_output": self.anything}
        return self.some({name: self.given_input, **others}, 60)

    def common(self) -> dict[str, Any]:
        keys: dict[str, Any] = {
            "metadata": self.metadata,
            "guidelines": lambda: [self.text()],
            "tools": lambda: self.one_of([], [self.tool()]) if self.chance(30) else None,
            "execution": lambda: {"temperature": 0, **self.extra("execution")},
            "options": self.options,
            "vars": lambda: self.variables("x") if self.chance(20) else {},
        }
        return self.some(keys)

    def case(self, number: int, variable: str) -> dict[str, Any]:
        messages = self.one_of(*MESSAGES, "input", "vars" if variable else "input")
        keys = {"id": f"c{number}", **self.common(), **self.extra("case")}
        keys |= self.some(dict.fromkeys(ANSWERS, self.anything), 8)
        keys |= self.some({"input_files": lambda: ["a.md"], "vars": lambda: self.variables("x")}, 8)
        if messages == "vars":
            return keys | {"vars": self.variables(variable) | {variable: self.given_input()}}
        own = self.conversation() if messages == "input_messages" else self.given_input()
        return keys | {messages: own} | self.some({MESSAGES[0]: self.conversation}, 2)

    def suite(self) -> dict[str, Any]:
        variable = self.one_of("", "", "input", "query")
        head = {**self.common(), **self.extra("suite")}
        head |= self.some({"input": self.given_input, "input_files": lambda: ["b.md"]}, 20)
        head |= self.some({"templates": lambda: "literal"}, 50)
        if variable:
            head["prompts"] = [f"{{{{ {variable} }}}}"]
            defaults = {"vars": lambda: self.variables(variable), "options": self.options}
            keys = dict.fromkeys(("default_test", "defaultTest"), lambda: self.some(defaults))
            head |= self.some(keys, 30)
        cases = [self.case(each, variable) for each in range(self.random.randint(1, 3))]
        return head | {self.one_of("tests", "evalcases", "cases"): cases}


def strings(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield each made-up word below a value, of keys, too, with the keys above it."""
    if isinstance(value, str) and value.startswith(('[{"', f'{{"{MARK}')):
        yield from strings(json.loads(value), path)
    elif isinstance(value, str):
        yield from ((path, word) for word in re.findall(rf"{MARK}\d+x", decoded(value)))
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from strings(key, path)
            yield from strings(child, (*path, key))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from strings(child, (*path, number))


def decoded(text: str) -> str:
    """Return a text; of media, the bytes that it is in base64."""
    data = text.partition("base64,")[2] or text
    if not data.startswith(IN_BASE64):
        return text
    return base64.b64decode(data).decode("latin-1")


def is_documented(place: str, path: tuple[Any, ...], variable: str) -> bool:
    """Return whether the page says that what is at a path does not become prompt text."""
    match path:
        case (key, *_) if key in SETTINGS or key in IRRELEVANT[place]:
            return True
        case ("metadata", key, *_):
            return key not in PROMPTS
        case ("metadata",):
            return True
        case ("vars", key, *below) if key == variable:
            return is_documented(place, ("input", *below), variable)
        case ("options" | "execution" as above, key, *_):
            return key in IRRELEVANT[above]
        case ("default_test" | "defaultTest", *below):
            return is_documented("case", tuple(below), variable)
        case (key, "tools", *below) if key in MESSAGES:
            return is_documented(place, ("tools", *below), variable)
        case ("tools", int(), "function", key, *_) | ("tools", int(), key, *_):
            return key in IRRELEVANT["tool"]
        case (key, "messages", *below) if key in MESSAGES:
            return is_documented(place, (MESSAGES[0], *below), variable)
        case (key, int(), "tool_calls", int(), below, *_) if key in MESSAGES:
            return below in IRRELEVANT["call"]
        case (key, *below) if key in MESSAGES and "content" in below:
            # Of a message, of a list of them, or of a result; in it, of a block or of a list.
            keys = [each for each in below if each != "content" and not isinstance(each, int)]
            return keys[0] in IRRELEVANT["block"] | IRRELEVANT["message"]
        case (key, int(), below, *_) if key in MESSAGES:
            return below in IRRELEVANT["message"]
        case (key, below, *_) if key in MESSAGES:
            return below in IRRELEVANT["message"] | IRRELEVANT["input"]
    return False


def is_overridden(
    path: tuple[Any, ...], case: dict[str, Any], variable: str, defaults: dict[str, Any]
) -> bool:
    """Return whether a case says something else in place of what its suite says at a path.

    Variables of the suite are overridden by its ``defaults``, too.
    """
    match path:
        case ("vars", key, *_) if key in defaults:
            return True
        case ("metadata", key, *_) if key in PROMPTS:
            return any(each in case.get("metadata", {}) for each in PROMPTS)
        case ("default_test" | "defaultTest", "vars", key, *_) if key == variable:
            return variable in case.get("vars", {}) or not {*MESSAGES}.isdisjoint(case)
        case ("vars", key, *_) | ("default_test" | "defaultTest", "vars", key, *_):
            has_answer = key == "expected_output" and not {*ANSWERS}.isdisjoint(case)
            return has_answer or key in case.get("vars", {})
        case ("tools", *_) | ("input", "tools", *_):
            beside = [case.get(key) for key in (*MESSAGES, "vars")]
            return case.get("tools") is not None or "'tools'" in str(beside)
    return False


def said_of(case: Case, request: ProviderRequest) -> str:
    """Return the prompt of a case, and what is said of what is not in it."""
    prompt = [text for message in request.chat_prompt or () for text in texts_of(message)]
    prompt += [f"{tool.name} {tool.description} {tool.parameters}" for tool in request.tools]
    conversion = SPEC(Conversion(case))
    notices = [f"{notice.where} {notice.why}" for notice in conversion.notices]
    return "\n".join(
        [
            *(request.question, *request.guidelines, *prompt, *notices, str(explain(conversion))),
            *(word for _, word in strings([case.metadata.get("vars"), case.expected_messages])),
        ]
    )


def texts_of(message: ChatMessage) -> Iterator[str]:
    """Yield all that a message holds: its text, thinking, calls, and the call that it answers."""
    content = (message.content,) if isinstance(message.content, str) else message.content
    for piece in content:
        if isinstance(piece, str):
            yield piece
        else:
            yield piece.url or f"{piece.path} {piece.data.decode('latin-1')}"
    yield message.tool_call_id or ""
    for block in message.thinking:
        yield from (block.text, block.signature, block.data)
    for call in message.tool_calls:
        yield from (call.id, call.name, str(call.arguments), call.signature)


def written(suite: dict[str, Any], form: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the part of a suite that a form can hold, and its files; the first is the suite."""
    (key,) = {"tests", "evalcases", "cases"} & suite.keys()
    lines = "".join(json.dumps(case) + "\n" for case in suite[key])
    if form == "lines":
        return {key: suite[key]}, {"x.jsonl": lines}
    if form == "merge keys":  # of two, the key of the mapping itself counts
        merged = json.dumps({**suite, key: [merging(case) for case in suite[key]]})
        return suite, {"x.yaml": merged.replace('"<<": ', "<<: ")}
    if form == "file of cases":
        return suite, {"x.yaml": json.dumps({**suite, key: "cases.jsonl"}), "cases.jsonl": lines}
    return suite, {"x.yaml": json.dumps(suite)}


def merging(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case that merges half of its keys from a mapping, and overrides its id."""
    own = dict(list(case.items())[::2])
    others = {key: value for key, value in case.items() if key not in own}
    return {**own, "<<": {**others, "id": "overridden"}}


def lost(folder: Path, given: dict[str, Any], form: str) -> list[str]:
    """Return each word of a suite that is nowhere, for each of its cases that is read."""
    suite, files = written(given, form)
    for name, text in {**files, "a.md": "A file.", "b.md": "Another."}.items():
        (folder / name).write_text(text, encoding="utf-8")
    notices: list[Notice] = []
    with warnings_to(notices.append):
        cases = list(load_suite(folder / next(iter(files)), on_error=lambda _: None))
    warned = "\n".join(f"{notice.where} {notice.why}" for notice in notices)
    (listed,) = (value for key, value in suite.items() if key in ("tests", "evalcases", "cases"))
    head = {key: value for key, value in suite.items() if value is not listed}
    variable = re.sub(r"\W", "", str(suite.get("prompts", "")))
    given_to_all = head.get("default_test", head.get("defaultTest", {}))
    defaults = given_to_all.get("vars", {})
    found = []
    for case in cases:
        try:
            said = f"{warned}\n{said_of(case, SPEC.request(case))}"
        except MultiturnError:
            continue
        own = listed[int(case.id[1:])]
        words = [("suite", *each) for each in strings(head)]
        words += [("case", *each) for each in strings(own)]
        for place, above, word in words:
            named = [f'unknown key "{key}"' for key in above]
            named += [f"{key} are not asked for" for key in above]
            named += ["metadata.systemPrompt"] if above[:1] == ("metadata",) else []
            is_named = word in said or any(each in said for each in named)
            is_elsewhere = place == "suite" and is_overridden(above, own, variable, defaults)
            if not (is_named or is_elsewhere or is_documented(place, above, variable)):
                found.append(f"{place} {above} {word}")
    return found


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.sampled_from(["suite", "merge keys", "file of cases", "lines"]))
def test_each_string_of_a_suite_is_in_the_prompt_or_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, seed: int, form: str
) -> None:
    assert lost(tmp_path_factory.getbasetemp(), Maker(seed).suite(), form) == []


# --- Each dialect gives the same requests

texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9
)
texts |= st.sampled_from(
    ["{{ x }}", "{% if %}", "a,b", 'say "hi"', "two\nlines", "- x: y", "[1]", "#"]
)
BYTES = {"image": HEADS[0], "document": HEADS[1], "audio": HEADS[2]}
media = st.builds(
    lambda kind, more: {"type": kind, "value": uri_of(kind, BYTES[kind] + more)},
    st.sampled_from([*BYTES]),
    st.binary(max_size=9),
)
contents = texts | st.lists(texts | media | st.just({"a": [1, "x"]}), min_size=1, max_size=4)
turns = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool"]), "content": contents}
    ),
    min_size=1,
    max_size=3,
)
conversations = st.tuples(
    st.lists(st.fixed_dictionaries({"role": st.just("system"), "content": texts}), max_size=1),
    turns,
).map(lambda both: both[0] + both[1])

Files = dict[str, str]
Message = dict[str, Any]
TYPES = {"image": "image/png", "document": "application/pdf", "audio": "audio/mp3"}


def uri_of(kind: str, data: bytes) -> str:
    return f"data:{TYPES[kind]};base64,{base64.b64encode(data).decode()}"


def with_parts(messages: list[Message], part: Callable[[Any], Any]) -> list[Message]:
    """Return messages with the parts of their contents in another form."""
    return [
        {**each, "content": list(map(part, each["content"]))}
        if isinstance(each["content"], list)
        else each
        for each in messages
    ]


def ours(messages: list[Message], answer: str) -> Files:
    case = {"id": "a", "input_messages": messages, "expected_messages": answered(answer)}
    return {"x.yaml": json.dumps({"evalcases": [case]})}


def answered(answer: str) -> list[Message]:
    return [{"role": "assistant", "content": answer}]


def agentv(messages: list[Message], answer: str) -> Files:
    case = {"id": "a", "input": messages, "expected_output": answer}
    return {"x.yaml": json.dumps({"tests": [case]})}


def agentv_shared(messages: list[Message], answer: str) -> Files:
    case = {"id": "a", "input": messages[1:], "expected_output": answered(answer)}
    given = messages[0] if len(messages) > 1 else []
    suite = {"input": given, "cases": [case if given else {**case, "input": messages}]}
    return {"x.yaml": json.dumps(suite)}


def agentv_folder(messages: list[Message], answer: str) -> Files:
    case = {"input": messages, "expected_output": answer}
    return {"x.yaml": "tests: cases", "cases/a/case.yaml": json.dumps(case)}


def openai_lines(messages: list[Message], answer: str) -> Files:
    renamed = with_parts(messages, openai_part)
    for each in renamed:
        each["role"] = each["role"].replace("system", "developer")
    return {"x.jsonl": json.dumps({"id": "a", "messages": renamed, "ideal": answer})}


def openai_part(part: Any) -> Any:
    match part:
        case str():
            return {"type": "text", "text": part}
        case {"type": "image", "value": uri}:
            return {"type": "image_url", "image_url": {"url": uri}}
        case {"type": "document", "value": uri}:
            return {"type": "file", "file": {"file_data": uri}}
        case {"type": "audio", "value": uri}:
            data = uri.partition(",")[2]
            return {"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}}
    return part


def openai_responses(messages: list[Message], answer: str) -> Files:
    return agentv(with_parts(messages, responses_part), answer)


def responses_part(part: Any) -> Any:
    match part:
        case str():
            return {"type": "input_text", "text": part}
        case {"type": "image", "value": uri}:
            return {"type": "input_image", "image_url": uri}
        case {"type": _, "value": uri}:
            return {"type": "input_file", "file_data": uri}
    return part


def anthropic(messages: list[Message], answer: str) -> Files:
    return agentv(with_parts(messages, anthropic_part), answer)


def anthropic_part(part: Any) -> Any:
    match part:
        case str():
            return {"type": "text", "text": part, "cache_control": {"type": "ephemeral"}}
        case {"type": "image" | "document" as kind, "value": uri}:
            data = uri.partition(",")[2]
            source = {"type": "base64", "media_type": TYPES[kind], "data": data}
            return {"type": kind, "source": source}
    return part


def openai_preferences(messages: list[Message], answer: str) -> Files:
    line = {"id": "a", "input": {"messages": messages}, "preferred_output": answered(answer)}
    return {"x.jsonl": json.dumps(line)}


def inspect(messages: list[Message], answer: str) -> Files:
    said = with_parts(messages, inspect_part)
    return {"x.jsonl": json.dumps({"id": "a", "input": said, "target": answer})}


def inspect_part(part: Any) -> Any:
    match part:
        case {"type": kind, "value": uri}:
            return {"type": kind, kind: uri}
    return part


def json_in_text(messages: list[Message], answer: str) -> Files:
    case = {"id": "a", "input": json.dumps(messages), "ideal": answer}
    return {"x.yaml": json.dumps({"eval_cases": [case]})}


def promptfoo(messages: list[Message], answer: str) -> Files:
    test = {"description": "a", "vars": {"turns": messages}, "expected_output": answer}
    suite = {"templates": "literal", "prompts": ["{{turns}}"], "tests": [test]}
    return {"x.yaml": json.dumps(suite)}


def promptfoo_defaults(messages: list[Message], answer: str) -> Files:
    defaults = {"vars": {"turns": json.dumps(messages)}}
    suite = {"templates": "literal", "prompts": "{{ turns }}", "defaultTest": defaults}
    return {"x.yaml": json.dumps({**suite, "tests": [{"id": "a", "expected_output": answer}]})}


def rows(messages: list[Message], answer: str) -> Files:
    table = io.StringIO()
    csv.writer(table).writerows([["id", "input", "ideal"], ["a", json.dumps(messages), answer]])
    return {"x.yaml": "tests: [cases.csv]", "cases.csv": table.getvalue()}


DIALECTS = [agentv, agentv_shared, agentv_folder, openai_lines, openai_preferences, inspect]
DIALECTS += [openai_responses, anthropic]
DIALECTS += [json_in_text, promptfoo, promptfoo_defaults, rows]


def request_of(folder: Path, files: Files) -> tuple[Any, ...] | str:
    """Return what is sent for the only case of a suite, or why it is none."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", newline="")
    with warnings_to(lambda _: None):
        (case,) = load_suite(folder / next(iter(files)))
    try:
        sent = SPEC.request(case)
    except MultiturnError as error:
        return error.what
    return sent.eval_id, sent.chat_prompt, sent.question, sent.expected_messages


@settings(max_examples=25)
@given(conversations, texts)
def test_each_dialect_gives_the_same_request(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Message], answer: str
) -> None:
    folder = tmp_path_factory.getbasetemp()
    expected = request_of(folder, ours(messages, answer))
    assert {write.__name__: request_of(folder, write(messages, answer)) for write in DIALECTS} == {
        write.__name__: expected for write in DIALECTS
    }
