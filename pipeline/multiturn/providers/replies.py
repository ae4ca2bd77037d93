"""What a server says: decoded within limits, read as what its endpoint answers, without secrets."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta
from toolz import get_in, partition

from multiturn import errors
from multiturn.documents.json_lines import without_halves
from multiturn.documents.node import is_deeper
from multiturn.model.request import ProviderRequest
from multiturn.model.turns import Call
from multiturn.providers.secrets import hide

_T = TypeVar("_T")
_DEEPEST = 200  # lists and objects inside each other
_LONGEST_MESSAGE = 500
_SHOWN = 2000  # bytes of a malformed reply, before secrets are hidden and it is cut
# The bytes of an image or a document, where an error repeats the request. No word is that long.
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/])(?:data:[\w/.+-]*;base64,)?[A-Za-z0-9+/]{200,}={0,2}")
_KINDS = {401: "access_denied", 403: "access_denied", 429: "rate_limit"}  # of errors


def read_called(call_id: Any, name: Any, arguments: Any, signature: Any = None) -> Call:
    """Return a call of an answer; arguments that are no JSON object, as models write, stay text."""
    if arguments is None or isinstance(arguments, str):
        with suppress(ValueError):
            arguments = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    texts = msgspec.convert((call_id, name, signature or ""), tuple[str, str, str])
    return Call(*texts[:2], arguments, texts[2])


def receive(
    reply: bytes, read: Callable[[Any], _T], secrets: Iterable[str], what: str = "answer"
) -> _T:
    """Return what is read of a server's reply, without secrets; every reply passes here.

    ``read`` takes the decoded JSON, and returns what is wanted of it, of the right types. What it
    looks for and does not find makes the reply malformed. ``what`` names the reply in errors.

    Raises:
        ProviderError: the reply is malformed, or ``read`` raised one.
    """
    try:
        try:
            value = msgspec.json.decode(reply)
        except msgspec.DecodeError:  # perhaps a limit has cut a character, whose half is no text
            value = msgspec.json.decode(without_halves(reply))
        if is_deeper(value, _DEEPEST):
            raise ValueError(f"lists and objects are nested deeper than {_DEEPEST} levels")
        # Hidden only in what was read: a key may be one of the vendor's own words, such as "text".
        return hide(read(value), secrets)
    except errors.ProviderError as error:
        failure = errors.provider_error(error.kind, hide(error.what, secrets), status=error.status)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        said = _beginning(reply, secrets)
        why = hide(f"{type(error).__name__}: {error}", secrets)
        shown = errors.cut(said) or "nothing"
        problem = f"the {what} is not in the vendor's format: {why}; it begins with {shown!r}"
        failure = errors.MalformedReplyError(problem)
    raise failure  # here, so that it does not refer to an error with secrets in it


def _beginning(reply: bytes, secrets: Iterable[str]) -> str:
    """Return how a reply begins, without a secret, or a part of one that was cut."""
    longest = max(map(len, secrets), default=0) * 12  # of the forms that are hidden
    said = hide(reply[: _SHOWN + longest].decode("utf-8", "replace"), secrets)
    if len(reply) > _SHOWN + longest:
        said = said[: max(0, len(said) - longest)]
    return readable(said, ())


def error_of(status: int, reply: bytes, secrets: Iterable[str]) -> errors.ProviderError:
    """Return the error for an HTTP status, with the vendor's message, but without secrets."""
    text = reply.decode("utf-8", "replace")
    message, code, is_key_wrong = text.strip(), None, False
    try:
        error = msgspec.json.decode(reply)["error"]
        message, code = error["message"], error.get("code")
        details = error.get("details") or ()  # Gemini's, which answers 400 to a wrong key
        is_key_wrong = any(detail.get("reason") == "API_KEY_INVALID" for detail in details)
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        pass  # not the vendor's format, such as the page of a proxy: show its beginning
    message = readable(str(message), secrets) or "without a reason"
    if code == "content_filter":
        return errors.ContentFilterError(f"O3: {message}")
    is_key_wrong |= "No connected db." in message  # LiteLLM's proxy, whatever the key is
    kind = "access_denied" if is_key_wrong else _KINDS.get(status, "http")
    return errors.provider_error(kind, f"HTTP {status}: {message}", status=status)


def readable(message: str, secrets: Iterable[str]) -> str:
    """Return what a vendor says, as an error shows it: without secrets and bytes, and not too long.

    >>> readable(f"not an image: data:image/png;base64,{'iVBO' * 300}", ["sk-1"])
    'not an image: (base64)'
    """
    return _BASE64.sub("(base64)", hide(message, secrets))[:_LONGEST_MESSAGE]


_MOST = 2**53  # tokens; beyond it, floats are not exact
TokenCount = Annotated[int, Meta(ge=0, le=_MOST)]


