"""Record what the instrumentations of others write of a conversation, on a loopback server.

Each of SETUPS sends the same conversation, in a process of its own, to a server that answers as
the vendors do and collects OTLP. ``NAME.json`` gets the spans and log records, as a collector
writes them to files, without what describes the machine, and ``sent.json`` the bodies. In an
environment of its own:

    python3 -m venv .venv-recorded
    .venv-recorded/bin/pip install anthropic==2.12.0 google-genai==2.34.0 openai==2.54.0 \
        opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2 \
        opentelemetry-instrumentation-openai-v2==2.4b0 \
        opentelemetry-instrumentation-google-genai==1.3b0 \
        opentelemetry-instrumentation-openai==0.62.4 \
        opentelemetry-instrumentation-anthropic==0.62.4 \
        openinference-instrumentation-openai==0.1.66 \
        openinference-instrumentation-anthropic==3.1.0 \
        logfire==5.2.0 pydantic-ai-slim==2.68.0 langfuse==5.0.4 \
        litellm==1.106.2 mcp==2.3.0 'wrapt<2'
    .venv-recorded/bin/python tests/recorded/record.py [NAME...]

``opentelemetry-openai`` needs ``opentelemetry-util-genai==1.1b0``, all others the newest one.

The first two of these instrumentations are OpenTelemetry's, the next two are those of openllmetry.
"""

import base64
import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from loopback import Server  # noqa: E402 - of the tests beside this folder

PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0\x90wS\xde"
).decode()
SYSTEM = "Be brief."
ASKED = "What is the weather here?"
RESULT = '{"degrees": 18}'
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER: dict[str, Any] = {"name": "weather", "description": "Current weather."}
CITY = {"city": "Paris"}
CHAT: dict[str, Any] = {
    "model": "gpt-4o",
    "temperature": 0.5,
    "max_tokens": 200,
    "messages": [
        {"role": "system", "content": SYSTEM},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": ASKED},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": json.dumps(CITY)},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": RESULT},
    ],
    "tools": [{"type": "function", "function": {**WEATHER, "parameters": SCHEMA, "strict": True}}],
}
RESPONSES: dict[str, Any] = {
    "model": "gpt-4o",
    "temperature": 0.5,
    "max_output_tokens": 200,
    "instructions": SYSTEM,
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": ASKED},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
            ],
        },
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "weather",
            "arguments": json.dumps(CITY),
        },
        {"type": "function_call_output", "call_id": "call_1", "output": RESULT},
    ],
    "tools": [{"type": "function", **WEATHER, "parameters": SCHEMA, "strict": True}],
}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
MESSAGES: dict[str, Any] = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 200,
    "system": SYSTEM,
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": ASKED}, IMAGE]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "call_1", "name": "weather", "input": CITY}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": RESULT}],
        },
    ],
    "tools": [{**WEATHER, "input_schema": SCHEMA}],
}


def exporting() -> None:
    """Send spans and log records to the server, whose address the environment has."""
    from opentelemetry import _logs, trace
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    tracing, logging = TracerProvider(), LoggerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
    logging.add_log_record_processor(SimpleLogRecordProcessor(OTLPLogExporter()))
    trace.set_tracer_provider(tracing)
    _logs.set_logger_provider(logging)


def ask_chat(url: str) -> None:
    from openai import OpenAI

    OpenAI(api_key="none", base_url=f"{url}/v1").chat.completions.create(**CHAT)


def ask_responses(url: str) -> None:
    from openai import OpenAI

    OpenAI(api_key="none", base_url=f"{url}/v1").responses.create(**RESPONSES)


def ask_anthropic(url: str) -> None:
    from anthropic import Anthropic

    Anthropic(api_key="none", base_url=url).messages.create(**MESSAGES)


def opentelemetry_openai(url: str) -> None:
    from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

    exporting()
    OpenAIInstrumentor().instrument()
    ask_chat(url)


