"""A vendor is one place: Amazon Bedrock is a folder beside the tests, and one row of ``KINDS``."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

import commands
import media_histories
import running
from bedrock.converse import read_converse
from bedrock.provider import BedrockProvider, BedrockSettings
from comparing import data_of, report_of
from histories import history
from loopback import KEY, Server
from media_files import image, pdf, write_bytes
from media_histories import media_history
from multiturn import ChatMessage, Media, ProviderError, ProviderRequest
from multiturn.model.turns import Call, Thinking, Tool
from multiturn.providers.base import Wire
from multiturn.providers.targets import KINDS, Kind
from multiturn.report.html import to_html
from multiturn.traces.suite import Attached
from multiturn.traces.telemetry import read_telemetry
from providers.test_pairs import HISTORIES, same_request
from vendors import GIVEN, NOWHERE, chat, failure

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
PATH = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/"
SETTINGS: list[dict[str, Any]] = [{}, {"temperature": 0, "max_output_tokens": 64}]
WEATHER = Tool("weather", "Tells it.", {"properties": {"city": {"type": "string"}}})
ANSWER = {
    "metrics": {"latencyMs": 5},
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
                {"text": "I look."},
                {"toolUse": {"toolUseId": "c9", "name": "weather", "input": {"city": "Rome"}}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": {
        "inputTokens": 11,
        "outputTokens": 7,
        "totalTokens": 23,
        "cacheReadInputTokens": 3,
        "cacheWriteInputTokens": 2,
    },
}


@pytest.fixture(autouse=True)
def _row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the row in, which is taken out again."""
    monkeypatch.setitem(KINDS, "bedrock", Kind(BedrockProvider, BedrockSettings))
    monkeypatch.setitem(media_histories.TAKEN, "bedrock", ("png", "jpg", "gif", "webp", "pdf"))


def bedrock(url: str = NOWHERE, **settings: Any) -> BedrockProvider:
    given = {**GIVEN, "base_url": url, "model": MODEL, "model_takes": {"documents": True}}
    return BedrockProvider(BedrockSettings(**{**given, **settings}))


def body_of(request: ProviderRequest, **settings: Any) -> Any:
    return json.loads(bedrock(**settings).wire(request).body)


# The two laws of test_pairs.py


MEDIA = Attached(None, "").read


def wires() -> Iterator[Wire]:
    """Yield what is sent of random requests with all settings, but for those that are refused."""
    for number in range(HISTORIES):
        for request in (history(number), media_history(number, "bedrock")):
            provider = bedrock(**SETTINGS[number % len(SETTINGS)])
            try:
                yield provider.wire(request)
            except ProviderError:
                continue


def test_what_is_read_of_a_body_is_written_as_the_same_bytes() -> None:
    provider, count = bedrock(), 0
    for wire in wires():
        assert (
            provider.encode(provider.write(read_converse(json.loads(wire.body), MEDIA)))
            == wire.body
        )
        count += 1
    assert count > HISTORIES // 2


def test_what_is_read_of_a_body_is_the_request_as_the_rules_left_it() -> None:
    seen = set()
    for wire in wires():
        found = read_converse(json.loads(wire.body), MEDIA)
        assert wire.prepared is not None
        # The model is in the path (B1); all else is told as Anthropic's form tells it.
        unnamed = replace(wire.prepared, model="")
        assert same_request(found, "anthropic") == same_request(unnamed, "anthropic")
        assert found.settings.body is None
        for turn in found.messages:
            seen |= {"calls"} if turn.calls else set()
            seen |= {"errors"} if turn.is_error else set()
            seen |= {"signed" if block.signature else "hidden" for block in turn.thinking}
            seen |= {f"{part.media.kind} {turn.role}" for part in turn.parts if part.media}
    documents = {"document user", "document tool"}
    assert seen == {"calls", "errors", "signed", "hidden", "image user", "image tool", *documents}


# The form


