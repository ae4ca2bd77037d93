"""Calls, results and thinking are sent as LiteLLM would send them, up to listed differences."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from histories import history
from media_histories import media_history
from multiturn import ChatMessage, Media, ProviderRequest
from multiturn.files.media import with_bytes
from multiturn.logs import Notice, warnings_to
from multiturn.model.request import turn_of
from multiturn.providers.openai.chat import chat_message
from multiturn.traces.suite import Attached, Imported, imported
from vendors import PROVIDERS

WITH_MEDIA = 1000
HISTORIES = int(os.environ.get("HISTORIES", "3000"))
SCRIPT = Path(__file__).with_name("litellm_messages.py")


@pytest.fixture(scope="module")
def converted() -> list[tuple[ProviderRequest, Any, Any]]:
    """Return requests, and what LiteLLM makes of each for Anthropic and for Gemini."""
    requests = [*map(history, range(HISTORIES))]
    made = litellm_messages(requests)
    return [(request, *both) for request, both in zip(requests, made, strict=True)]


def litellm_messages(requests: Iterable[ProviderRequest]) -> list[Any]:
    """Return what LiteLLM makes of requests for Anthropic and for Gemini."""
    program = os.environ.get("LITELLM") or shutil.which("litellm")
    if program is None:
        pytest.skip("there is no LiteLLM; make test-tools installs it")
    lines = "".join(f"{json.dumps(as_openai(request))}\n" for request in requests)
    done = subprocess.run(
        [Path(program).absolute().with_name("python"), SCRIPT],
        input=lines,
        capture_output=True,
        text=True,
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[[")]


def as_openai(request: ProviderRequest) -> list[dict[str, Any]]:
    """Return the messages in OpenAI's form.

    Results directly follow their calls, and blank texts are left out: LiteLLM moves none, and
    writes a sentence in place of a blank text. It gets the thinking that Anthropic signed: it sends
    whatever it gets.
    """
    messages = [
        m
        for m in request.chat_prompt or ()
        if m.role != "system"
        and (str(m.content).strip() or m.tool_calls or m.tool_call_id is not None)
    ]
    results = {m.tool_call_id: m for m in messages if m.tool_call_id is not None}
    written = []
    for message in messages:
        if message.tool_call_id is not None:
            continue
        written.append(written_message(message))
        ids = {call.id for call in message.tool_calls}
        written += [
            {"role": "tool", "tool_call_id": name, "content": result.content}
            for name, result in results.items()
            if name in ids
        ]
    return written


def written_message(message: ChatMessage) -> dict[str, Any]:
    content: Any = message.content
    if not isinstance(content, str):
        content = chat_message(turn_of(message))["content"]
        content = json.loads(msgspec.json.encode(content, enc_hook=with_bytes))
    elif not content.strip():
        content = None
    said: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                **(
                    {"provider_specific_fields": {"thought_signature": call.signature}}
                    if call.signature
                    else {}
                ),
            }
            for call in message.tool_calls
        ]
    blocks = [block for block in message.thinking if block.vendor == "anthropic"]
    said["thinking_blocks"] = [
        {"type": "redacted_thinking", "data": block.data}
        if block.data
        else {"type": "thinking", "thinking": block.text, "signature": block.signature}
        for block in blocks
        if block.data or block.signature
    ]
    return said


def body(vendor: str, request: ProviderRequest) -> Any:
    with warnings_to(lambda _: None):
        return msgspec.json.decode(PROVIDERS[vendor]().wire(request).body)


def joined(blocks: Iterable[Any]) -> list[Any]:
    """Return blocks with neighboring texts as one."""
    found: list[Any] = []
    for block in blocks:
        if "text" in block and found and "text" in found[-1]:
            found[-1] = {**block, "text": f"{found[-1]['text']}\n\n{block['text']}"}
        else:
            found.append(block)
    return found


def test_for_anthropic(converted: list[tuple[ProviderRequest, Any, Any]]) -> None:
    compared = 0
    for request, theirs, _ in converted:
        ids = [call.id for message in request.chat_prompt or () for call in message.tool_calls]
        if len({re.sub(r"[^a-zA-Z0-9_-]", "_", name) for name in ids}) < len(ids):
            continue  # LiteLLM gives both the same id, and drops one of the calls.
        ours = body("anthropic", request)["messages"]
        assert alike_anthropic(ours) == alike_anthropic(deepcopy(theirs))
        compared += 1
    assert compared > 0.9 * len(converted)


def alike_anthropic(messages: Any) -> list[Any]:
    """Return messages without what LiteLLM does in another way."""
    found = []
    for message in messages:
        content = message["content"]
        # It always writes blocks, and keeps neighboring messages apart as blocks.
        blocks = joined(
            [{"type": "text", "text": content}] if isinstance(content, str) else content
        )
        for block in blocks:
            # It replaces letters of ids, too, but never looks for two that become one.
            block.pop("id", None)
            block.pop("tool_use_id", None)
            # OpenAI's form does not say that a call failed.
            block.pop("is_error", None)
            if block["type"] == "tool_result":
                # It sends results that are blank.
                block["content"] = block.get("content", "").strip()
        found.append([message["role"], blocks])
    return found


@pytest.mark.parametrize("vendor", ["anthropic", "gemini"])
def test_images_documents_and_audio(vendor: str) -> None:
    requests = [as_comparable(media_history(number, vendor)) for number in range(WITH_MEDIA)]
    key, alike = {
        "anthropic": ("messages", alike_anthropic),
        "gemini": ("contents", alike_gemini),
    }[vendor]
    count = 0
    for request, both in zip(requests, litellm_messages(requests), strict=True):
        ids = [call.id for message in request.chat_prompt or () for call in message.tool_calls]
        twins = any(has_twins(message) for message in request.chat_prompt or ())
        if twins or len({re.sub(r"[^a-zA-Z0-9_-]", "_", name) for name in ids}) < len(ids):
            continue
        ours = body(vendor, request)[key]
        count += 1
        assert alike(ours) == alike(both[vendor == "gemini"])
    assert count > 0.8 * WITH_MEDIA


def as_comparable(request: ProviderRequest) -> ProviderRequest:
    """Return a request without what LiteLLM does in another way.

    It fetches the addresses of images, has a form of its own for media in results, and writes a
    sentence in place of a blank text.
    """
    prompt = []
    for message in request.chat_prompt or ():
        if isinstance(message.content, tuple):
            texts = [each for each in message.content if isinstance(each, str) and each.strip()]
            media = [each for each in message.content if isinstance(each, Media) and not each.url]
            kept = [each for each in message.content if each in texts or each in media]
            is_text = message.role == "tool" or not media
            content = "".join(texts[:1]) if is_text else tuple(kept)
            message = structs.replace(message, content=content)
        prompt.append(message)
    return structs.replace(request, chat_prompt=tuple(prompt))


def test_for_gemini(converted: list[tuple[ProviderRequest, Any, Any]]) -> None:
    compared = 0
    for request, _, theirs in converted:
        if any(has_twins(message) for message in request.chat_prompt or ()):
            continue  # LiteLLM sends one of two calls with the same arguments, and both results.
        ours = body("gemini", request)["contents"]
        assert alike_gemini(ours) == alike_gemini(theirs)
        compared += 1
    assert compared > 0.9 * len(converted)


def has_twins(message: ChatMessage) -> bool:
    return len({call.text for call in message.tool_calls}) < len(message.tool_calls)


def test_what_it_makes_is_imported(
    converted: list[tuple[ProviderRequest, Any, Any]], tmp_path: Path
) -> None:
    bodies: list[Any] = []
    expected: list[Any] = []
    for request, anthropic, gemini in converted:
        messages = as_openai(request)
        ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
        if len({re.sub(r"[^a-zA-Z0-9_-]", "_", name) for name in ids}) == len(ids):
            bodies.append({"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": anthropic})
            expected.append(said_by(messages))
        if not any(has_twins(message) for message in request.chat_prompt or ()):
            bodies.append({"contents": gemini})
            expected.append(said_by(messages))
    path = tmp_path / "bodies.jsonl"
    path.write_text("".join(f"{json.dumps(body)}\n" for body in bodies), encoding="utf-8")
    found = imported([str(path)], Attached(None, ""))
    cases = [each for each in found if not isinstance(each, Notice)]
    assert [said_in_case(each) for each in cases] == expected
    assert len(cases) > 1.8 * len(converted)


def said_by(messages: Any) -> Any:
    """Return the name and the arguments of each call, and the name and the text of each result.

    Results are sorted: LiteLLM's for Gemini have no ids, so that those of two calls of one tool may
    be exchanged.
    """
    calls = [
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for message in messages
        for call in message.get("tool_calls", ())
    ]
    names = {call_id: name for call_id, name, _ in calls}
    results = [
        (names[each["tool_call_id"]], plain(each["content"]))
        for each in messages
        if "tool_call_id" in each
    ]
    return [call[1:] for call in calls], sorted(results)


def said_in_case(found: Any) -> Any:
    if not isinstance(found, Imported):
        return str(found)
    messages = found.case["input_messages"]
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    names = {call["id"]: call["name"] for call in calls}
    results = [
        (names[each["tool_call_id"]], plain(each["content"]))
        for each in messages
        if "tool_call_id" in each
    ]
    return [(call["name"], call["arguments"]) for call in calls], sorted(results)


def plain(result: str) -> str:
    """Return a result as the other tool says it: it wraps texts for Gemini in an object."""
    with suppress(ValueError):
        given = json.loads(result)
        if isinstance(given, dict) and given.keys() == {"content"}:
            return str(given["content"]).strip()
    return result.strip()


def alike_gemini(contents: Any) -> list[Any]:
    """Return contents without what LiteLLM does in another way."""
    found = []
    for content in contents:
        parts: list[Any] = []
        for part in content["parts"]:
            # It sends no ids, and snake_case, which the API takes, too.
            call = part.get("functionCall") or part.get("function_call")
            result = part.get("functionResponse") or part.get("function_response")
            data = part.get("inlineData") or part.get("inline_data")
            if call:
                signature = part.get("thoughtSignature")
                parts.append({"call": [call["name"], call["args"]], "signature": signature})
            elif result:
                parts.append({"result": [result["name"], said_in(result["response"])]})
            elif data:
                media_type = data.get("mimeType") or data["mime_type"]
                parts.append({"type": media_type, "data": data["data"]})
            elif part == {"text": " "}:
                continue  # which it adds to a message that is no more than media
            elif not part.get("thought"):  # of the thinking, it was given only Anthropic's
                parts.append(part)
        found.append([content["role"], joined(parts)])
    return found


def said_in(response: Any) -> Any:
    """Return what a function response says: LiteLLM decodes a text that is a JSON object."""
    text = next(iter(response.values()))
    if response.keys() <= {"output", "error", "content"}:
        return json.loads(text) if text.startswith("{") else text.strip()
    return response
