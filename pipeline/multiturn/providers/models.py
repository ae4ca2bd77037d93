"""What is known of models: rows of data, each with its source; what no row says is unknown."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from multiturn.documents.node import Node
from multiturn.documents.validation import read_as
from multiturn.documents.yaml_reader import read_documents
from multiturn.errors import MultiturnError, did_you_mean
from multiturn.files.media import Detail, Media
from multiturn.files.pixels import pixels_of
from multiturn.model.image_tokens import ImageRule
from multiturn.model.settings import SETTINGS, RequestSettings
from multiturn.model.tokens import Tokenizer
from multiturn.providers.settings import in_words

SERVERS = "servers"  # the key of models.yaml for other servers with OpenAI's API

# What models take or refuse, besides most settings, whose name says it: what warnings call it, and
# what a request can do without it.
_WORDS: Mapping[str, tuple[str, str]] = {
    "temperature": ("a temperature", "temperature: omit"),
    "final_assistant": ("a final assistant message", "end with a user message"),
    "later_system": ("a later system message", "later_system: merge"),
    "cache_breakpoints": ("a cache breakpoint", "prompt_caching: false"),
    "unsigned_calls": ("a call without its signature", "thought_signature: skip"),
    "images": ("an image", "use a model that does"),
    "documents": ("a document", "use a model that does"),
    "audio": ("an audio file", "use a model that does"),
    "addresses": ("an address of media", "attach the file itself"),
    "chat": ("a request of Chat Completions", "api: responses"),
    "responses": ("a request of the Responses API", "api: chat"),
    "phase": ("a phase", "{phase: false}"),
    "encrypted_thinking": ("encrypted thinking", "leave out the thinking"),
    "result_media": ("media in a result", "attach them to a message of the user"),
    "system_message": ("a system message", "write it in the first user message"),
    "only_text": ("a prompt without audio", "use another model, or attach audio"),
    "only_thinking": ("thinking alone", "give the assistant's message a text, or leave it out"),
    "final_thinking": ("thinking last", "set reasoning_tokens, or leave out the last thinking"),
    "recorded_thinking": ("thinking of another conversation", "leave out the thinking"),
    "tools": ("tools", "use a model that does"),
    "tools_over_chat": ("tools over Chat Completions", "set api: responses in the target"),
    "forced_tool_choice": ("a forced tool_choice", "set tool_choice: auto"),
}
# Settings that each API has: only what a source refuses of them is said.
QUIET = {"max_output_tokens", "stop", "tool_choice", "parallel_tool_calls", "service_tier"}
FEATURES = tuple(dict.fromkeys(name for name in (*SETTINGS, *_WORDS) if name != "body"))


def words_of(feature: str) -> tuple[str, str]:
    """Return what warnings call a feature, and what a request can do without it."""
    return _WORDS.get(feature) or (feature, f"leave out {feature}")


def _is_taken(words: str | tuple[str, ...], value: str) -> bool:
    """Return whether a row's words, of those that ``takes`` has, mean that a value is taken."""
    if isinstance(words, tuple):
        return value in words
    if words.startswith("only "):
        return value == words[5:]
    if words.startswith("up to "):
        with suppress(ValueError):  # a row may say it of what is no number
            return float(value) <= float(words[6:])
    return words in ("yes", "ignored")


