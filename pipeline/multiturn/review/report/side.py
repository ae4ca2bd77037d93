"""One side of a comparison: the cases of some suites, converted, with the origin of every text."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from multiturn.engine.outcomes import Outcome
from multiturn.engine.revision import Then
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError
from multiturn.files import find_root
from multiturn.model import Case, Conversion, InputFile, ProviderRequest
from multiturn.pipelines.pipeline import Pipeline, request_of
from multiturn.prompts.provenance import Message, Span, Spans, spans_of, text_of
from multiturn.providers.anthropic import AnthropicProvider, AnthropicSettings
from multiturn.providers.azure import AzureProvider, AzureSettings
from multiturn.providers.base import ProviderError, TargetProvider
from multiturn.providers.codex import CodexProvider, CodexSettings
from multiturn.providers.gemini import GeminiProvider, GeminiSettings
from multiturn.providers.http import HttpProvider
from multiturn.providers.vscode import VSCodeProvider, VSCodeSettings
from multiturn.review.lockfile import promotions_of
from multiturn.review.snapshots import name_in_root, snapshot_text, suite_of
from multiturn.suites.suite import STDIN
from multiturn.turns import is_blank

# What no suite can contain, because nobody knows it before.
_TOKEN = os.urandom(8).hex()
_MARK = re.compile(rf"{_TOKEN}-(\d+)-")


class Payload(Struct, frozen=True):
    """What a provider would send.

    Attributes:
        provider: its name for people.
        body: decoded JSON, or a text, with each text in spans; None if it is refused.
        notes: the repairs, or why it is refused.
    """

    provider: str
    body: Any
    notes: tuple[str, ...] = ()


class Reviewed(Struct, frozen=True, kw_only=True):
    """A case as a report shows it.

    Attributes:
        suite: its path from the root.
        id: of the case.
        line: of the case in the suite.
        error: why it could not be converted; the rest is then empty.
        chat: the chat prompt; None where the pipeline gives none.
        question: the transcript.
        payloads: one for each provider.
        snapshot: what ``multiturn snapshot`` writes.
        promoted: the files that reach a system message.
        files: the text of each attached file as it was read, by its path from the root.
        guidelines: those of them that are guidelines.
        patterns: that decide it.
        keys: the texts of the suite that stand in no message, as written, by their keys.
        shown: those of the keys whose texts are in the prompt.
        messages: each message as written, with its line.
    """

    suite: str
    id: str
    line: int = 0
    error: str = ""
    chat: tuple[Message, ...] | None = None
    question: Spans = ()
    payloads: tuple[Payload, ...] = ()
    snapshot: str = ""
    promoted: frozenset[str] = frozenset()
    files: Mapping[str, str] = {}
    guidelines: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    keys: Mapping[str, str] = {}
    shown: frozenset[str] = frozenset()
    messages: tuple[tuple[str, int], ...] = ()


class Side(Struct):
    """The cases of some suites, by suite and id, and what is wrong beside the cases.

    Attributes:
        cases: in the order of the suites.
        pipeline: what converted them, as YAML.
        errors: that belong to no case.
        broken: the suites of which some case is not known.
    """

    cases: dict[tuple[str, str], Reviewed]
    pipeline: str
    errors: list[str]
    broken: set[str]


def collect(
    outcomes: Iterable[Outcome],
    selection: Selection,
    pipeline: Pipeline,
    on_error: Callable[[MultiturnError], None],
) -> Side:
    """Return the cases of a side; those that fail are in it, too.

    Args:
        outcomes: what became of the selected cases.
        selection: of which their suites are.
        pipeline: which has converted them.
        on_error: called with each error.

    Raises:
        MultiturnError: a suite is outside its root, or two suites have one name.
    """
    side = Side({}, _declared(pipeline), [], set())
    providers = sample_providers()
    for outcome in outcomes:
        if outcome.error is not None:
            _add_error(side, outcome.suite, outcome.error, selection.root)
            on_error(outcome.error)
        elif outcome.conversion is not None:
            case = review(outcome.conversion, providers)
            if (case.suite, case.id) in side.cases:
                what = f"two suites are {case.suite!r} in their roots"
                raise MultiturnError(f"{what}; name a root that holds both (--root)")
            side.cases[case.suite, case.id] = case
    return side


def collect_then(then: Then) -> Iterator[Side]:
    """Yield the side of a revision, whose errors are no failures now."""
    side = collect(then.outcomes, then.selection, then.pipeline, on_error=lambda _: None)
    side.errors += then.notes
    yield side


def _add_error(side: Side, path: str, error: MultiturnError, root: str | None) -> None:
    """Add what is wrong with a case, or with a suite."""
    folder = Path(os.path.realpath(path)).parent
    suite = name_in_root(STDIN if path == "-" else path, root or str(find_root(folder)))
    message = str(error)
    if not error.case_id:
        side.broken.add(suite)
    if error.case_id and (suite, error.case_id) not in side.cases:
        failed = Reviewed(suite=suite, id=error.case_id, error=message, snapshot=message)
        side.cases[suite, error.case_id] = failed
    else:
        side.errors.append(message)


def _declared(pipeline: Pipeline) -> str:
    try:
        return pipeline.to_yaml()
    except MultiturnError:  # a stage that only Python can name
        return repr(pipeline)


def sample_providers() -> dict[str, TargetProvider]:
    """Return a provider of each kind, which sends nothing, by its name for people.

    Their payloads name the model ``MODEL``; model, limits and keys are the targets' affair.
    """
    model: dict[str, Any] = {"name": "sample", "model": "MODEL", "api_key": "none"}
    continuing = {**model, "prefill": True}
    azure = AzureSettings(provider="azure", endpoint="", **model)
    return {
        "Azure OpenAI": AzureProvider(azure),
        "Anthropic": AnthropicProvider(AnthropicSettings(provider="anthropic", **continuing)),
        "Gemini": GeminiProvider(GeminiSettings(provider="gemini", **continuing)),
        "Codex": CodexProvider(CodexSettings(name="sample", provider="codex")),
        "VS Code": VSCodeProvider(VSCodeSettings(name="sample", provider="vscode")),
    }


def review(conversion: Conversion, providers: Mapping[str, TargetProvider]) -> Reviewed:
    """Return what a report shows of a finished conversion.

    Args:
        conversion: of one case.
        providers: by their names for people.

    Raises:
        MultiturnError: the suite is outside its root.
    """
    case, chat = conversion.case, conversion.chat
    request = request_of(conversion)
    messages, question = spans_of(conversion)
    texts = (question, *(message.spans for message in messages or ()))
    parts = [part for turn in chat or conversion.turns for part in turn.parts]
    keys = case.keyed_texts
    return Reviewed(
        suite=suite_of(case),
        id=case.id,
        line=case.line,
        chat=messages,
        question=question,
        payloads=tuple(_payload(*item, request, texts) for item in providers.items()),
        snapshot=snapshot_text(conversion),
        promoted=frozenset(entry.path for entry in promotions_of(conversion)),
        files={file.resolved_path: _as_read(file, case) for file in conversion.input_files},
        guidelines=frozenset(f.resolved_path for f in conversion.input_files if f.guideline),
        patterns=case.guideline_patterns,
        keys=keys,
        shown=frozenset(part.key for part in parts if part.key is not None)
        if chat is not None
        else frozenset(keys),
        messages=tuple(
            (json.dumps([message.role, message.content], ensure_ascii=False), message.line)
            for message in case.input_messages
        ),
    )


def _as_read(file: InputFile, case: Case) -> str:
    """Return a file's text as it is on disk: what a stage has changed has another cause."""
    return file.text if case.files is None else case.files.read(file.resolved_path, sys.maxsize)


