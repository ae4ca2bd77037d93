"""What a program has: mappings as cases and as targets, one request, and its answer."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from loopback import KEY, Server
from multiturn import (
    Call,
    Case,
    Files,
    InputError,
    JsonSchema,
    MultiturnError,
    Notice,
    Pipeline,
    ProviderError,
    ProviderRequest,
    ProviderResponse,
    RequestSettings,
    Result,
    TestMessage,
    case_of,
    dry_run,
    load_pipeline,
    load_target,
    prepare,
    run,
    run_batches,
    send,
)
from multiturn.logs import warnings_to
from multiturn.suites.plain import plain_mapping
from multiturn.traces import given as reading

SPEC = load_pipeline("spec")
GIF = "R0lGODdhAQABAIEAAP8AAAAAAAAAAAAAACwAAAAAAQABAAAIBAABBAQAOw=="
URI = f"data:image/gif;base64,{GIF}"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
WEATHER = {"name": "weather", "description": "Of a city.", "parameters": {"type": "object"}}
FUNCTION = {"type": "function", "function": WEATHER}


def seen(case: Case) -> list[tuple[Any, ...]]:
    """Return each message of the chat: its role, its texts and media, the names of its calls."""
    found = []
    for message in SPEC.request(case).chat_prompt or ():
        parts = [message.content] if isinstance(message.content, str) else message.content
        texts = filter(None, [part if isinstance(part, str) else part.text for part in parts])
        found.append((message.role, *texts, *(call.name for call in message.tool_calls)))
    return found


ASKED = [("system", "Be brief."), ("user", "What is it?", "[image]")]
FORMS: dict[str, tuple[dict[str, Any], list[tuple[Any, ...]]]] = {
    "ours": (
        {
            "input_messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": ["What is it?", {"type": "image", "value": URI}]},
            ]
        },
        ASKED,
    ),
    "OpenAI": (
        {
            "model": "gpt-5-mini",
            "messages": [
                {"role": "developer", "content": "Be brief."},
                {
                    "role": "user",
                    "content": (
                        {"type": "text", "text": "What is it?"},
                        {"type": "image_url", "image_url": {"url": URI}},
                    ),
                },
            ],
        },
        ASKED,
    ),
    "OpenAI's Responses API": (
        {
            "model": "gpt-5-mini",
            "instructions": "Be brief.",
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "What is it?"},
                        {"type": "input_image", "image_url": URI},
                    ],
                }
            ],
        },
        ASKED,
    ),
    "Anthropic": (
        {
            "system": [{"type": "text", "text": "Be brief."}],
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is it?"},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/gif", "data": GIF},
                        },
                    ],
                }
            ],
        },
        ASKED,
    ),
    "Gemini": (
        {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                {
                    "role": "user",
                    "parts": [
                        {"text": "What is it?"},
                        {"inlineData": {"mimeType": "image/gif", "data": GIF}},
                    ],
                }
            ],
        },
        ASKED,
    ),
    "a text": ({"input": "Hello"}, [("user", "Hello")]),
    "OpenAI's calls": (
        {
            "messages": [
                {"role": "user", "content": "Rain?"},
                {
                    "role": "assistant",
                    "tool_calls": [
                        {
                            "id": "c1",
                            "function": {"name": "weather", "arguments": "{}"},
                            "type": "function",
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "No."},
            ],
            "tools": [FUNCTION],
        },
        [("user", "Rain?"), ("assistant", "weather"), ("tool", "No.")],
    ),
    "Anthropic's calls": (
        {
            "messages": [
                {"role": "user", "content": "Rain?"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {}}],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "No."}],
                },
            ],
            "tools": [{"name": "weather", "input_schema": {"type": "object"}}],
        },
        [("user", "Rain?"), ("assistant", "weather"), ("tool", "No.")],
    ),
    "Gemini's calls": (
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Rain?"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {}}}]},
                {
                    "role": "user",
                    "parts": [
                        {"functionResponse": {"name": "weather", "response": {"output": "No."}}}
                    ],
                },
            ],
            "tools": [{"functionDeclarations": [{"name": "weather"}]}],
        },
        [("user", "Rain?"), ("assistant", "weather"), ("tool", "No.")],
    ),
}


def with_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: with_tuples(each) for key, each in value.items()}
    return tuple(map(with_tuples, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("form", FORMS)
def test_lists_may_be_tuples(form: str) -> None:
    mapping, _ = FORMS[form]
    assert case_of(with_tuples(mapping)) == case_of(mapping)


@pytest.mark.parametrize("form", FORMS)
def test_a_mapping_in_any_form_is_a_case(form: str) -> None:
    mapping, expected = FORMS[form]
    before = repr(mapping)
    assert [
        tuple("[image]" if "[image" in each else each for each in message)
        for message in seen(case_of(mapping))
    ] == expected
    assert repr(mapping) == before


def test_the_settings_of_a_body_are_those_of_the_case() -> None:
    chat = case_of({"model": "m", "temperature": 0.5, "max_completion_tokens": 7, **HELLO})
    claude = case_of({"system": "S", "max_tokens": 7, "stop_sequences": ["END"], **HELLO})
    gemini = case_of(
        {
            "contents": [{"parts": [{"text": "Hello"}]}],
            "generationConfig": {"topK": 3, "maxOutputTokens": 7},
        }
    )
    assert chat.settings == RequestSettings(temperature=0.5, max_output_tokens=7)
    assert claude.settings == RequestSettings(max_output_tokens=7, stop=("END",))
    assert gemini.settings == RequestSettings(top_k=3, max_output_tokens=7)
    assert (chat.id, case_of({"id": "x", "model": "m", **HELLO}).id) == ("1", "x")


USER = {"role": "user", "content": "Hello"}


@pytest.mark.parametrize(
    ("mapping", "error"),
    [
        pytest.param(
            {"messages": [USER, USER, {"role": "user", "content": [5]}]},
            "case '7': messages[2].content[0] must be text or a mapping, not a number",
            id="a segment",
        ),
        pytest.param(
            {"model": "m", "messages": [USER, {"role": "usr", "content": "Hello"}]},
            "case '7': messages[1]: there is no role 'usr'; did you mean \"user\"?",
            id="a role in a body",
        ),
        pytest.param(
            {**HELLO, "tools": [{"name": "f", "parameters": {"type": "text"}}]},
            "case '7': tools[0]: parameters are a JSON Schema of an object; write type: object",
            id="a tool",
        ),
        pytest.param({"messages": []}, "case '7': messages is empty; add a message", id="none"),
        pytest.param(
            {"mesages": [USER]},
            "case '7': there is no 'input_messages', but \"mesages\"; did you mean"
            ' "input_messages"?',
            id="a misspelled key",
        ),
        pytest.param(
            {"id": " ", **HELLO},
            "id must be text that is not blank",
            id="a blank id of a line of texts",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": "{{ env.KEY }}"}]},
            "case '7': AgentV fills in '{{ env.KEY }}' from the environment, which suites never"
            " read here; write the text itself, or templates: literal in the suite if the braces"
            " are text",
            id="what another tool fills in",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": "\ud800"}]},
            "'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed",
            id="half of a character",
        ),
    ],
)
def test_an_error_names_the_key_and_the_case(mapping: Any, error: str) -> None:
    with pytest.raises(MultiturnError) as raised:
        case_of(mapping, case_id="7")
    assert (str(raised.value), raised.value.case_id) == (error, "7")


def test_what_json_does_not_have_is_no_case() -> None:
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(InputError, match="nested deeper than 100 levels"):
        case_of({"metadata": {"x": deep}, **HELLO})
    deep[0] = deep
    with pytest.raises(InputError, match="recursion"):
        case_of({"metadata": {"x": deep}, **HELLO})
    for wrong in ({"metadata": {"x": object()}, **HELLO}, {"model": "m", "x": object(), **HELLO}):
        with pytest.raises(InputError, match="Encoding objects of type object") as raised:
            case_of({"id": "row", **wrong})
        assert raised.value.case_id == "row"
    many = 2**70
    assert case_of({"metadata": {"x": many}, **HELLO}).metadata == {"x": many}
    parameters = {"type": "object", "properties": {"n": {"type": "integer", "maximum": many}}}
    (tool,) = case_of({**HELLO, "tools": [{"name": "f", "parameters": parameters}]}).tools
    assert tool.parameters == parameters
    with pytest.raises(TypeError, match="a case is a Case or a mapping, not a list"):
        case_of([])  # type: ignore[arg-type]


ROLES = ("system", "user", "assistant", "tool", "usr")
TEXTS = st.sampled_from(("Hello", "", "a.txt", "file://a.txt", "{{ x }}", "${{ X }}", "\ud800"))
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(ROLES), "content": TEXTS | st.text(max_size=5)},
        optional={"name": st.none()},
    ),
    max_size=4,
)
LINES = st.fixed_dictionaries(
    {"messages": MESSAGES}, optional={"id": st.sampled_from(("x", "", " ", 7, None))}
)


@settings(max_examples=400)
@drawn(LINES)
def test_a_line_of_texts_is_read_as_by_the_reader_of_suites(line: dict[str, Any]) -> None:
    plain = plain_mapping(line)
    if plain is not None:
        said: list[Notice] = []
        with warnings_to(said.append):
            read = reading._read(line, Case(id=plain.id or "1", input_messages=()))
            assert case_of(line) == read
        assert said == []


def test_most_lines_of_texts_are_read_quickly() -> None:
    plain = plain_mapping({"id": "x", **HELLO})
    assert plain is not None
    assert (plain.id, plain.messages) == ("x", case_of(HELLO).input_messages)


def test_tools_are_read_once_for_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    line = {**HELLO, "tools": [{"name": "known", "parameters": {"type": "object"}}]}
    before = case_of(line)
    monkeypatch.setattr(reading, "_read", None)
    assert case_of(line) == before
    assert [tool.name for tool in before.tools] == ["known"]


def test_a_tool_that_changes_is_read_again() -> None:
    tool: dict[str, Any] = {"name": "f", "parameters": {"type": "object"}}
    line = {**HELLO, "tools": [tool]}
    assert case_of(line).tools == case_of(line).tools
    tool["description"] = "New."
    assert [each.description for each in case_of(line).tools] == ["New."]
    tool["parameters"]["type"] = "text"
    with pytest.raises(MultiturnError, match="write type: object"):
        case_of(line)


def test_warnings_are_those_of_a_suite() -> None:
    said: list[Notice] = []
    with warnings_to(said.append):
        case_of({"messages": [USER, {"role": "assistant", "content": "Hi"}], "mood": 3})
    assert [notice.event for notice in said] == ["suite.answer_in_prompt", "suite.unknown_key"]


def test_a_text_that_is_the_path_of_a_file_is_a_warning_where_files_can_be_attached(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("A")
    said: list[Notice] = []
    with warnings_to(said.append):
        case_of({"messages": [{"role": "user", "content": "a.txt"}]})
        assert said == []
        case_of(
            {"messages": [{"role": "user", "content": "a.txt"}]}, files=Files(tmp_path, tmp_path)
        )
    assert [notice.event for notice in said] == ["suite.path_as_text"]


def test_nothing_is_attached_unless_the_program_says_where_from(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/rules.md").write_text("Be polite.\n")
    (tmp_path / "secret.txt").write_text("4711")
    files = Files(tmp_path / "in", tmp_path / "in")

    def attaching(path: Any) -> dict[str, Any]:
        content = [{"type": "file", "value": str(path)}, "Hello"]
        return {"messages": [{"role": "user", "content": content}]}

    with pytest.raises(MultiturnError, match="guideline_patterns are several texts"):
        case_of(attaching("rules.md"), files=files, guideline_patterns="*.md")
    case = case_of(attaching("rules.md"), files=files, guideline_patterns=["*.md"])
    (system, user) = SPEC.request(case).chat_prompt or ()
    assert "Be polite." in system.text
    assert "Hello" in user.text
    with pytest.raises(MultiturnError, match="no folder to look for"):
        SPEC.request(case_of(attaching("rules.md")))
    for path in ("../secret.txt", tmp_path / "secret.txt"):
        with pytest.raises(MultiturnError):
            SPEC.request(case_of(attaching(path), files=files))
        with pytest.raises(MultiturnError, match="no folder"):
            SPEC.request(case_of(attaching(path)))
    schema = {"execution": {"response_format": {"schema": str(tmp_path / "secret.txt")}}}
    with pytest.raises(MultiturnError, match="no file"):
        case_of({**HELLO, **schema})


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"temperature": "hot"}, "settings: temperature must be a number, not text"),
        ({"temperature": -1}, "settings: temperature must be 0 or more"),
        ({"stop": "END"}, "settings: stop must be a list, not text"),
        ({"reasoning_effort": "lots"}, "settings: there is no reasoning_effort 'lots'; choose"),
        ({"tool_choice": "weather"}, "settings: there is no tool_choice 'weather'; choose"),
    ],
)
def test_settings_in_python_are_checked_as_those_of_suites(given: Any, error: str) -> None:
    with pytest.raises(InputError) as raised:
        Case(id="a", input_messages=(), settings=RequestSettings(**given))
    assert str(raised.value).startswith(error)


def test_settings_in_python_may_be_all_that_suites_have() -> None:
    settings = RequestSettings(
        temperature=0, stop=("a",), response_format=JsonSchema(schema={}), tool_choice={"name": "f"}
    )
    assert Case(id="a", input_messages=(), settings=settings).settings is settings


TARGET = {"provider": "openai", "model": "gpt-5-mini", "api_key": KEY}


def test_a_target_is_a_mapping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THE_KEY", KEY)
    given = {"max_retries": 1, "headers": {"x-a": "b"}, "seed": 7, "body": {"logprobs": True}}
    target: Any = load_target({**TARGET, "name": "mine", "api_key": "${{ THE_KEY }}", **given})
    assert (target.name, load_target(TARGET).name) == ("mine", "openai")
    assert (target.settings.api_key, target.settings.max_retries) == (KEY, 1)
    assert json.loads(prepare(HELLO, SPEC, target).body) == {
        "messages": [
            {"role": "system", "content": "You are a careful assistant."},
            {"role": "user", "content": "Hello"},
        ],
        "model": "gpt-5-mini",
        "seed": 7,
        "logprobs": True,
    }


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ({}, "there is no 'provider'; add it"),
        ({"provider": "opena"}, "target 'opena': there is no such provider; did you mean"),
        ({**TARGET, "modle": "x"}, 'unknown key "modle"; did you mean "model"?'),
        ({**TARGET, "max_retries": -1}, "target 'openai': max_retries must be 0 or more"),
        ({**TARGET, "api_key": "${{ NOT_SET }}"}, "api_key: the variable NOT_SET is not set"),
        ({**TARGET, "temperature": KEY}, "target 'openai': temperature must be a number"),
    ],
)
def test_an_error_of_a_target_names_the_key_and_hides_keys(target: Any, error: str) -> None:
    with pytest.raises(MultiturnError) as raised:
        load_target(target)
    assert str(raised.value).startswith(error)
    assert KEY not in str(raised.value)


def test_a_pipeline_is_what_the_command_takes(tmp_path: Path) -> None:
    assert Pipeline("spec").steps == SPEC.steps
    assert Pipeline("spec").name == "spec"
    (tmp_path / "house.yaml").write_text("extends: spec\nremove: [filter_empty]\n")
    names = [step.name for step in Pipeline(tmp_path / "house.yaml").steps]
    assert "filter_empty" not in names
    with pytest.raises(MultiturnError, match="spek"):
        Pipeline("spek")


def test_one_call_gives_the_body_with_repairs_digest_and_tokens() -> None:
    target = load_target(
        {
            "provider": "anthropic",
            "model": "claude-sonnet-4-5",
            "api_key": KEY,
            "max_output_tokens": 9,
        }
    )
    found = prepare({"messages": [USER, USER]}, SPEC, target)
    (dry,) = dry_run([{"messages": [USER, USER]}], SPEC, target)
    assert found.wire is not None
    assert json.loads(found.wire.body) == {
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hello\n\nHello"}],
        "model": "claude-sonnet-4-5",
        "system": "You are a careful assistant.",
    }
    assert found.result.repairs == (
        "C9: added the default system message: You are a careful assistant.",
        "A6: merged 2 neighboring user messages",
    )
    assert found.result.digest == found.wire.digest() == dry.result.digest
    assert found.tokens == dry.tokens
    assert found.tokens is not None


def test_a_refusal_is_one_error_with_all_that_is_broken() -> None:
    settings = RequestSettings(temperature=3, seed=1)
    case = Case(id="a", input_messages=(TestMessage("user", "Hi"),), settings=settings)
    target = load_target(
        {
            "provider": "anthropic",
            "model": "claude-sonnet-4-5",
            "api_key": KEY,
            "max_output_tokens": 9,
        }
    )
    with pytest.raises(ProviderError) as raised:
        prepare(case, SPEC, target)
    assert raised.value.kind == "refused"
    assert ("C10: " in raised.value.what, "A9: " in raised.value.what) == (True, True)
    with pytest.raises(TypeError, match="pipeline must be a Pipeline, as load_pipeline gives it"):
        prepare(case, "spec", target)  # type: ignore[arg-type]


# Sending


class Shout:
    """Answers with the last message, after the others have had their turn."""

    name = "shout"

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        await asyncio.sleep(0)
        assert request.chat_prompt is not None
        return ProviderResponse(text=request.chat_prompt[-1].text.upper())


class Slow(Shout):
    """Answers later."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        await asyncio.sleep(0.01)
        return await super().invoke(request)