def test_a_request_is_written_as_the_service_model_has_it() -> None:
    request = chat(
        ("system", "Be brief."),
        ("user", ("Look:", Media.of(image()), Media.of(pdf(), "docs/a.b.pdf"))),
        tools=(WEATHER, Tool("now", strict=True)),
        tool_choice={"name": "weather"},
        temperature=0.5,
        max_output_tokens=100,
    )
    thought = Thinking("Hm.", "c2ln")
    call = Call("c:1", "weather", {"city": "Rome"})
    said = ChatMessage("assistant", "I look.", (call,), thinking=(thought, Thinking(data="aGlk")))
    result = ChatMessage("tool", "No city.", tool_call_id="c:1", is_error=True)
    assert request.chat_prompt is not None
    request = replace(request, chat_prompt=(*request.chat_prompt, said, result))
    wire = bedrock().wire(request)
    assert json.loads(wire.body) == {
        "system": [{"text": "Be brief."}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"text": "Look:"},
                    {
                        "image": {
                            "format": "png",
                            "source": {"bytes": base64.b64encode(image()).decode()},
                        }
                    },
                    {
                        "document": {
                            "format": "pdf",
                            "name": "docs a b pdf",
                            "source": {"bytes": base64.b64encode(pdf()).decode()},
                        }
                    },
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
                    {"reasoningContent": {"redactedContent": "aGlk"}},
                    {"text": "I look."},
                    {
                        "toolUse": {
                            "toolUseId": "c:1",
                            "name": "weather",
                            "input": {"city": "Rome"},
                        }
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "toolResult": {
                            "toolUseId": "c:1",
                            "content": [{"text": "No city."}],
                            "status": "error",
                        }
                    }
                ],
            },
        ],
        "inferenceConfig": {"maxTokens": 100, "temperature": 0.5},
        "toolConfig": {
            "tools": [
                {
                    "toolSpec": {
                        "name": "weather",
                        "description": "Tells it.",
                        "inputSchema": {
                            "json": {
                                "type": "object",
                                "properties": {"city": {"type": "string"}},
                            }
                        },
                    }
                },
                {
                    "toolSpec": {
                        "name": "now",
                        "inputSchema": {"json": {"type": "object"}},
                        "strict": True,
                    }
                },
            ],
            "toolChoice": {"tool": {"name": "weather"}},
        },
    }
    assert wire.repairs == ("B10: named the document 'docs/a.b.pdf' 'docs a b pdf'",)


@pytest.mark.parametrize(
    ("choice", "written"), [("auto", {"auto": {}}), ("required", {"any": {}}), (None, None)]
)
def test_a_choice_has_the_word_of_the_api(choice: str | None, written: Any) -> None:
    body = body_of(chat(("user", "Hi"), tools=(WEATHER,), tool_choice=choice))
    assert body["toolConfig"].get("toolChoice") == written


def test_tools_are_left_out_where_none_may_be_called() -> None:
    request = chat(("system", "Be brief."), *CALLED[:1], tools=(WEATHER,), tool_choice="none")
    wire = bedrock().wire(request)
    assert "toolConfig" not in json.loads(wire.body)
    assert wire.repairs == ("B5: left out the tools, as tool_choice is none",)


def test_documents_of_one_name_get_names_of_their_own() -> None:
    documents = (Media.of(pdf(1), "a/x.pdf"), Media.of(pdf(2), "a.x.pdf"), Media.of(pdf(3), "ä"))
    body = body_of(chat(("user", ("Read.", *documents))))
    names = [each["document"]["name"] for each in body["messages"][0]["content"][1:]]
    assert names == ["a x pdf", "a x pdf 2", "file"]


CALLED = (
    ("user", "Hi"),
    ChatMessage("assistant", "", (Call("c1", "weather"),)),
    ChatMessage("tool", "", tool_call_id="c1", is_error=True),
)


@pytest.mark.parametrize(
    ("messages", "given", "why"),
    [
        ([("user", (Media.of(pdf(), "a.pdf"),))], {}, "B9: images and documents must be in user"),
        ([("user", ("x", Media("image", url="https://example.org/a.png")))], {}, "B4: a message"),
        ([("user", "Hi")], {"tools": (Tool("a.b"),)}, "B5: a tool has a name of 1 to 64 letters"),
        ([("user", "Hi")], {"temperature": 1.5}, "B14: a temperature must not exceed 1 (Bedrock)"),
        (CALLED, {"tools": (WEATHER,)}, "B6: a call has an id of 1 to 64"),
        (CALLED, {}, "B7: calls in messages need tools (Bedrock); add tools to the case"),
        (CALLED, {"tools": (WEATHER,), "tool_choice": "none"}, "leave out tool_choice, as the"),
        ([("user", "Hi"), ("system", "Stop.")], {}, "B3: system is a field"),
    ],
)
def test_what_the_api_would_refuse_is_refused(messages: Any, given: Any, why: str) -> None:
    request = chat(**given)
    prompt = [each if isinstance(each, ChatMessage) else ChatMessage(*each) for each in messages]
    with pytest.raises(ProviderError) as caught:
        bedrock().wire(replace(request, chat_prompt=tuple(prompt)))
    assert why in caught.value.what


