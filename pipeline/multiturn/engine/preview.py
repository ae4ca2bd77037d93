"""What a target would be sent of a case, with the origin of each text."""

from typing import Any

from msgspec.structs import replace

from multiturn.engine.explanation import Explanation, explain
from multiturn.engine.record import Record, record_of
from multiturn.engine.spans import in_spans
from multiturn.errors import ProviderError
from multiturn.model.conversion import Conversion
from multiturn.model.request import ProviderRequest, as_text, message_of
from multiturn.pipelines.pipeline import request_of
from multiturn.providers.base import Preview, TargetProvider

_INSTEAD = ("question", "chat_prompt", "system", "guidelines")  # the target gets messages


def preview_of(
    conversion: Conversion, provider: TargetProvider, request: ProviderRequest | None = None
) -> Preview:
    """Return what a target would be sent of a finished conversion, or of its request.

    Raises:
        ProviderError: the target would refuse it; with its place in the suite.
    """
    case, request = conversion.case, request or request_of(conversion)
    try:
        transcript = tuple(map(as_text, conversion.transcript))  # where media are text
        return provider.preview(request, conversion.sent, transcript)
    except ProviderError as error:
        raise error.at(case.where(), case.id) from None


def record_for(conversion: Conversion, provider: TargetProvider) -> Record:
    """Return what ``multiturn convert --target`` writes of a case.

    Raises:
        ProviderError: as for ``preview_of``.
    """
    request = request_of(conversion)
    preview = preview_of(conversion, provider, request)
    record = record_of(request, conversion.notices)
    shown: dict[str, Any] = {"target": provider.name}
    if preview.messages is not None:
        shown["messages"] = list(map(message_of, preview.messages))
        record = {key: value for key, value in record.items() if key not in _INSTEAD}
    shown |= {"parameters": preview.parameters, "repairs": preview.repairs}
    head = {key: record[key] for key in ("suite", "id")}
    return head | shown | record


def explain_for(conversion: Conversion, provider: TargetProvider) -> Explanation:
    """Return where the texts come from that a target would be sent.

    Raises:
        ProviderError: as for ``preview_of``.
    """
    preview = preview_of(conversion, provider)
    found = replace(explain(conversion), target=provider.name, repairs=preview.repairs)
    if preview.messages is None:
        return found
    chat = in_spans(preview.messages, conversion.case)
    return replace(found, chat=chat, system=(), question=())