def at(server: Server, **more: Any) -> Any:
    address = f"{server.url}/v1"
    return load_target({**TARGET, "base_url": address, "max_retries": 0, **more})


def asking(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def test_a_mapping_is_sent_and_answered(server: Server) -> None:
    async def main() -> ProviderResponse:
        async with at(server) as target:
            return await send(HELLO, SPEC, target)

    answer = asyncio.run(main())
    assert answer.text == "Hello from the loopback."
    assert json.loads(server.requests[0].body) == json.loads(answer.wire)
    assert server.requests[0].json["messages"][-1] == {"role": "user", "content": "Hello"}


def test_an_answer_that_does_not_come_is_an_error_with_its_kind(server: Server) -> None:
    async def main() -> None:
        async with at(server) as target:
            await send(HELLO, SPEC, target)

    server.fail(429, f"slow down, {KEY}")
    with pytest.raises(ProviderError) as raised:
        asyncio.run(main())
    assert (raised.value.kind, raised.value.status) == ("rate_limit", 429)
    assert KEY not in str(raised.value)


def test_ten_thousand_calls_at_once_answer_as_one_by_one() -> None:
    async def main() -> list[str]:
        texts = (f"question {number}" for number in range(10_000))
        given = [send(asking(text), SPEC, Shout()) for text in texts]
        return [answer.text for answer in await asyncio.gather(*given)]

    assert asyncio.run(main()) == [f"QUESTION {number}" for number in range(10_000)]


def test_eight_threads_share_a_target_each_with_a_loop_of_its_own(server: Server) -> None:
    server.reply = lambda text: (200, {"choices": [{"message": {"content": text.upper()}}]})
    target, found, bodies = at(server), dict[str, str](), dict[str, bytes]()

    def work(number: int) -> None:
        async def main() -> None:
            for step in range(20):
                text = f"t{number} s{step}"
                bodies[text] = prepare(asking(text), SPEC, target).body
                found[text] = (await send(asking(text), SPEC, target)).text
            await target.aclose()

        asyncio.run(main())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = [f"t{number} s{step}" for number in range(8) for step in range(20)]
    assert found == {text: text.upper() for text in texts}
    assert bodies == {text: prepare(asking(text), SPEC, target).body for text in texts}


def test_a_cancelled_call_ends_and_the_next_one_is_answered(server: Server) -> None:
    async def main() -> str:
        async with at(server) as target:
            server.stall(seconds=30)
            task = asyncio.create_task(send(asking("one"), SPEC, target))
            while not server.requests:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return (await send(asking("two"), SPEC, target)).text

    assert asyncio.run(asyncio.wait_for(main(), 20)) == "Hello from the loopback."


# Runs of mappings, and of what arrives


async def listed(results: AsyncIterator[Result]) -> list[tuple[str, str | None]]:
    return [(r.id, r.error.message if r.error else r.response) async for r in results]


def test_a_run_takes_mappings_and_a_wrong_one_fails_alone() -> None:
    given: list[Any] = [HELLO, {"messages": []}, {"id": "x", **asking("Bye")}]
    assert asyncio.run(listed(run(given, SPEC, Shout(), concurrency=1, order="suite"))) == [
        ("1", "HELLO"),
        ("2", "case '2': messages is empty; add a message"),
        ("x", "BYE"),
    ]
    actions = [(each.result.id, each.action) for each in dry_run(given, SPEC, Shout())]
    assert actions == [("1", "send"), ("2", "unreadable"), ("x", "send")]


def test_a_row_with_a_value_that_json_lacks_fails_alone() -> None:
    rows = [{"id": f"row{n}", "metadata": {"n": n}, **HELLO} for n in range(3)]
    rows[1]["metadata"] = {"n": object()}
    assert asyncio.run(listed(run(rows, SPEC, Shout(), concurrency=1, order="suite"))) == [
        ("row0", "HELLO"),
        ("row1", "Encoding objects of type object is unsupported"),
        ("row2", "HELLO"),
    ]


def test_a_run_answers_what_has_arrived_before_the_next_one_does() -> None:
    async def main() -> list[str | None]:
        queue = asyncio.Queue[dict[str, Any]]()

        async def arriving() -> AsyncIterator[dict[str, Any]]:
            while True:  # without an end
                yield await queue.get()

        queue.put_nowait(asking("one"))
        queue.put_nowait(asking("two"))
        found = []
        async for result in run(arriving(), SPEC, Shout(), concurrency=1):
            found.append(result.response)
            if len(found) == 2:
                queue.put_nowait(asking("three"))
            if len(found) == 3:
                break
        return found

    assert asyncio.run(asyncio.wait_for(main(), 20)) == ["ONE", "TWO", "THREE"]


def test_what_has_arrived_goes_to_each_target_before_the_next_one_arrives() -> None:
    async def main() -> set[tuple[str, Any]]:
        async def arriving() -> AsyncIterator[dict[str, Any]]:
            yield asking("one")
            await asyncio.Event().wait()

        other, found = Shout(), set[tuple[str, Any]]()
        other.name = "other"
        async for result in run(arriving(), SPEC, [Shout(), other], concurrency=1, repeat=2):
            found.add((result.target, result.repeat))
            if len(found) == 4:
                break
        return found

    found = asyncio.run(asyncio.wait_for(main(), 20))
    assert found == {("shout", 1), ("shout", 2), ("other", 1), ("other", 2)}


def test_a_run_reads_no_further_than_it_can_send() -> None:
    read: list[int] = []

    async def arriving() -> AsyncIterator[dict[str, Any]]:
        for number in range(12):
            read.append(number)
            yield asking(str(number))

    async def main() -> int:
        most, done = 0, 0
        async for _ in run(arriving(), SPEC, Slow(), concurrency=3):
            most, done = max(most, len(read) - done), done + 1
        return most

    assert asyncio.run(main()) == 3
    assert len(read) == 12


def test_what_an_async_iterable_raises_ends_the_run_after_the_answers() -> None:
    async def arriving() -> AsyncIterator[dict[str, Any]]:
        yield asking("one")
        raise LookupError("the queue is gone")

    found: list[str | None] = []

    async def main() -> None:
        async for result in run(arriving(), SPEC, Shout()):
            found.append(result.response)  # noqa: PERF401 - it ends by an error

    with pytest.raises(LookupError, match="the queue is gone"):
        asyncio.run(main())
    assert found == ["ONE"]


def test_what_arrives_is_for_runs_without_a_limit(tmp_path: Path) -> None:
    async def arriving() -> AsyncIterator[dict[str, Any]]:
        yield HELLO

    target = load_target(TARGET)
    words = "batches and limits take no async iterable; give a list of cases"
    with pytest.raises(ValueError, match=words):
        asyncio.run(listed(run(arriving(), SPEC, target, max_tokens=5)))
    with pytest.raises(ValueError, match=words):
        list(run_batches(arriving(), SPEC, target, str(tmp_path / "out.jsonl")))  # type: ignore[arg-type]


def test_a_dry_run_of_what_arrives_is_async() -> None:
    async def arriving() -> AsyncIterator[dict[str, Any]]:
        yield HELLO
        yield {"messages": []}

    async def main() -> list[tuple[str, str]]:
        return [(c.result.id, c.action) async for c in dry_run(arriving(), SPEC, Shout())]

    assert asyncio.run(main()) == [("1", "send"), ("2", "unreadable")]


def test_calls_come_back_as_calls() -> None:
    given, _ = FORMS["OpenAI's calls"]
    (_, asked, answer) = case_of(given).input_messages
    assert (asked.calls, answer.answers) == ((Call("c1", "weather", {}),), "c1")
    assert [tool.name for tool in case_of(given).tools] == ["weather"]
