"""What is known of models: rows of data, each with its source; what no row says is unknown."""

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from multiturn.documents.node import Node
from multiturn.documents.validation import read_as
from multiturn.documents.yaml_reader import read_documents
from multiturn.errors import MultiturnError
from multiturn.providers.tokens import Tokenizer

# What a target may say that its model takes.
Accepted = Literal[
    "temperature",
    "final_assistant",
    "later_system",
    "cache_breakpoints",
    "unsigned_calls",
    "chat",
    "phase",
    "encrypted_thinking",
    "images",
    "documents",
    "audio",
    "addresses",
    "result_media",
]
Feature = Accepted | Literal["system", "roles", "limit", "tokenizer", "estimate", "cache_minimum"]

SERVERS = "servers"  # the key of models.yaml for other servers with OpenAI's API

# What warnings call a feature, and what a request can do without it.
_WORDS: dict[Accepted, tuple[str, str]] = {
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
    "phase": ("a phase", "{phase: false}"),
}
_FINE_TUNED = re.compile(r"^ft:([^:]+).*")
_BEDROCK = re.compile(r"^(?:[a-z-]+\.)?anthropic\.|-v\d+(?=:)")
_DATE = re.compile(r"-(?:\d{4}-\d\d-\d\d|\d\d-\d\d(?:\d\d)?|\d{8}|\d{3,4})$")


YesNo = Literal["yes", "no"] | None  # None where a row says nothing of it


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a source says of some models and one feature.

    Attributes:
        names: names of models; `*` stands for any characters.
        source: who says so.
        seen: the day on which it was seen, as 2026-11-22.
        temperature: whether the models take a temperature.
        final_assistant: whether they take a last message of the assistant's.
        later_system: whether they take a system message after the conversation began.
        unsigned_calls: whether they take a call in the current turn without its signature.
        chat: whether they have OpenAI's Chat Completions API.
        phase: whether they want the phase of an assistant's text.
        encrypted_thinking: whether they can be asked for `reasoning.encrypted_content`.
        images: whether they see images.
        documents: whether they read PDF documents.
        audio: whether they hear audio.
        addresses: whether they take the `https:` address of an image, document or audio.
        result_media: whether they take images and documents in the results of calls.
        roles: `alternate`: user and assistant must alternate, the user first.
        system: `no`: they take no system message at all.
        limit: the name of the limit, where they take only this one.
        tokenizer: the name of their published tokenizer.
        whole: whether the source of a tokenizer says what messages add, too.
        estimate: about how many tokens they make of each that o200k_base makes, if there is no
            published tokenizer.
        cache_breakpoints: whether they cache what a request marks, and nothing before that.
        cache_minimum: from how many tokens on a prefix is cached.
        rule: the id of the rule that a refusal names.
        api_version: the version of the API that this holds for; null for any.
    """

    names: Annotated[tuple[str, ...], Meta(min_length=1)]
    source: Annotated[str, Meta(min_length=1)]
    seen: str
    temperature: Literal["yes", "only 1", "ignored", "no"] | None = None
    final_assistant: YesNo = None
    later_system: YesNo = None
    unsigned_calls: YesNo = None
    chat: YesNo = None
    phase: YesNo = None
    encrypted_thinking: YesNo = None
    images: YesNo = None
    documents: YesNo = None
    audio: YesNo = None
    addresses: YesNo = None
    result_media: YesNo = None
    roles: Literal["alternate"] | None = None
    system: Literal["no"] | None = None
    limit: Literal["max_tokens", "max_completion_tokens"] | None = None
    tokenizer: Literal["cl100k_base", "o200k_base"] | None = None
    whole: bool = False
    estimate: Annotated[float, Meta(gt=0)] | None = None
    cache_breakpoints: YesNo = None
    cache_minimum: Annotated[int, Meta(gt=0)] | None = None
    rule: str = ""
    api_version: str | None = None

    def is_about(self, model: str, feature: Feature, api_version: str | None) -> bool:
        """Return whether the row says something of a model, given by its plain name."""
        return (
            getattr(self, feature) is not None
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
    assert isinstance(document.children, dict)  # noqa: S101 - a test reads the file
    return {vendor: read_rows(node, path.name) for vendor, node in document.children.items()}


def read_rows(node: Node, where: str) -> tuple[Row, ...]:
    """Return the rows of a list in a file."""
    if not isinstance(node.children, list):
        raise MultiturnError("models is a list of rows", where=node.place(where))
    return tuple(read_as(row, Row, where=where, label="models") for row in node.children)


@cache
def _shipped_about(
    vendor: str, name: str, feature: Feature, api_version: str | None
) -> tuple[Row, ...]:
    """Return the rows of a vendor about a model; at another server, those of all vendors."""
    every = shipped_rows()
    rows = [*every.get(vendor, ())]
    if vendor == SERVERS:
        others = (row for other in every if other != SERVERS for row in every[other])
        rows += (row for row in others if row.names != ("*",))
    return tuple(row for row in rows if row.is_about(name, feature, api_version))


class Verdict(NamedTuple):
    """Whether a model takes something."""

    feature: Accepted
    model: str  # what to call it
    takes: bool | None  # None if it is not known, or if sources disagree
    rows: tuple[Row, ...] = ()  # what sources say; none if the target says it
    rule: str = "C4"  # the id of the rule by which it does not
    is_ignored: bool = False  # it is accepted without any effect

    @property
    def doubt(self) -> str:
        """What is not known in words, and what to do about it."""
        noun, otherwise = _WORDS[self.feature]
        known = f"not known whether {self.model} takes {noun}"
        if len(self.rows) > 1:
            told = "; ".join(f"{getattr(row, self.feature)}: {row.source}" for row in self.rows)
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

    @property
    def name(self) -> str:
        """What to call the model."""
        return f"the model of the deployment {self.model}" if self.vendor == "azure" else self.model

    def temperature(self, value: float) -> Verdict:
        """Return whether the model takes a temperature of this value."""
        taken = {"yes": True, "ignored": True, "only 1": value == 1, "no": False}
        return self._judge("temperature", lambda row: taken[row.temperature or "no"])

    def takes(self, feature: Accepted) -> Verdict:
        """Return whether the model takes a kind of message or content, or a mark in one."""
        return self._judge(feature, lambda row: getattr(row, feature) == "yes")

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

    def other_versions(self) -> Iterable["Abilities"]:
        """Yield the same for each other version of the API that is known."""
        versions = {row.api_version for row in shipped_rows().get(self.vendor, ())}
        for version in sorted(filter(None, versions - {self.api_version})):
            yield self._replace(api_version=version)

    def rows(self, feature: Feature) -> tuple[Row, ...]:
        """Return the rows about the model: those of the user's own, else those that ship."""
        name = plain_name(self.model)
        own = tuple(row for row in self.own if row.is_about(name, feature, self.api_version))
        return own or _shipped_about(self.vendor, name, feature, self.api_version)

    def _judge(self, feature: Accepted, takes: Callable[[Row], bool]) -> Verdict:
        if feature in self.said:
            return Verdict(feature, self.name, self.said[feature])
        rows = self.rows(feature)
        found = {takes(row) for row in rows}
        # A vendor's own server is not in between here: what that refuses may pass.
        is_hearsay = self.vendor == SERVERS and not set(rows) & set(self.own)
        if len(found) != 1 or (found == {False} and is_hearsay):
            return Verdict(feature, self.name, None, rows)
        rule = next((row.rule for row in rows if row.rule), "C4")
        is_ignored = {getattr(row, feature) for row in rows} == {"ignored"}
        return Verdict(feature, self.name, found.pop(), rows, rule, is_ignored)
