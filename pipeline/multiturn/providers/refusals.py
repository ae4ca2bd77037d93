"""What refusals of vendors teach: which setting avoids an HTTP 400 that names what it refuses."""

import re
from typing import Any, Literal, NamedTuple

from multiturn.errors import ProviderError
from multiturn.model.request import ProviderRequest

_STATUSES = (0, 400, 401, 404, 422)  # 0: an error in the results of a batch
_OMIT = "set temperature: omit in the target"


class Lesson(NamedTuple):
    """What avoids a refusal."""

    words: str  # a pattern of what the vendor says
    advice: str
    # The setting, in target or case, without which the request would be taken. ``target``: it is
    # the target's in any case, so every case would be refused. Empty: it is for some prompts only.
    setting: Literal["temperature", "max_output_tokens", "target", ""]
    source: str

    def is_of_target(self, settings: Any, request: ProviderRequest | None) -> bool:
        """Return whether the cause is in the target, so that every case would meet it."""
        if self.setting in ("", "target"):
            return self.setting == "target"
        of_case = getattr(request, self.setting, None)
        return of_case is None and getattr(settings, self.setting) is not None


_LESSONS = [
    Lesson(
        r"temperature: Extra inputs are not permitted",
        f'{_OMIT}, or api_version: "2023-06-01" if the model takes one',
        *("temperature", "Anthropic's API, version 2026-10-21"),
    ),
    Lesson(
        r"temperature\W.*(deprecated|not support|support only|only .*supported)"
        r"|(support|unsupported).*\Wtemperature",
        *(_OMIT, "temperature", "Anthropic: pi #7961; OpenAI: code-gpt-docs #445; litellm #13781"),
    ),
    Lesson(
        r"max_tokens.*max_completion_tokens",
        "set max_tokens_field: max_completion_tokens in the target",
        *("max_output_tokens", "OpenAI: AgentLab #251"),
    ),
    Lesson(
        r"(unrecognized|unknown|unsupported|extra).*max_completion_tokens"
        r"|max_completion_tokens.*(unrecognized|unknown|unsupported|extra)",
        "set max_tokens_field: max_tokens in the target",
        *("max_output_tokens", "llama.cpp #19831"),
    ),
    Lesson(
        r"only supported in v1/responses|not a chat model|not accessible via the /chat/completions",
        "set api: responses in the target",
        *("target", "OpenAI: tmuxai #82, SillyTavern #5212; copilot-api #102"),
    ),
    Lesson(
        r"encrypted content is not supported",
        "set model_takes: {encrypted_thinking: false} in the target",
        *("target", "OpenAI: pydantic-ai #2865"),
    ),
    Lesson(
        r"message prefill|ending with a model turn|cannot have 2 or more assistant messages",
        "end with a user message; model_takes: {final_assistant: false} in the target finds such"
        " cases before they are sent",
        *("", "Anthropic: ai #12296; Gemini: LibreChat agents #323"),
    ),
    Lesson(
        r"missing a thought_signature",
        "add the signature of the call; or set thought_signature: skip in the target",
        *("", "Gemini: llm-gemini #119"),
    ),
    Lesson(
        r"roles must alternate",
        *("set roles: alternate in the target", "", "chat_templates, rendered"),
    ),
    Lesson(
        r"role '?\"?system'?\"? (is not supported on this|must)|unexpected role \"system\"",
        "later_system: merge of consolidate_system avoids it",
        *("", "Anthropic: pydantic-ai #5706"),
    ),
    Lesson(
        r"system role (is )?not supported",
        *("set system_role: user in the target", "target", "Gemma's template"),
    ),
    Lesson(
        r"does not support 'system' with this model",
        "set system_role: developer, or user, in the target",
        *("target", "OpenAI: litellm #7961"),
    ),
    Lesson(
        r"does not support 'developer' with this model|unknown role:? '?developer"
        r"|'developer' is not one of",
        *("set system_role: system in the target", "target", "OpenAI: llama_index #17748"),
    ),
    Lesson(
        r"system message must be (at the beginning|the first|first)",
        *("set later_system: merge in the target", "", "vllm #41114"),
    ),
    Lesson(
        r"maximum of \d+ PDF pages",
        *("split the document, and attach fewer of its pages", "", "Anthropic: claude-code #6231"),
    ),
    Lesson(
        r"image dimensions exceed max allowed size",
        "attach a smaller image: of 8000 pixels at most, or 2000 in a request with many images",
        *("", "Anthropic: claude-code #4778, #9375"),
    ),
    Lesson(
        r"image input is not supported|does not support image",
        "model_takes: {images: false} in the target finds such cases before they are sent",
        *("", "llama.cpp's server; Rapid-MLX #782"),
    ),
    Lesson(
        r"anthropic-version",
        *("check the api_version of the target", "target", "Anthropic's API"),
    ),
    Lesson(
        r"x-api-key",
        *("set auth: x-api-key in the target", "target", "gateways with Anthropic's older API"),
    ),
]


def lesson_of(error: ProviderError) -> Lesson | None:
    """Return what avoids an error of a vendor's server, if its words tell."""
    if error.kind not in ("http", "access_denied") or error.status not in _STATUSES:
        return None
    for lesson in _LESSONS:
        if re.search(lesson.words, error.what, re.IGNORECASE):
            return lesson
    return None
