"""The repairs that make a chat prompt follow the rules of a vendor.

A repaired prompt is a different experiment, so results name each repair. A prompt that cannot be
repaired without changing its meaning is refused before anything is sent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, groupby, takewhile

from msgspec import structs

from multiturn.errors import ProviderError
from multiturn.model.request import ProviderRequest
from multiturn.model.turns import Part, Role, Turn, Turns, is_blank, joined, separate_first
from multiturn.providers.models import Abilities, Verdict
from multiturn.providers.rules import RULES, Rule, broken, named

_MERGE_LATER = "later_system: merge of consolidate_system avoids it"
_KEEP_GUIDELINES = "references_only: keep of filter_empty keeps one that only attaches guidelines"
_SYSTEM = "[System]: "  # how later_system: assistant of consolidate_system begins a message


def _merged(role: Role, turns: Sequence[Turn]) -> Turn:
    """Return one message of several, with blank lines between."""
    if len(turns) == 1:
        return turns[0]
    empty = (Part("text", ""),)  # a message without parts has its blank line, too
    given = (turn.parts or (() if turn.is_more else empty) for turn in turns)
    parts = (part for each in given for part in separate_first("\n\n", each))
    return Turn(role, tuple(parts), None, turns[0].thinking, turns[-1].calls)


def _runs(turns: Iterable[Turn]) -> Iterator[list[Turn]]:
    """Yield neighbors of one role that can be one turn: it thinks, then speaks, then calls."""
    run: list[Turn] = []
    for turn in turns:
        if run and (turn.answers is not None or turn.thinking or run[-1].calls):
            yield run
            run = []
        run.append(turn)
    yield run


def _is_empty(message: Turn) -> bool:
    return is_blank(message.content) and not message.is_more


class Layout:
    """The messages of a chat prompt, while they are changed to follow a vendor's rules."""

    def __init__(
        self,
        prompt: Iterable[Turn],
        request: ProviderRequest | None = None,
        rules: Mapping[str, Rule] = RULES,
    ) -> None:
        self.messages = list(prompt)
        self.has_more = any(message.is_more for message in self.messages)
        self.has_media = any(message.has_media for message in self.messages)
        self.system: Turn | None = None  # what the API takes apart from the messages
        self.request = request
        self.rules = rules  # by their ids
        self.repairs: list[str] = []
        self.refusals: dict[str, list[str]] = {}  # how to avoid each, by rule
        self.doubts: list[str] = []  # what the request uses, and is not known of the model

    @property
    def shown(self) -> Turns:
        """The messages after the repairs, with the system message that the API takes apart."""
        return (*([self.system] if self.system else []), *self.messages)

    def repair(self, rule: str, what: str) -> None:
        """Record a repair."""
        self.repairs.append(named(rule, what))

    def refuse(self, rule: str, advice: str) -> None:
        """Record a rule that no repair can meet, and how to avoid that."""
        self.refusals.setdefault(rule, []).append(advice)

    def done(self) -> tuple[str, ...]:
        """Return the repairs; rules that are broken are a ProviderError that names them all."""
        if self.refusals:
            refusals = self.refusals.items()
            errors = (broken(rule, "; ".join(found), self.rules) for rule, found in refusals)
            raise ProviderError("; ".join(errors))
        return tuple(self.repairs)

    def has_later_system(self) -> bool:
        """Return whether a system message stands after the conversation began."""
        return any(message.role == "system" for message in self._after_system())

    def _after_system(self) -> Iterator[Turn]:
        """Return the messages from the first on that is not the system's."""
        return dropwhile(lambda message: message.role == "system", self.messages)

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
        """Make tool messages that answer no call the user's: no API takes them as they are."""
        for at, message in enumerate(self.messages):
            if message.role == "tool" and message.answers is None:
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
        """Remove blank messages, and blank texts beside calls, thinking or media, or of results."""
        kept: list[Turn] = []
        for message in self.messages:
            if message.has_media:
                kept.append(self._without_blank_texts(message, rule))
            elif not is_blank(message.content):
                kept.append(message)
            elif not message.is_more:
                self.repair(rule, f"left out an empty {message.role} message")
            else:
                if message.content:
                    self.repair(rule, f"left out the empty text of the {message.role}")
                kept.append(structs.replace(message, parts=()))
        self.messages = kept

    def _without_blank_texts(self, message: Turn, rule: str) -> Turn:
        """Return a message with media without the blank texts beside them."""
        kept: list[Part] = []
        for is_text, run in groupby(message.parts, lambda part: part.media is None):
            parts = tuple(run)
            if not is_text or not is_blank(text := joined(parts)):
                kept += parts
            elif text:
                self.repair(rule, f"left out an empty text beside media of the {message.role}")
        return structs.replace(message, parts=tuple(kept))

    def merge_runs(self, rule: str) -> None:
        """Join neighboring messages of one role by a blank line; results stay apart."""
        merged: list[Turn] = []
        for role, neighbors in groupby(self.messages, lambda message: message.role):
            run = list(neighbors)
            runs = _runs(run) if self.has_more else (run,)
            merged.extend([_merged(role, turns) for turns in runs])
            if len(run) > 1 and role != "tool":
                self.repair(rule, f"merged {len(run)} neighboring {role} messages")
        self.messages = merged

    def trim_end(self, rule: str) -> None:
        """Cut the white space at the end of the last message."""
        last = self.messages[-1]
        parts = list(last.parts)
        if not parts:
            return  # it is thinking only
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
        if self.has_later_system():
            what = "a system message stands after the conversation began"
            self.refuse(rule, f"{what}; set later_system: merge in the target")
        self.want_user_first(rule)

    def doubt_template(self, abilities: Abilities) -> None:
        """Note where a model's own chat template would refuse a prompt, if the server uses it."""
        roles = [message.role for message in self._after_system()]
        expected = (["user", "assistant"] * len(roles))[: len(roles)]
        if (roles != expected or len(self.messages) - len(roles) > 1) and abilities.rows("roles"):
            what = f"the chat template of {abilities.name} wants user and assistant to alternate"
            self.doubts.append(
                f"{what}, if the server uses it; set roles: alternate, or roles: any"
            )
        if len(roles) < len(self.messages) and abilities.rows("system"):
            what = f"the chat template of {abilities.name} takes no system message"
            self.doubts.append(
                f"{what}, if the server uses it; set system_role: user, or roles: any"
            )

    def want_turns(self, rule: str) -> None:
        """Refuse a prompt without a user or an assistant message."""
        if all(m.role == "system" or _is_empty(m) for m in self.messages):
            self.refuse(rule, f"add a user message{self._pipeline_advice()}")

    def want_user_first(self, rule: str) -> None:
        """Refuse a prompt whose first message, after those of the system, is not the user's."""
        first = next(self._after_system(), None)
        if first is not None and first.role != "user":
            self.refuse(rule, f"begin with a user message{self._pipeline_advice(first.content)}")

    def judge(self, verdict: Verdict, advice: str) -> bool:
        """Return whether a request may use a feature of a model; note a doubt, or refuse it."""
        if verdict.takes is None:
            self.doubts.append(verdict.doubt)
        elif not verdict.takes:
            self.refuse(verdict.rule, advice + verdict.objection)
        return verdict.takes is not False

    def want_user_last(self, abilities: Abilities) -> bool:
        """Refuse a prompt that ends with the assistant, unless the model may take it.

        Return whether there is such a message that is sent.
        """
        if not self.messages or self.messages[-1].role != "assistant":
            return False
        advice = f"end with a user message{self._pipeline_advice(self.messages[-1].content)}"
        return self.judge(abilities.takes("final_assistant"), advice)

    def want_system_in_place(self, abilities: Abilities) -> None:
        """Refuse a later system message where the model takes none, or not there."""
        for at, message in enumerate(self.messages):
            if message.role != "system":
                continue
            before, after = self.messages[:at][-1:], self.messages[at + 1 :][:1]
            if not before:  # the message before it was blank
                self.refuse("A10", f"one follows no message of the user; {_MERGE_LATER}")
            for other in (each for each in before if each.role not in ("user", "tool")):
                self.refuse("A10", f"one follows a message of the {other.role}; {_MERGE_LATER}")
            for other in (each for each in after if each.role != "assistant"):
                why = f"one stands before a message of the {other.role}"
                self.refuse("A10", f"{why}; {_MERGE_LATER}")
        self.want_known_later_system(abilities, f"the model takes none; {_MERGE_LATER}")

    def want_known_later_system(self, abilities: Abilities, advice: str) -> None:
        """Refuse a system message that is not the first message where the model takes none."""
        if any(message.role == "system" for message in self.messages[1:]):
            self.judge(abilities.takes("later_system"), advice)

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