def _payload(
    name: str, provider: TargetProvider, request: ProviderRequest, texts: Sequence[Spans]
) -> Payload:
    """Return what a provider would send.

    Args:
        name: of the provider, for people.
        provider: which sends nothing.
        request: of one case.
        texts: the question, and each message of the chat prompt.
    """
    try:
        wire, marked = provider.wire(request), provider.wire(_marked(request))
    except ProviderError as error:
        return Payload(name, None, (f"refused: {error.what}",))
    decoded = json.loads if isinstance(provider, HttpProvider) else bytes.decode
    return Payload(name, _in_spans(decoded(wire.body), decoded(marked.body), texts), wire.repairs)


def _marked(request: ProviderRequest) -> ProviderRequest:
    """Return a request with a mark in place of each text, so that payloads show where it goes."""
    chat = request.chat_prompt and tuple(
        replace(message, content=_marked_text(number, message.content))
        for number, message in enumerate(request.chat_prompt, 1)
    )
    return replace(request, chat_prompt=chat, question=_marked_text(0, request.question))


def _marked_text(number: int, text: str) -> str:
    return text if is_blank(text) else f"{_TOKEN}-{number}-"


def _in_spans(body: Any, marked: Any, texts: Sequence[Spans]) -> Any:
    """Return a payload's body with each text in spans; what the provider edited is one span."""
    if isinstance(body, str):
        pieces = _MARK.split(marked)
        added = "added for this provider" if len(pieces) > 1 else ""
        spans = tuple(
            span
            for at, piece in enumerate(pieces)
            for span in (texts[int(piece)] if at % 2 else (Span(piece, added),))
            if span.text
        )
        return spans if text_of(spans) == body else (Span(body, ""),)
    if isinstance(body, list):
        return [_in_spans(*pair, texts) for pair in zip(body, marked, strict=True)]
    if isinstance(body, dict):
        return {
            key: value if key == "role" else _in_spans(value, marked[key], texts)
            for key, value in body.items()
        }
    return body


def spoken(body: Any, role: str = "") -> Iterator[Message]:
    """Yield each text of a payload's body, in its order, with the role of its message."""
    if isinstance(body, tuple):
        yield Message(role, body)
    elif isinstance(body, list):
        for item in body:
            yield from spoken(item, role)
    elif isinstance(body, dict):
        for key, item in body.items():
            if key != "role":
                yield from spoken(item, body.get("role", role))