def counts(usage: Any, **names: str) -> Mapping[str, int]:
    """Return a vendor's token counts under our names; what is missing, or no count, is left out.

    A name is a path in the vendor's counts, or several with ``+`` between, which are added up.

    >>> usage = {"in": 5, "thought": 1, "more": {"hit": 3}}
    >>> counts(usage, input="in+thought", cached="more.hit", output="out")
    {'input': 6, 'cached': 3}
    """
    found = {}
    for ours, paths in names.items():
        found_at = (get_in(path.split("."), usage) for path in paths.split("+"))
        values = [each for each in found_at if isinstance(each, int) and 0 <= each <= _MOST]
        if values:
            found[ours] = sum(values)
    return found


_STATUSES = (0, 400, 401, 404, 422)  # 0: an error in the results of a batch


class Lesson(NamedTuple):
    """What avoids a refusal."""

    words: str  # a pattern of what the vendor says
    advice: str
    # The setting, in target or case, without which the request would be taken. ``target``: it is
    # the target's in any case, so every case would be refused. ``prompt``: only some would.
    setting: Literal["temperature", "max_output_tokens", "target", "prompt"]
    source: str

    def is_of_target(self, settings: Any, request: ProviderRequest) -> bool:
        """Return whether the cause is in the target, so that every case would meet it."""
        if self.setting in ("prompt", "target"):
            return self.setting == "target"
        of_case = getattr(request.settings, self.setting)
        return of_case is None and getattr(settings, self.setting) is not None


# For each lesson three lines: the words; the advice; the setting and the source.
_TABLE = r"""temperature: Extra inputs are not permitted
  set temperature: omit in the target, or api_version: "2023-06-01" if the model takes one
  temperature | Anthropic's API, version 2026-10-21
temperature\W.*(deprecated|not support|support only|only .*supported)|support.*\Wtemperature
  set temperature: omit in the target
  temperature | Anthropic: pi #7961; OpenAI: code-gpt-docs #445; litellm #13781
max_tokens.*max_completion_tokens
  set max_tokens_field: max_completion_tokens in the target
  max_output_tokens | OpenAI: AgentLab #251
(?=.*max_completion_tokens).*(unrecognized|unknown|unsupported|extra)
  set max_tokens_field: max_tokens in the target
  max_output_tokens | llama.cpp #19831
only supported in v1/responses|not a chat model|not accessible via the /chat/completions
  set api: responses in the target
  target | OpenAI: tmuxai #82, SillyTavern #5212; copilot-api #102
encrypted content is not supported
  set model_takes: {encrypted_thinking: false} in the target
  target | OpenAI: pydantic-ai #2865
message prefill|ending with a model turn|cannot have 2 or more assistant messages
  end with a user message; model_takes: {final_assistant: false} in the target refuses such cases
  prompt | Anthropic: ai #12296; Gemini: LibreChat agents #323
missing a thought_signature
  add the signature of the call; or set thought_signature: skip in the target
  prompt | Gemini: llm-gemini #119
roles must alternate
  set roles: alternate in the target
  prompt | chat_templates, rendered
role '?\"?system'?\"? (is not supported on this|must)|unexpected role \"system\"
  later_system: merge of consolidate_system avoids it
  prompt | Anthropic: pydantic-ai #5706
system role (is )?not supported
  set system_role: user in the target
  target | Gemma's template
does not support 'system' with this model
  set system_role: developer, or user, in the target
  target | OpenAI: litellm #7961
does not support 'developer' with this model|unknown role:? '?developer|'developer' is not one of
  set system_role: system in the target
  target | OpenAI: llama_index #17748
system message must be (at the beginning|the first|first)
  set later_system: merge in the target
  prompt | vllm #41114
maximum of \d+ PDF pages
  split the document, and attach fewer of its pages
  prompt | Anthropic: claude-code #6231
image dimensions exceed max allowed size
  attach a smaller image: of 8000 pixels at most, or 2000 in a request with many images
  prompt | Anthropic: claude-code #4778, #9375
image input is not supported|does not support image
  model_takes: {images: false} in the target refuses such cases
  prompt | llama.cpp's server; Rapid-MLX #782
anthropic-version
  check the api_version of the target
  target | Anthropic's API
x-api-key
  set auth: x-api-key in the target
  target | gateways with Anthropic's older API
"""
_LINES = map(str.strip, _TABLE.splitlines())
_LESSONS = [Lesson(*said, *rest.split(" | ")) for *said, rest in partition(3, _LINES)]


def lesson_of(error: errors.ProviderError) -> Lesson | None:
    """Return what avoids an error of a vendor's server, if its words tell."""
    if error.kind not in ("http", "access_denied") or error.status not in _STATUSES:
        return None
    found = (each for each in _LESSONS if re.search(each.words, error.what, re.IGNORECASE))
    return next(found, None)
