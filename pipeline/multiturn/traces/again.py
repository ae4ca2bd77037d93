"""What is sent for an imported case, and what differs from the body that it was made of."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec

from multiturn.documents.json_lines import mark_of, node_of
from multiturn.documents.node import MAX_DEPTH
from multiturn.errors import MultiturnError, cut
from multiturn.files.finding import Files
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.pipelines.pipeline import Pipeline, request_of
from multiturn.pipelines.pipeline_file import read_pipeline
from multiturn.providers.ax import ChatProvider
from multiturn.providers.layout import Layout
from multiturn.providers.targets import KINDS
from multiturn.suites.case_reader import CaseReader
from multiturn.suites.dialects import Dialect
from multiturn.traces.differences import differences
from multiturn.traces.forms import same_body
from multiturn.traces.telemetry import INPUT, SYSTEM, telemetry_again
from multiturn.traces.trace import Trace, Values

_OURS = ("temperature", "max_output_tokens", "tool_choice")  # settings that targets send
_CONFIG = "generationConfig"
# Settings that are no part of a prompt, as vendors name them. From the types of openai 3.52.0,
# anthropic 2.11.0 and google-genai 3.4.0, on 22 November 2026.
_SETTINGS = frozenset(
    {
        # OpenAI: Chat Completions, Responses
        *("audio", "background", "context_management", "frequency_penalty", "include"),
        *("logit_bias", "logprobs", "max_tool_calls", "metadata", "modalities", "model"),
        *("moderation", "n", "parallel_tool_calls", "prediction", "presence_penalty"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning"),
        *("reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier"),
        *("stop", "store", "stream", "stream_options", "text", "top_logprobs", "top_p"),
        *("truncation", "user", "verbosity", "web_search_options"),
        # Anthropic; the last line by its older versions
        *("container", "inference_geo", "output_config", "speed", "stop_sequences", "thinking"),
        *("anthropic_version", "anthropic_beta", "betas", "mcp_servers", "top_k"),
        # Gemini
        *("candidateCount", "frequencyPenalty", "imageConfig", "labels", "mediaResolution"),
        *("presencePenalty", "responseJsonSchema", "responseLogprobs", "responseMimeType"),
        *("responseModalities", "responseSchema", "routingConfig", "safetySettings"),
        *("serviceTier", "speechConfig", "stopSequences", "thinkingConfig", "topK", "topP"),
    }
)
_NOWHERE = Path(os.devnull)  # has no files that a case could attach
_ABOVE = 2  # levels of a suite above a case


def case_in(given: Values, name: str, folder: Path | None = None) -> Case:
    """Return a case of a suite that is to be written; the files that it attaches are in the folder.

    Raises:
        MultiturnError: no suite can have such a case.
    """
    try:
        node = node_of(given, mark_of(1, 0), MAX_DEPTH - _ABOVE)
    except ValueError as error:
        raise MultiturnError(str(error)) from None
    folder = folder or _NOWHERE
    reader = CaseReader(Files(folder, folder), Dialect(name))
    return reader.case(node, given["id"], reader.shared("", ()))


def changes(body: Values, trace: Trace, case: Case) -> Iterator[str]:
    """Yield what differs in the body that a target sends for a case, one sentence each.

    Settings that the case has in ``execution``, and no target sends, do not count.

    Raises:
        MultiturnError: the pipeline refuses the case.
    """
    given, is_telemetry = same_body(body), INPUT in body
    conversion = _pipeline()(Conversion(case))
    again = telemetry_again(trace, SYSTEM in given) if is_telemetry else _sent(trace, conversion)
    again = same_body(again)
    for key in trace.execution.keys() - {*_OURS}:
        given.pop(key, None)
        if isinstance(config := given.get(_CONFIG), dict):
            given[_CONFIG] = {name: value for name, value in config.items() if name != key}
    if "model" not in given:
        again.pop("model", None)
    if not given.get(_CONFIG):
        given.pop(_CONFIG, None)
    yield from differences(given, again)
    if not is_telemetry:  # which names settings apart from all else
        for key in (each for each in trace.execution if each not in {*_SETTINGS, *_OURS}):
            yield f"{cut(key)} is not known; it stays in execution, and no target sends it"


def _sent(trace: Trace, conversion: Conversion) -> Values:
    """Return the body that the target of a trace sends for a case, whatever it refuses."""
    request = request_of(conversion)
    provider = _provider_of(trace)
    prepared = provider.prepared(Layout(conversion.prompt, request), request)
    return dict(msgspec.json.decode(provider.encode(provider.write(prepared))))


@cache
def _pipeline() -> Pipeline:
    """Return the pipeline that keeps system messages where they are."""
    return read_pipeline("spec").configure("consolidate_system", later_system="keep")


def _provider_of(trace: Trace) -> ChatProvider:
    """Return the provider of a target that sends the body of a trace as it was."""
    kind = KINDS[trace.provider]
    settings: dict[str, Any] = {"name": "trace", "provider": trace.provider, "api_key": "-"}
    settings["model"] = str(trace.execution.get("model") or "unknown")
    return cast("ChatProvider", kind.provider(kind.settings(**settings, **trace.target)))