def opentelemetry_google(url: str) -> None:
    from google import genai
    from google.genai import types
    from opentelemetry.instrumentation.google_genai import GoogleGenAiSdkInstrumentor

    exporting()
    GoogleGenAiSdkInstrumentor().instrument()
    client = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=url))
    call = types.FunctionCall(id="call_1", name="weather", args=CITY)
    blob = types.FunctionResponseBlob(mime_type="image/png", data=base64.b64decode(PNG))
    result = types.FunctionResponse(
        id="call_1",
        name="weather",
        response={"output": "18"},
        parts=[types.FunctionResponsePart(inline_data=blob)],
    )
    image = types.Part.from_bytes(data=base64.b64decode(PNG), mime_type="image/png")
    contents = [
        types.Content(role="user", parts=[types.Part(text=ASKED), image]),
        types.Content(role="model", parts=[types.Part(function_call=call)]),
        types.Content(role="user", parts=[types.Part(function_response=result)]),
    ]
    declared = types.FunctionDeclaration(**WEATHER, parameters_json_schema=SCHEMA)
    config = types.GenerateContentConfig(
        system_instruction=SYSTEM,
        temperature=0.5,
        max_output_tokens=200,
        tools=[types.Tool(function_declarations=[declared])],
    )
    client.models.generate_content(model="gemini-2.5-flash", contents=contents, config=config)


def openllmetry(ask: Callable[[str], None], url: str) -> None:
    from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    exporting()
    OpenAIInstrumentor(upload_base64_image=None).instrument()  # its default is no coroutine
    AnthropicInstrumentor().instrument()
    ask(url)


def openinference(ask: Callable[[str], None], url: str) -> None:
    from openinference.instrumentation.anthropic import AnthropicInstrumentor
    from openinference.instrumentation.openai import OpenAIInstrumentor

    exporting()
    OpenAIInstrumentor().instrument()
    AnthropicInstrumentor().instrument()
    ask(url)


def logfire(ask: Callable[[str], None], url: str) -> None:
    import logfire

    logfire.configure(send_to_logfire=False, console=False)
    logfire.instrument_openai()
    logfire.instrument_anthropic()
    ask(url)
    logfire.force_flush()


def pydantic_ai(vendor: str, url: str) -> None:
    from pydantic_ai import Agent, BinaryContent, Tool
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models.instrumented import InstrumentationSettings

    exporting()
    model: Any
    if vendor == "openai":
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        provider: Any = OpenAIProvider(base_url=f"{url}/v1", api_key="none")
        model = OpenAIChatModel("gpt-4o", provider=provider)
    else:
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = AsyncAnthropic(api_key="none", base_url=url)
        model = AnthropicModel(
            "claude-sonnet-4-5", provider=AnthropicProvider(anthropic_client=client)
        )
    Agent.instrument_all(InstrumentationSettings(include_binary_content=True))
    weather = Tool.from_schema(lambda city: 18, **WEATHER, json_schema=SCHEMA)
    weather.strict = True
    image = BinaryContent(base64.b64decode(PNG), media_type="image/png")
    history = [
        ModelRequest(parts=[SystemPromptPart(SYSTEM), UserPromptPart([ASKED, image])]),
        ModelResponse(parts=[ToolCallPart("weather", CITY, "call_1")]),
        ModelRequest(parts=[ToolReturnPart("weather", {"degrees": 18}, "call_1")]),
    ]
    settings: Any = {"temperature": 0.5, "max_tokens": 200}
    Agent(model, tools=[weather]).run_sync(message_history=history, model_settings=settings)


def litellm(url: str) -> None:
    os.environ.update(OTEL_EXPORTER="otlp_http", OTEL_ENDPOINT=f"{url}/v1/traces")
    import litellm

    litellm.callbacks = ["otel"]
    given = {**CHAT, "model": "openai/gpt-4o"}
    litellm.completion(**given, api_key="none", api_base=f"{url}/v1")
    flushed()


def langfuse(url: str) -> None:
    os.environ.update(LANGFUSE_PUBLIC_KEY="none", LANGFUSE_SECRET_KEY="none")
    os.environ["LANGFUSE_HOST"] = os.environ["LANGFUSE_BASE_URL"] = url
    from langfuse import get_client
    from langfuse.openai import OpenAI

    OpenAI(api_key="none", base_url=f"{url}/v1").chat.completions.create(**CHAT)
    get_client().flush()


