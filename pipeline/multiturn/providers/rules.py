"""The rules of the vendors, and the repairs that make a chat prompt follow them.

A repaired prompt is a different experiment, so results name each repair. A prompt that cannot be
repaired without changing its meaning is refused before anything is sent.
"""

from collections.abc import Iterable, Sequence
from itertools import dropwhile, groupby, takewhile
from typing import Any, NamedTuple

from msgspec import structs

from multiturn.providers.base import ProviderError
from multiturn.providers.models import Abilities, Accepted, Verdict
from multiturn.request import ChatMessage, ProviderRequest
from multiturn.turns import Part, Role, Turn, Turns, is_blank, separate_first


class Rule(NamedTuple):
    """A rule of a vendor's API for requests. For which models it holds is in models.yaml."""

    id: str  # its name in results and errors
    vendor: str  # whose rule it is
    rule: str  # what the API requires
    source: str  # where it was seen


_TABLE = """\
A1 | Anthropic | system is a field; messages must be user or assistant | SDK
A2 | Anthropic | there must be a message that is not system | inspect_evals #624
A3 | Anthropic | text blocks must not be empty | anthropic-sdk-python #461
A4 | Anthropic | for some models, the last message must not be assistant | ai #12296
A5 | Anthropic | a final assistant message must not end in white space | litellm
A6 | Anthropic | neighbors of one role count as one message | inspect_ai #1420
A7 | Anthropic | for some models, temperature must not be set | rocketride-server #1195, inspect_ai #3722
A8 | Anthropic | caching is asked for by cache_control on a block | SDK
A9 | Anthropic | a temperature must not exceed 1 | API reference
A10 | Anthropic | some models take system after user, and last or before assistant | pydantic-ai #5706, #6765, bifrost #5931
A11 | Anthropic | since API version 2026-10-21, temperature must not be set | migration guide, SDK 2.11
G1 | Gemini | system must go into system_instruction, or not at all | inspect_ai
G2 | Gemini | contents must not be empty | litellm #13769
G3 | Gemini | roles must be user and model, by turns | autogen #2900
G4 | Gemini | the first turn must be user; for some models, the last one, too | one-api #836, dify #3449, pipecat #5821
G5 | Gemini | text parts must not be empty | inspect_ai
G6 | Gemini | proxies and some fields want v1beta, not v1 | LiteLLM 1.106
G7 | Gemini | a temperature must not exceed 2 | API reference
G8 | Gemini | some models ignore a temperature | opencode #38924
O1 | OpenAI | tool must follow an assistant's tool call | OpenManus #744
O2 | OpenAI | some models want developer, not system | litellm #7961
O3 | OpenAI | a filtered prompt is HTTP 400, content_filter | Azure docs
O4 | OpenAI-compatible | some take max_tokens only | llama.cpp #13700
O5 | OpenAI-compatible | some take a system message only first | vllm #41114
O7 | OpenAI | a temperature must not exceed 2 | API reference
O8 | OpenAI | some models take no temperature but 1 | langchaingo #1355, litellm #13781
O11 | OpenAI | some models take max_completion_tokens only | AgentLab #251, pokitoki #48
O12 | OpenAI | some models take no temperature | openai-python #2104, tee-gateway #154
O13 | OpenAI-compatible | in some chat templates, user and assistant must alternate | chat_templates, trl, rendered
O14 | OpenAI-compatible | some chat templates take no system message | chat_templates, rendered
F1 | command lines | an argument must not exceed 128 KiB | Codex
F2 | command lines | a line that starts with @ mentions a file | AgentV
F3 | agents | a file needs a path, and what to do with it | AgentV #422, #1072
F4 | agents | neither temperature nor limit can be set | codex exec --help
F5 | agents | VS Code gets transcript and files, unless told | VS Code's chat
R1 | GitHub | a step summary must not exceed 1,024 KiB | runner
C1 | all | a prompt must have a user or an assistant message | multiturn
C2 | all | a temperature must be finite and not negative | multiturn
C3 | all | a target that says omit must get no temperature | multiturn
C4 | all | a target gets only what it is said to take | multiturn
"""  # noqa: E501 - a rule is a line
RULES = {rule.id: rule for rule in (Rule(*row.split(" | ")) for row in _TABLE.splitlines())}

_MERGE_LATER = "later_system: merge of consolidate_system avoids it"
_KEEP_GUIDELINES = "references_only: keep of filter_empty keeps one that only attaches guidelines"
_AVOIDED: dict[Accepted, str] = {  # what a request can do without a feature
    "temperature": "temperature: omit",
    "final_assistant": "end with a user message",
    "later_system": "later_system: merge",
}
_SYSTEM = "[System]: "  # how later_system: assistant of consolidate_system begins a message


def named(rule: str, what: str) -> str:
    """Return a repair or an error after the id of its rule."""
    return f"{rule}: {what}"