# Commands, from one end to the other

TARGETS = f"""\
- name: rock
  provider: bedrock
  base_url: URL
  api_key: {KEY}
  model: {MODEL}
  max_output_tokens: 100
  model_takes: {{documents: true}}
"""
SUITE = """\
tools:
- {name: weather, description: Tells it., parameters: {type: object}}
evalcases:
- id: c
  execution: {tool_choice: required}
  input_messages:
  - {role: user, content: [Look., {type: image, value: a.png}]}
  - {role: assistant, content: "", tool_calls: [{id: c1, name: weather, arguments: {city: Rome}}]}
  - {role: tool, tool_call_id: c1, content: Sunny.}
"""
TEXT_SUITE = SUITE.replace("[Look., {type: image, value: a.png}]", "Look.")
PRICES = f"{MODEL}: {{input: 1000, output: 10000}}\n"


@pytest.fixture
def folder(root: Path, server: Server) -> Path:
    (root / "targets.yaml").write_text(TARGETS.replace("URL", server.url))
    (root / "prices.yaml").write_text(PRICES)
    (root / "a.eval.yaml").write_text(SUITE)
    write_bytes(root, {"a.png": image(side=200)})
    return root


def run(folder: Path, *arguments: str) -> commands.Done:
    given = ("a.eval.yaml", "--target", "rock", "--prices", "prices.yaml", *arguments)
    return running.run(*given, folder=folder)


def test_a_run_sends_and_reads(folder: Path, server: Server) -> None:
    server.answer(body=ANSWER)
    done = run(folder, "--record-thinking")
    assert done.returncode == 0, done.stderr
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", f"{PATH}converse")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json["inferenceConfig"] == {"maxTokens": 100}
    assert request.json["toolConfig"]["toolChoice"] == {"any": {}}
    (result,) = running.records(done.stdout)
    assert result["response"] == "I look."
    assert result["tool_calls"] == [{"id": "c9", "name": "weather", "arguments": {"city": "Rome"}}]
    assert result["thinking"] == ANSWER["output"]["message"]["content"][:1]  # type: ignore[index]
    assert result["finish_reason"] == "tool_use"
    usage = {"input_tokens": 16, "output_tokens": 7, "cached_tokens": 3, "cache_write_tokens": 2}
    assert result["usage"] == usage
    assert KEY not in done.stdout + done.stderr


def test_an_error_has_the_words_of_the_vendor(server: Server) -> None:
    words = "The provided model identifier is invalid."
    server.answer(status=400, body={"message": words})
    assert words in failure(bedrock(server.url)).what


def test_bedrock_counts(folder: Path, server: Server) -> None:
    server.answer(body={"inputTokens": 321})
    done = run(folder, "--dry-run", "--count-tokens")
    assert done.stderr.splitlines()[1].startswith("321 input tokens; at most 100 output tokens")
    (request,) = server.requests
    assert request.path == f"{PATH}count-tokens"
    counted = request.json["input"]["converse"]
    assert counted.keys() == {"system", "messages", "toolConfig"}
    assert base64.b64decode(counted["messages"][0]["content"][1]["image"]["source"]["bytes"])


def estimated(folder: Path, suite: str = SUITE) -> tuple[int, str]:
    """Return the input tokens that a dry run shows of the case, and all that it says."""
    (folder / "a.eval.yaml").write_text(suite)
    done = run(folder, "--dry-run")
    assert done.returncode == 0, done.stderr
    (line,) = running.records(done.stdout)
    return line["input_tokens"], done.stderr


def test_a_dry_run_counts_tools_and_no_bytes_of_media(folder: Path, server: Server) -> None:
    count, said = estimated(folder)
    longer = SUITE.replace("Tells it.", "Tells you which weather it is in a city of the world.")
    assert 104 < count < 184  # 64 of them are the image: squares of 28 pixels, 8 by 8
    assert count + 8 < estimated(folder, longer)[0] < count + 20
    assert estimated(folder, TEXT_SUITE)[0] == count - 64
    assert "at most 100 output tokens" in said
    assert "image" not in said
    assert server.requests == []


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (("--max-tokens", "40"), "input tokens exceed --max-tokens 40"),
        (("--max-cost", "0.04"), "for the input alone exceeds --max-cost 0.04"),
    ],
)
def test_limits_hold_before_anything_is_sent(
    folder: Path, server: Server, limit: tuple[str, str], why: str
) -> None:
    done = run(folder, *limit)
    assert done.returncode == 2
    assert why in done.stderr
    assert server.requests == []