_FINE_TUNED = re.compile(r"^ft:([^:]+).*")
_BEDROCK = re.compile(r"^(?:[a-z-]+\.)?anthropic\.|-v\d+(?=:)")
_DATE = re.compile(r"-(?:\d{4}-\d\d-\d\d|\d\d-\d\d(?:\d\d)?|\d{8}|\d{3,4})$")
_TAKES = re.compile(r"yes|no|ignored|only .+|up to \d+")  # of ``takes``


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a source says of some models and one feature.

    Attributes:
        names: names of models; `*` stands for any characters.
        source: who says so.
        seen: the day on which it was seen, as 2026-11-22.
        takes: what the models take: `yes`, `no`, `ignored`, `only 1`, `up to 64000`, or a list of
            values; by the name of a setting, or of another feature.
        roles: `alternate`: user and assistant must alternate, the user first.
        system: `no`: they take no system message at all.
        limit: the name of the limit, where they take only this one.
        tokenizer: the name of their published tokenizer.
        whole: whether the source of a tokenizer says what messages add, too.
        estimate: about how many tokens they make of each that o200k_base makes, if there is no
            published tokenizer.
        image_tokens: how many tokens an image is.
        detail: how closely the model looks at the images for which that holds.
        cache_minimum: from how many tokens on a prefix is cached.
        when: the settings of requests that it holds for: for each its values, `set` or `unset`.
        rule: the id of the rule that a refusal names.
        api_version: the version of the API that this holds for; null for any.
    """

    names: Annotated[tuple[str, ...], Meta(min_length=1)]
    source: Annotated[str, Meta(min_length=1)]
    seen: str
    takes: Annotated[
        Mapping[str, str | tuple[str, ...]],
        Meta(extra_json_schema={"propertyNames": {"enum": [*FEATURES]}}),
    ] = {}
    roles: Literal["alternate"] | None = None
    system: Literal["no"] | None = None
    limit: Literal["max_tokens", "max_completion_tokens"] | None = None
    tokenizer: Literal["cl100k_base", "o200k_base"] | None = None
    whole: bool = False
    estimate: Annotated[float, Meta(gt=0)] | None = None
    image_tokens: ImageRule | None = None
    detail: tuple[Detail, ...] = ("auto",)
    cache_minimum: Annotated[int, Meta(gt=0)] | None = None
    when: Mapping[str, tuple[str, ...]] = {}
    rule: str = ""
    api_version: str | None = None

    def __post_init__(self) -> None:
        """Refuse a feature that no request has."""
        for name, words in self.takes.items():
            if name not in FEATURES:
                raise ValueError(f"takes has no {name!r}; {did_you_mean(name, FEATURES)}")
            if isinstance(words, str) and not _TAKES.fullmatch(words):
                choices = "yes, no, ignored, only 1, up to 64000, or a list of values"
                raise ValueError(f"takes: {name} must not be {words!r}; write {choices}")
        for name in self.when:
            if name not in SETTINGS:
                raise ValueError(f"when has no {name!r}; {did_you_mean(name, SETTINGS)}")

    def holds(self, asked: RequestSettings) -> bool:
        """Return whether it holds for a request with these settings."""
        for name, values in self.when.items():
            value = getattr(asked, name)
            words = {"unset"} if value is None else {"set", in_words(value)}
            if words.isdisjoint(values):
                return False
        return True

    def is_about(self, model: str, feature: str, api_version: str | None) -> bool:
        """Return whether the row says something of a model, given by its plain name."""
        return (
            (feature in self.takes or getattr(self, feature, None) is not None)
            and self.api_version in (None, api_version)
            and any(fnmatchcase(model, name.lower()) for name in self.names)
        )


@cache
def plain_name(model: str) -> str:
    """Return the name of a model without prefixes, dates and ``-latest``.

    >>> plain_name("ft:gpt-5-mini-2025-08-07:acme::x"), plain_name("models/gemini-2.5-flash-001")
    ('gpt-5-mini', 'gemini-2.5-flash')
    >>> plain_name("us.anthropic.claude-opus-4-6-20260205-v1:0"), plain_name("claude-2.1@latest")
    ('claude-opus-4-6', 'claude-2-1')
    """
    name = _FINE_TUNED.sub(r"\1", model.lower().rpartition("/")[2])
    name = re.split("[@:]", _BEDROCK.sub("", name))[0]
    previous = ""
    while name != previous:
        previous, name = name, _DATE.sub("", name.removesuffix("-latest"))
    if name.startswith("claude"):  # gateways write 4.6 where Anthropic writes 4-6
        name = re.sub(r"(?<=\d)\.(?=\d)", "-", name)
    return name


@cache
def shipped_rows() -> dict[str, tuple[Row, ...]]:
    """Return the rows of models.yaml by vendor; the file is read when they are first needed."""
    path = Path(__file__).with_name("models.yaml")
    (document,) = read_documents(path.read_bytes(), path.name)
    return {vendor: read_rows(node, path.name) for vendor, node in document.members.items()}


def read_rows(node: Node, where: str) -> tuple[Row, ...]:
    """Return the rows of a list in a file."""
    if not isinstance(node.children, list):
        raise MultiturnError("models is a list of rows", where=node.place(where))
    return tuple(read_as(row, Row, where=where, label="models") for row in node.children)


@cache
def _shipped_about(
    vendor: str, name: str, feature: str, api_version: str | None
) -> tuple[Row, ...]:
    """Return the rows of a vendor about a model; at another server, those of all vendors."""
    every = shipped_rows()
    rows = [*every.get(vendor, ())]
    if vendor == SERVERS:
        others = (row for other in every if other != SERVERS for row in every[other])
        rows += (row for row in others if row.names != ("*",))
    return tuple(row for row in rows if row.is_about(name, feature, api_version))


def told_by(row: Row, feature: str) -> str:
    """Return what a row says of a feature, in words."""
    words = row.takes[feature]
    return words if isinstance(words, str) else "only " + ", ".join(words)


class Verdict(NamedTuple):
    """Whether a model takes something."""

    feature: str
    model: str  # what to call it
    takes: bool | None  # None if it is not known, or if sources disagree
    rows: tuple[Row, ...] = ()  # what sources say; none if the target says it
    rule: str = "C4"  # the id of the rule by which it does not
    is_ignored: bool = False  # it is accepted without any effect

    @property
    def doubt(self) -> str:
        """What is not known in words, and what to do about it."""
        noun, otherwise = words_of(self.feature)
        known = f"not known whether {self.model} takes {noun}"
        if len(self.rows) > 1:
            told = "; ".join(f"{told_by(row, self.feature)}: {row.source}" for row in self.rows)
            known = f"sources disagree whether {self.model} takes {noun} ({told})"
        return f"{known}; say model_takes: {{{self.feature}: true}}, or {otherwise}"

    @property
    def objection(self) -> str:
        """How to say that the model takes it nevertheless; empty where the target says it not."""
        # What a version of the API refuses for every model is no question of the model.
        if all(row.api_version is not None for row in self.rows):
            return ""
        return f"; say model_takes: {{{self.feature}: true}} if {self.model} takes one"


class Abilities(NamedTuple):
    """What is known of the model of a target: what the target says wins, then rows of its file."""

    vendor: str  # a key of models.yaml
    model: str
    said: Mapping[str, bool] = {}  # ``model_takes`` of the target
    own: tuple[Row, ...] = ()
    api_version: str | None = None
    asked: RequestSettings = RequestSettings()  # of the request

    @property
    def name(self) -> str:
        """What to call the model."""
        return f"the model of the deployment {self.model}" if self.vendor == "azure" else self.model

    def takes(self, feature: str, value: str = "") -> Verdict:
        """Return whether the model takes a feature, or a value of a setting, in words."""
        if feature in self.said:
            return Verdict(feature, self.name, self.said[feature])
        rows = tuple(row for row in self.rows(feature) if row.holds(self.asked))
        found = {_is_taken(row.takes[feature], value) for row in rows}
        # A vendor's own server is not in between here: what that refuses may pass.
        is_hearsay = self.vendor == SERVERS and not any(row in self.own for row in rows)
        if len(found) != 1 or (found == {False} and is_hearsay):
            return Verdict(feature, self.name, None, rows)
        rule = next((row.rule for row in rows if row.rule), "C4")
        is_ignored = {row.takes[feature] for row in rows} == {"ignored"}
        return Verdict(feature, self.name, found.pop(), rows, rule, is_ignored)

    @property
    def tokenizer(self) -> Tokenizer:
        """What counts the model's tokens."""
        for row in self.rows("tokenizer"):
            return Tokenizer(row.tokenizer or "")
        return Tokenizer(factor=next((row.estimate or 1 for row in self.rows("estimate")), 1))

    @property
    def is_overhead_known(self) -> bool:
        """Whether it is known how many tokens the vendor adds to those of the texts."""
        return any(row.whole for row in self.rows("tokenizer"))

    @property
    def cache_minimum(self) -> int | None:
        """From how many tokens on a prefix is cached, by the most cautious source, if any says."""
        return max((row.cache_minimum or 0 for row in self.rows("cache_minimum")), default=None)

    def image_tokens(self, media: Media) -> int | None:
        """Return how many tokens an image is; None if that is not known, or of other media."""
        detail, size = media.detail or "auto", None
        rules = (row.image_tokens for row in self.rows("image_tokens") if detail in row.detail)
        if (rule := next(rules, None)) and media.has_bytes:
            size = pixels_of(media.data, media.media_type)
        return rule.tokens(*size) if rule and size else None

    def other_versions(self) -> Iterable["Abilities"]:
        """Yield the same for each other version of the API that is known."""
        versions = {row.api_version for row in shipped_rows().get(self.vendor, ())}
        for version in sorted(filter(None, versions - {self.api_version})):
            yield self._replace(api_version=version)

    def rows(self, feature: str) -> tuple[Row, ...]:
        """Return the rows about the model: those of the user's own, else those that ship.

        Those that name it with its date count more than those without it.
        """
        dated, plain = self.model.lower(), plain_name(self.model)
        about = self._about(dated, feature) if dated != plain else ()
        return tuple(row for row in about if dated in row.names) or self._about(plain, feature)

    def _about(self, name: str, feature: str) -> tuple[Row, ...]:
        own = tuple(row for row in self.own if row.is_about(name, feature, self.api_version))
        return own or _shipped_about(self.vendor, name, feature, self.api_version)