def langfuse_plain(url: str) -> None:
    """Without tools, it writes the messages alone."""
    del CHAT["tools"], CHAT["messages"][2:]
    langfuse(url)


def anthropic_sdk(url: str) -> None:
    exporting()
    ask_anthropic(url)


def flushed() -> None:
    """Wait until callbacks in threads have sent what they have."""
    import time

    from opentelemetry import trace

    time.sleep(3)
    provider: Any = trace.get_tracer_provider()
    provider.force_flush()


SETUPS: dict[str, Callable[[str], None]] = {
    "opentelemetry-openai": opentelemetry_openai,
    "opentelemetry-google-genai": opentelemetry_google,
    "openllmetry-openai": lambda url: openllmetry(ask_chat, url),
    "openllmetry-responses": lambda url: openllmetry(ask_responses, url),
    "openllmetry-anthropic": lambda url: openllmetry(ask_anthropic, url),
    "openinference-openai": lambda url: openinference(ask_chat, url),
    "openinference-responses": lambda url: openinference(ask_responses, url),
    "openinference-anthropic": lambda url: openinference(ask_anthropic, url),
    "logfire-openai": lambda url: logfire(ask_chat, url),
    "logfire-responses": lambda url: logfire(ask_responses, url),
    "logfire-anthropic": lambda url: logfire(ask_anthropic, url),
    "pydantic-ai-openai": lambda url: pydantic_ai("openai", url),
    "pydantic-ai-anthropic": lambda url: pydantic_ai("anthropic", url),
    "litellm": litellm,
    "langfuse": langfuse,
    "langfuse-plain": langfuse_plain,
    "anthropic-sdk": anthropic_sdk,
}


def answer(request: Any) -> Any:
    """Return an answer of the vendor, with what its SDK requires; OTLP gets an empty one."""
    from loopback import TEXT, completion

    if request.vendor is None:
        return {}
    found = completion(request.vendor, TEXT)
    return {"id": "msg_1", "model": "m", **found} if request.vendor == "anthropic" else found


def collected(request: Any) -> dict[str, Any]:
    """Return a request of OTLP as JSON, without what describes the machine."""
    from google.protobuf.json_format import MessageToDict, Parse
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    is_traces = "traces" in request.path
    message = (ExportTraceServiceRequest if is_traces else ExportLogsServiceRequest)()
    body = request.body
    if request.headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    if "json" in request.headers["content-type"]:
        Parse(body, message)
    else:
        message.ParseFromString(body)
    found: dict[str, Any] = MessageToDict(message)
    for key in ("resourceSpans", "resourceLogs"):
        found[key] = [{**each, "resource": {}} for each in found.get(key, ())]
    return {key: each for key, each in found.items() if each}


def record(name: str) -> Any:
    """Write what a set-up exports, and return the body that it has sent."""
    with Server() as server:
        server.answer(body=answer, times=None)
        environment = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": server.url,
            "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
            "TRACELOOP_TRACE_CONTENT": "true",
            "LITELLM_LOCAL_MODEL_COST_MAP": "true",
            "NO_PROXY": "127.0.0.1",
        }
        command = [sys.executable, __file__, "--one", name, server.url]
        subprocess.run(command, env=environment, timeout=120)
        told = [each for each in server.requests if re.search("/v1/(traces|logs)$", each.path)]
        sent = [each.json for each in server.requests if each.vendor]
    lines = [json.dumps(collected(each), ensure_ascii=False) for each in told]
    text = "".join(f"{line}\n" for line in lines).replace(server.url, "http://127.0.0.1:1")
    text = text.replace(f"{server.server_port}", "1")
    (HERE / f"{name}.jsonl").write_text(text, encoding="utf-8")
    print(name, len(told), "exports,", len(sent), "bodies")
    return sent[-1] if sent else None


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        SETUPS[sys.argv[2]](sys.argv[3])
    else:
        bodies = HERE / "sent.json"
        known = json.loads(bodies.read_text()) if bodies.exists() else {}
        known |= {name: record(name) for name in sys.argv[1:] or SETUPS}
        bodies.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