def test_explain_and_convert_show_what_the_target_is_sent(folder: Path) -> None:
    given = ("a.eval.yaml", "--target", "rock")
    done = commands.run("explain", *given, folder=folder)
    assert done.returncode == 0, done.stderr
    assert "tool, result of c1\n  a.eval.yaml:9\n  | Sunny.\n" in done.stdout
    (record,) = running.records(commands.run("convert", *given, folder=folder).stdout)
    assert [message["role"] for message in record["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    assert record["parameters"] == {
        "inferenceConfig": {"maxTokens": 100},
        "toolConfig": {"toolChoice": {"any": {}}},
    }


def test_a_repair_is_explained(folder: Path) -> None:
    write_bytes(folder, {"a.pdf": pdf()})
    (folder / "a.eval.yaml").write_text(
        SUITE.replace("{type: image, value: a.png}", "{type: document, value: a.pdf}")
    )
    done = commands.run("explain", "a.eval.yaml", "--target", "rock", folder=folder)
    assert "B10: named the document 'a.pdf' 'a pdf'" in done.stdout


def test_the_report_shows_what_is_sent(tmp_path: Path) -> None:
    rock = {"name": "rock", "provider": "bedrock", "model": "m", "region": "eu-central-1"}
    rock["api_key"] = "k"
    report = report_of(tmp_path, {"evals/a.eval.yaml": TEXT_SUITE}, target=rock)
    page = data_of(to_html(report).decode())
    assert '"target":"rock"' in page
    assert '"tool_call_id"' in page


def test_schemas_and_errors_know_the_provider(folder: Path) -> None:
    schema = json.loads(commands.run("schema", "targets", folder=folder).stdout)
    assert "bedrock" in json.dumps(schema)
    (folder / "targets.yaml").write_text(TARGETS.replace("bedrock", "bedrok"))
    assert 'did you mean "bedrock"?' in run(folder).stderr


# Import

BODY = {
    "modelId": MODEL,
    "system": [{"text": "Be brief."}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"text": "Look:"},
                {
                    "image": {
                        "format": "png",
                        "source": {"bytes": base64.b64encode(image()).decode()},
                    }
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
                {"toolUse": {"toolUseId": "c1", "name": "weather", "input": {"city": "Rome"}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "toolResult": {
                        "toolUseId": "c1",
                        "content": [{"text": "No city."}],
                        "status": "error",
                    }
                },
                {"text": "And now?"},
            ],
        },
    ],
    "toolConfig": {
        "tools": [{"toolSpec": {"name": "weather", "inputSchema": {"json": {"type": "object"}}}}],
        "toolChoice": {"auto": {}},
    },
    "inferenceConfig": {"maxTokens": 50, "stopSequences": ["END"], "topP": 0.9},
    "additionalModelRequestFields": {"top_k": 5},
}


def test_a_body_is_imported_and_sent_again(folder: Path, server: Server) -> None:
    (folder / "body.json").write_text(json.dumps(BODY))
    done = commands.run("import", "body.json", "--output", "b.eval.yaml", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    (target,) = yaml.safe_load((folder / "b.targets.yaml").read_text())["targets"]
    assert (target["provider"], target["top_p"]) == ("bedrock", 0.9)
    assert target["body"] == {"additionalModelRequestFields": {"top_k": 5}}
    given = {**target, "base_url": server.url, "api_key": KEY}
    (folder / "b.targets.yaml").write_text(json.dumps([given]))
    server.answer(body=ANSWER)
    options = ("--target", target["name"], "--targets", "b.targets.yaml")
    done = running.run("b.eval.yaml", *options, folder=folder)
    assert done.returncode == 0, done.stderr
    sent = {key: value for key, value in BODY.items() if key != "modelId"}
    assert server.requests[0].json == sent


def test_a_conversation_goes_on_after_an_answer(folder: Path, server: Server) -> None:
    server.answer(body=ANSWER)
    (folder / "results.jsonl").write_text(run(folder, "--record-thinking").stdout)
    done = commands.run("import", "--answers", "results.jsonl", folder=folder)
    assert "thinking: Hm." in done.stdout
    assert "signature: c2ln" in done.stdout


def test_its_name_in_telemetry_is_known_by_the_row() -> None:
    said = [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
    given = {"gen_ai.provider.name": "aws.bedrock", "gen_ai.input.messages": said}
    assert read_telemetry(given, MEDIA).provider == "bedrock"
