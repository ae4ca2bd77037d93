"""One side of a comparison: the cases of some suites, converted, with the origin of every text."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from multiturn.engine.outcomes import Outcome
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError
from multiturn.files import find_root
from multiturn.model import PROMPT_KEY, Case, Conversion, InputFile, ProviderRequest
from multiturn.pipelines.pipeline import Pipeline, request_of
from multiturn.prompts.provenance import origin_of
from multiturn.providers.anthropic import AnthropicProvider, AnthropicSettings
from multiturn.providers.azure import AzureProvider, AzureSettings
from multiturn.providers.base import ProviderError, TargetProvider
from multiturn.providers.codex import CodexProvider, CodexSettings
from multiturn.providers.gemini import GeminiProvider, GeminiSettings
from multiturn.providers.vscode import VSCodeProvider, VSCodeSettings
from multiturn.review.lockfile import promotions_of
from multiturn.review.snapshots import name_in_root, snapshot_text, suite_of
from multiturn.suites.suite import STDIN
from multiturn.turns import Part, Turn


class Piece(Struct, frozen=True, gc=False):
    """A stretch of text with one origin.

    Attributes:
        text: as the model sees it.
        origin: where it comes from, in words.
        path: the file that it belongs to, if it is a file's text or the header above it.
        changed: whether the other side of a comparison lacks it.
    """

    text: str
    origin: str
    path: str = ""
    changed: bool = False


Pieces = tuple[Piece, ...]


def content_of(pieces: Pieces) -> str:
    """Return the text that pieces make."""
    return "".join(piece.text for piece in pieces)


class Message(Struct, frozen=True, gc=False):
    """A message of a chat prompt, in pieces that concatenate to its content."""

    role: str
    pieces: Pieces


class Payload(Struct, frozen=True):
    """What a provider would send.

    Attributes:
        provider: its name for people.
        body: decoded JSON, or text; None if it is refused.
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
    question: Pieces = ()
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
        mistakes: that belong to no case.
        broken: the suites of which some case is not known.
    """

    cases: dict[tuple[str, str], Reviewed]
    pipeline: str
    mistakes: list[str]
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
        side.mistakes.append(message)


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
    azure = AzureSettings(provider="azure", endpoint="", **model)
    return {
        "Azure OpenAI": AzureProvider(azure),
        "Anthropic": AnthropicProvider(AnthropicSettings(provider="anthropic", **model)),
        "Gemini": GeminiProvider(GeminiSettings(provider="gemini", **model)),
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
    parts = [part for turn in chat or conversion.turns for part in turn.parts]
    keys = {f"guidelines[{number}]": text for number, text in enumerate(case.guidelines)}
    if case.system_prompt is not None:
        keys[PROMPT_KEY] = case.system_prompt
    return Reviewed(
        suite=suite_of(case),
        id=case.id,
        line=case.line,
        chat=None if chat is None else tuple(_message(turn, case) for turn in chat),
        question=tuple(_pieces(conversion.transcript, case)),
        payloads=tuple(_payload(*item, request) for item in providers.items()),
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


def _message(turn: Turn, case: Case) -> Message:
    return Message(turn.role, tuple(_pieces(turn.parts, case)))


def _pieces(parts: tuple[Part, ...], case: Case) -> Iterator[Piece]:
    above = None
    for number, part in enumerate(parts):
        path = part.resolved_path or ""
        if number and part.separator:
            yield Piece(part.separator, "between two parts", path if path == above else "")
        if part.text:
            yield Piece(part.text, origin_of(part, case), path)
        above = path


def _payload(name: str, provider: TargetProvider, request: ProviderRequest) -> Payload:
    try:
        wire = provider.wire(request)
    except ProviderError as error:
        return Payload(name, None, (f"refused: {error.what}",))
    body = wire.body.decode()
    as_json = name in ("Azure OpenAI", "Anthropic", "Gemini")
    return Payload(name, json.loads(body) if as_json else body, wire.repairs)