def broken(rule: str, advice: str) -> str:
    """Return the error for a broken rule, and how to avoid it."""
    vendor = RULES[rule].vendor
    whose = "" if vendor == "all" else f" ({vendor})"
    return named(rule, f"{RULES[rule].rule}{whose}; {advice}")


def _merged(role: Role, turns: Sequence[Turn]) -> Turn:
    """Return one message of several, with blank lines between."""
    if len(turns) == 1:
        return turns[0]
    empty = (Part("text", ""),)  # a message without parts has its blank line, too
    parts = (part for turn in turns for part in separate_first("\n\n", turn.parts or empty))
    return Turn(role, tuple(parts))


class Layout:
    """The messages of a chat prompt, while they are changed to follow a vendor's rules."""

    def __init__(self, prompt: Iterable[Turn], request: ProviderRequest | None = None) -> None:
        self.messages = list(prompt)
        self.system: Turn | None = None  # what the API takes apart from the messages
        self.request = request
        self.repairs: list[str] = []
        self.refusals: list[str] = []
        self.doubts: list[str] = []  # what the request uses, and is not known of the model

    @property
    def shown(self) -> Turns:
        """The messages after the repairs, with the system message that the API takes apart."""
        return (*([self.system] if self.system else []), *self.messages)

    def plain(self, system_role: str = "system") -> list[ChatMessage]:
        """Return the messages as most APIs take them: a role and a text."""
        roles: dict[str, Any] = {"system": system_role}
        return [ChatMessage(roles.get(m.role, m.role), m.content) for m in self.messages]

    def repair(self, rule: str, what: str) -> None:
        """Record a repair."""
        self.repairs.append(named(rule, what))

    def refuse(self, rule: str, advice: str) -> None:
        """Record a rule that no repair can meet."""
        self.refusals.append(broken(rule, advice))

    def done(self) -> tuple[str, ...]:
        """Return the repairs; rules that are broken are a ProviderError that names them all."""
        if self.refusals:
            raise ProviderError("; ".join(self.refusals))
        return tuple(self.repairs)

    def has_later_system(self) -> bool:
        """Return whether a system message stands after the conversation began."""
        later = dropwhile(lambda message: message.role == "system", self.messages)
        return any(message.role == "system" for message in later)

    def take_system(self, rule: str, blank: str, advice: str = "") -> str | None:
        """Remove the system messages, and return their text; None if there is none.

        One after another role's message is refused; ``blank`` is the rule that refuses empty text.
        """
        if self.has_later_system():
            what = f"one stands after the conversation began; {_MERGE_LATER}{advice}"
            self.refuse(rule, what)
        return self.take_first_system(rule, blank)

    def take_first_system(self, rule: str, blank: str) -> str | None:
        """Remove the system messages at the beginning, and return their text, or None."""
        first = list(takewhile(lambda message: message.role == "system", self.messages))
        self.messages = self.messages[len(first) :]
        if not first:
            return None
        if len(first) > 1:
            self.repair(rule, f"merged {len(first)} system messages")
        system = _merged("system", first)
        if is_blank(text := system.content):
            self.repair(blank, "left out an empty system message")
            return None
        self.system = system
        return text

    def merge_system(self, rule: str) -> None:
        """Merge all system messages into one, the first message, with blank lines between."""
        system = [message for message in self.messages if message.role == "system"]
        if len(system) > 1 or system != self.messages[: len(system)]:
            others = [message for message in self.messages if message.role != "system"]
            self.messages = [_merged("system", system), *others]
            count = f"{len(system)} system messages" if len(system) > 1 else "a system message"
            self.repair(rule, f"sent {count} as the first message")

    def tools_as_user(self, rule: str) -> None:
        """Make tool messages the user's: the API knows no tool call that they would answer."""
        for at, message in enumerate(self.messages):
            if message.role == "tool":
                marker = Part("text", "[Tool]: ", stage=f"rule {rule}")
                parts = (marker, *separate_first("", message.parts))
                self.messages[at] = Turn("user", parts, message.message)
                self.repair(rule, "sent a tool message as a user message that begins with [Tool]:")

    def system_as_user(self, rule: str) -> None:
        """Make system messages the user's."""
        for at, message in enumerate(self.messages):
            if message.role == "system":
                self.messages[at] = structs.replace(message, role="user")
                self.repair(rule, "sent a system message as a user message")

    def drop_blank(self, rule: str) -> None:
        """Remove blank messages."""
        for message in self.messages:
            if is_blank(message.content):
                self.repair(rule, f"left out an empty {message.role} message")
        self.messages = [message for message in self.messages if not is_blank(message.content)]

    def merge_runs(self, rule: str) -> None:
        """Join neighboring messages of one role by a blank line."""
        merged: list[Turn] = []
        for role, neighbors in groupby(self.messages, lambda message: message.role):
            run = list(neighbors)
            merged.append(_merged(role, run))
            if len(run) > 1:
                self.repair(rule, f"merged {len(run)} neighboring {role} messages")
        self.messages = merged

    def trim_end(self, rule: str) -> None:
        """Cut the white space at the end of the last message."""
        last = self.messages[-1]
        parts = list(last.parts)
        while parts and is_blank(parts[-1].text):
            parts.pop()
        text = parts[-1].text.rstrip() if parts else ""
        if len(parts) < len(last.parts) or text != parts[-1].text:
            parts[-1:] = [structs.replace(part, text=text) for part in parts[-1:]]
            self.messages[-1] = structs.replace(last, parts=tuple(parts))
            self.repair(rule, f"cut the white space at the end of the {last.role} message")

    def alternate(self, rule: str) -> None:
        """Merge neighbors of one role; refuse what makes user and assistant not alternate."""
        self.merge_runs(rule)
        turns = list(dropwhile(lambda message: message.role == "system", self.messages))
        if any(message.role == "system" for message in turns):
            what = "a system message stands after the conversation began"
            self.refuse(rule, f"{what}; set later_system: merge in the target")
        if turns and turns[0].role != "user":
            advice = self._pipeline_advice(turns[0].content)
            self.refuse(rule, f"begin with a user message{advice}")

    def doubt_template(self, abilities: Abilities) -> None:
        """Note where a model's own chat template would refuse a prompt, if the server uses it."""
        turns = list(dropwhile(lambda message: message.role == "system", self.messages))
        roles = [message.role for message in turns]
        expected = (["user", "assistant"] * len(roles))[: len(roles)]
        if (roles != expected or len(self.messages) - len(roles) > 1) and abilities.rows("roles"):
            what = f"the chat template of {abilities.name} wants user and assistant to alternate"
            self.doubts.append(
                f"{what}, if the server uses it; set roles: alternate, or roles: any"
            )
        if len(turns) < len(self.messages) and abilities.rows("system"):
            what = f"the chat template of {abilities.name} takes no system message"
            self.doubts.append(
                f"{what}, if the server uses it; set system_role: user, or roles: any"
            )

    def want_turns(self, rule: str) -> None:
        """Refuse a prompt without a user or an assistant message."""
        if all(message.role == "system" or is_blank(message.content) for message in self.messages):
            self.refuse(rule, f"add a user message{self._pipeline_advice()}")

    def want_user_first(self, rule: str) -> None:
        """Refuse a prompt whose first message is not the user's."""
        if self.messages and self.messages[0].role != "user":
            advice = self._pipeline_advice(self.messages[0].content)
            self.refuse(rule, f"begin with a user message{advice}")

    def judge(self, feature: Accepted, verdict: Verdict, abilities: Abilities, advice: str) -> bool:
        """Return whether a request may use a feature of a model; note a doubt, or refuse it."""
        if verdict.takes is None:
            self.doubts.append(verdict.doubt(feature, abilities.name, _AVOIDED[feature]))
        elif not verdict.takes:
            known = f"; say accepts: {{{feature}: true}} if {abilities.name} takes one"
            self.refuse(verdict.rule or "C4", advice + (known if verdict.rows else ""))
        return verdict.takes is not False

    def want_user_last(self, abilities: Abilities) -> bool:
        """Refuse a prompt that ends with the assistant, unless the model may take it.

        Return whether there is such a message that is sent.
        """
        if not self.messages or self.messages[-1].role != "assistant":
            return False
        advice = f"end with a user message{self._pipeline_advice(self.messages[-1].content)}"
        verdict = abilities.takes("final_assistant")
        return self.judge("final_assistant", verdict, abilities, advice)

    def want_system_in_place(self, abilities: Abilities) -> None:
        """Refuse a later system message where the model takes none, or not there."""
        for at, message in enumerate(self.messages):
            if message.role != "system":
                continue
            before, after = self.messages[:at][-1:], self.messages[at + 1 :][:1]
            for other in (each for each in before if each.role != "user"):
                self.refuse("A10", f"one follows a message of the {other.role}; {_MERGE_LATER}")
            for other in (each for each in after if each.role != "assistant"):
                why = f"one stands before a message of the {other.role}"
                self.refuse("A10", f"{why}; {_MERGE_LATER}")
        self.want_known_later_system(abilities, f"the model takes none; {_MERGE_LATER}")

    def want_known_later_system(self, abilities: Abilities, advice: str) -> None:
        """Refuse a system message that is not the first message where the model takes none."""
        if any(message.role == "system" for message in self.messages[1:]):
            self.judge("later_system", abilities.takes("later_system"), abilities, advice)

    def _pipeline_advice(self, text: str = "") -> str:
        """Return the options of stages that help where a message has this text, or is missing."""
        advice, request = "", self.request
        if text.startswith(_SYSTEM):
            advice += f"; if this one was a system message, {_MERGE_LATER}"
        if request is not None and any(
            file.guideline and file.path not in request.question for file in request.input_files
        ):
            advice += f"; {_KEEP_GUIDELINES}"
        return advice
