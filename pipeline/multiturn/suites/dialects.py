"""Suites as other tools write them, rewritten as ours; docs/suites.md has the table.

Nodes keep their places, so that errors name the line that somebody wrote.
"""

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct, structs

from multiturn.documents.json_lines import read_value
from multiturn.documents.node import Node, Repeats, list_of, measure, with_keys
from multiturn.errors import InputError, MultiturnError, RepeatsError, quoted
from multiturn.suites import keys as words
from multiturn.suites import messages as rewriting
from multiturn.suites.keys import KeyCheck, members_at, value_at
from multiturn.suites.messages import Rewriter, message_node

_MARKS = (("{{", "}}"), ("{%", "%}"), ("{#", "#}"))
_ECHO = "promptfoo's provider echo renders templates"
_BESIDE = ("prompts", *words.DEFAULTS_KEYS, "testData", "vars")

Template = tuple[Node, str]  # a text of a suite, and what in it is a template


class Braces(Struct, frozen=True):
    """What braces mean in a suite."""

    beside: str = ""  # the key of the suite by which they are templates
    is_literal: bool = False  # the suite says that they are text
    shared: Template | None = None  # a template in what the suite gives to all cases


def template_in(text: str) -> str | None:
    """Return a template in a text, as Jinja and Nunjucks write it; None if there is none.

    >>> template_in("a {{ b }} c"), template_in("{% if x %}"), template_in("{ a }} {{")
    ('{{ b }}', '{% if x %}', None)
    """
    for start, end in _MARKS:
        first = text.find(start)
        if first >= 0 and (last := text.find(end, first + 2)) >= 0:
            return text[first : last + 2]
    return None


def _texts(keys: Mapping[str, Node]) -> list[Template]:
    """Return each text of a suite or a case, those of keys too, that may have a template."""
    asked = ("input", "input_messages", "guidelines", "expected_messages")
    nodes = [keys[key] for key in asked if key in keys]
    metadata = members_at(keys, "metadata")
    nodes += [metadata[key] for key in ("systemPrompt", "system_prompt") if key in metadata]
    return _texts_in(nodes)


def _texts_in(nodes: Iterable[Node]) -> list[Template]:
    found: list[Template] = []
    for node in nodes:
        children = node.children
        if isinstance(children, dict):
            found += [(node, key) for key in children if "{" in key]
            children = children.values()
        if children:
            found += _texts_in(children)
        elif isinstance(node.scalar, str) and "{" in node.scalar:
            found.append((node, node.scalar))
    return found


def _template_of(texts: Iterable[Template]) -> Template | None:
    """Return the first template in some texts."""
    return next(((node, each) for node, text in texts if (each := template_in(text))), None)


# AgentV filled in the second from 9 March 2026 on, and since 3 July 2026 only the first.
_ENVIRONMENT = re.compile(r"\{\{-?\s*env\s*[.\[].*?\}\}", re.DOTALL)
_EARLIER = re.compile(r"\$\{\{\s*[A-Za-z_]\w*\s*\}\}", re.ASCII)


def _environment(text: str) -> re.Match[str] | None:
    # After the last end, each start would be searched for an end in vain.
    return _ENVIRONMENT.search(text, 0, text.rfind("}}") + 2)


_LIKE_JSON = r'(?s)\{.*\}|\[\s*(?:["{\[0-9-]|true|false|null).*\]'  # what promptfoo takes for it
_VARIABLE = r"\s*\{\{-?\s*(?:vars\.)?(\w+)\s*-?\}\}\s*"


class Variables(Struct, frozen=True):
    """What a suite says of the variables of its cases."""

    messages: str = ""  # the name of the one that holds the messages, if one does
    defaults: Mapping[str, Node] = {}  # those of all cases

    def take(self, keys: dict[str, Node], check: KeyCheck, label: str) -> str:
        """Write the one with the messages as the ``input`` of a case; return its name, if any."""
        check_options(keys, check, label)
        own = keys.pop("vars", None)
        values = _mapping(own, "vars", check.name, label)
        self._keep_others(values, keys, check, label)
        written = next((key for key in (*words.INPUT_KEYS, "input_messages") if key in keys), "")
        name = self.messages or "input"
        given = values.get(name, self.defaults.get(name))
        if given is not None and not (self.messages or written):
            raise _no_prompts(given, check.name, label)
        if given is None:
            if not written and self.messages and own is not None:
                what = f"there is no vars.{name}, which holds the messages; add it"
                raise InputError(what, where=own.key_place(check.name, label))
            return ""
        if written:
            raise check.both(written, f"vars.{name}", given, label)
        _check_plain(given, name, check.name, label)
        if given.source:  # a number, or a boolean: promptfoo writes it as text
            given = structs.replace(given, scalar=given.source, source=None)
        keys["input"] = given
        return f"vars.{name}"

    def _keep_others(
        self, values: Mapping[str, Node], keys: dict[str, Node], check: KeyCheck, label: str
    ) -> None:
        """Write the expected answer as the case's, and all others as metadata."""
        others = {**self.defaults, **values}
        others.pop(self.messages or "input", None)
        answer = others.pop(words.ANSWER, None)
        if answer is not None and not answer.is_null:
            own = next((key for key in keys if key in words.ANSWERS), "")
            if own and words.ANSWER in values:
                raise check.both(own, f"vars.{words.ANSWER}", answer, label)
            if not own:
                keys[words.ANSWER] = answer
        if not others:
            return
        kept = Node(None, next(iter(others.values())).mark, None, others)
        metadata = keys.get("metadata", with_keys(kept, {}))
        if "vars" in metadata.members:
            raise check.both("vars", "metadata.vars", metadata.members["vars"], label)
        if metadata.is_null or isinstance(metadata.children, dict):  # else an error of its own
            keys["metadata"] = with_keys(metadata, {**metadata.members, "vars": kept})


def variables_of(keys: dict[str, Node], check: KeyCheck) -> Variables:
    """Take ``prompts`` and the defaults out of a suite, and return what they say."""
    both = [name for name in words.DEFAULTS_KEYS if name in keys]
    if len(both) > 1:
        raise check.both(both[0], both[1], keys[both[1]])
    messages = _only_prompt(keys.pop("prompts"), check.name) if "prompts" in keys else ""
    check_options(keys, check, "")
    values = _mapping(keys.get("vars"), "vars", check.name, "")
    if "input" in values:
        raise _no_prompts(values["input"], check.name, "")
    if not both:
        return Variables(messages, values)
    defaults = keys.pop(both[0])
    given = _mapping(defaults, both[0], check.name, "")
    if given:
        check.check(defaults, "defaults", label=both[0])
    check_options(given, check, both[0])
    variables = _mapping(given.get("vars"), "vars", check.name, both[0])
    if "input" in variables and not messages:
        raise _no_prompts(variables["input"], check.name, both[0])
    return Variables(messages, {**values, **variables})


def check_options(keys: Mapping[str, Node], check: KeyCheck, label: str) -> None:
    """Check the options of a suite, a case, or the defaults of all cases."""
    options = keys.get("options")
    if options is not None and _mapping(options, "options", check.name, label):
        check.check(options, "options", label=": ".join(filter(None, (label, "options"))))


def _only_prompt(prompts: Node, suite: str) -> str:
    """Return the variable that each prompt of a suite is; any other prompt is an error."""
    found = ""
    for prompt in prompts.children if isinstance(prompts.children, list) else [prompts]:
        match = re.fullmatch(_VARIABLE, prompt.value) if isinstance(prompt.scalar, str) else None
        if match is None or found not in ("", match[1]):
            what = (
                "multiturn takes conversations, not templates; write each case's messages as its"
                f' input, or the only prompt as "{{{{ input }}}}" with vars.input; {_ECHO}'
            )
            raise InputError(what, where=prompt.place(suite))
        found = match[1]
    return found or "input"


def _mapping(given: Node | None, key: str, suite: str, label: str) -> dict[str, Node]:
    if given is None or given.value is None:
        return {}
    if not isinstance(given.children, dict):
        what = f"{key} must be a mapping; no file of it is read"
        raise InputError(what, where=given.place(suite, label))
    return given.children


def _no_prompts(given: Node, suite: str, label: str) -> MultiturnError:
    what = 'vars.input is the messages only beside prompts: ["{{ input }}"]; write it as input'
    return InputError(what, where=given.key_place(suite, label))


def _check_plain(given: Node, name: str, suite: str, label: str) -> None:
    """Refuse what promptfoo reads otherwise: files, chats in YAML, broken JSON, several tests."""
    where = given.place(suite, label)
    text = given.scalar if isinstance(given.scalar, str) else ""
    if text.startswith("file://"):
        raise InputError(f"vars.{name} is a file; write the text itself", where=where)
    if text.strip().startswith("- role:"):
        what = "is text in YAML, which promptfoo reads as messages; write them as a list"
        raise InputError(f"vars.{name} {what}", where=where)
    is_other = template_in(text) or rewriting.values_in_text(given)  # both are checked later
    if not is_other and re.fullmatch(_LIKE_JSON, text.strip()):
        try:
            read_value(text)
        except ValueError as error:
            what = "is like JSON that is broken; correct it, or write the text as the case's input"
            raise InputError(f"vars.{name} {what}: {error}", where=where) from None
    listed = given.children if isinstance(given.children, list) else []
    if not all(isinstance(each.children, dict) for each in listed):
        what = "is a list, of which promptfoo makes several tests; write each as a test"
        raise InputError(f"vars.{name} {what}", where=where)


_WITH_INPUT = {**words.CASE_NAMES, **words.ANSWER_NAMES}
_SHARED = ("guidelines", "metadata", "execution", "tools")  # by all cases, as an input and vars are
_OF_PROMPTFOO = frozenset(("vars", "options"))
_KEPT = words.OF_CASES - {*words.CASE_NAMES, "input_files", "options", "vars"}


class Dialect:
    """Rewrites the documents of one suite; ``read_as`` has what was read by another name."""

    def __init__(self, name: str) -> None:
        self.name = name  # what errors call the file that is read
        self.keys = KeyCheck(name)
        self.read_as: dict[str, str] = {}
        self.variables = Variables()
        self._shared: dict[str, Node] = {}  # what stands before the input of each case
        self._braces = Braces()
        self._values_given = 0  # by the suite, to each of its cases
        self.repeats = Repeats()

    def inside(self, name: str) -> "Dialect":
        """Return the dialect for the cases in a file that the suite names."""
        from copy import copy  # few suites have such files

        inside = copy(self)
        inside.name, inside.keys = name, KeyCheck(name)
        return inside

    def suite(self, head: Node) -> Node:
        """Return the keys of a suite by our names; a bare case is for ``case``."""
        self._shared, self.variables, self._braces = {}, Variables(), Braces()
        self._values_given = 0
        if not isinstance(head.children, dict):
            return head
        self.keys.refuse(head, "suite")
        keys = self._renamed(head.children, words.SUITE_NAMES, "")
        if value_at(keys, "templates") == "literal":
            self._braces = Braces(is_literal=True)
        else:
            beside = next((key for key in _BESIDE if key in keys), "")
            self._braces = Braces(beside, False, _template_of(_texts(keys)))
        cases = keys.get("evalcases")
        if cases is None:
            return head
        self.check_texts(keys, "")  # a bare case is checked as a case
        if isinstance(cases.scalar, str):  # a file of cases
            keys["evalcases"] = list_of([cases], cases.mark)
        self.variables = variables_of(keys, self.keys)
        rewriting.take_tools(keys, "input", self.keys, "")
        self._shared = {key: keys.pop(key) for key in ("input", "input_files") if key in keys}
        files, shared = self._shared.get("input_files"), self._shared.get("input")
        if shared is not None:
            if not isinstance(shared.value, str | list | dict | None):
                what = "input must be a text, a message or a list of messages"
                raise InputError(what, where=shared.place(self.name))
            self._shared["input"] = rewriting.message_nodes(shared, None, self.keys, "")
        _check_paths(files, self.name, "")
        given = [*self._shared.values(), *self.variables.defaults.values()]
        given += [keys[key] for key in _SHARED if key in keys]
        self._values_given = sum(measure(node)[0] for node in given)
        return with_keys(head, keys)

    def check_repeats(self, node: Node) -> None:
        """Refuse a case if the suite has given too many values to its cases by now."""
        keys = node.members
        inputs = [keys[key] for key in words.INPUT_KEYS if key in keys]
        if name := self.variables.messages:
            given = members_at(keys, "vars").get(name, self.variables.defaults.get(name))
            inputs += [given] if given is not None else []
        # A text that is a list of messages in JSON may be the same in all cases, by an alias.
        values = self._values_given + sum(map(rewriting.values_in_text, inputs))
        if values and self.repeats.add(values):
            raise RepeatsError(
                "the suite gives too many values to its cases, by its input, guidelines, metadata,"
                " vars or aliases; split it, or give less",
                where=node.place(self.name),
            )

    def is_ours(self, keys: Mapping[str, Node]) -> bool:
        """Return whether a case has only keys of ours, and its suite gives it none of others."""
        gives = self._shared or self.variables.messages or self.variables.defaults
        return not (gives or self._braces.beside) and keys.keys() <= _KEPT

    def check_texts(self, keys: Mapping[str, Node], label: str, *, has_vars: bool = False) -> None:
        """Refuse what other tools fill in; warn of what AgentV fills in in some versions only."""
        if self._braces.is_literal:
            return
        texts, beside = _texts(keys), "vars" if has_vars else self._braces.beside
        said = [*texts, *(_texts_in([keys["outcome"]]) if "outcome" in keys else ())]
        for node, text in said:
            if "${{" not in text and (variable := _environment(text)) is not None:
                what = (
                    f"AgentV fills in {quoted(variable[0])} from the environment, which suites"
                    " never read here; write the text itself, or templates: literal in the suite if"
                    " the braces are text"
                )
                raise InputError(what, where=node.place(self.name, label))
        found = (_template_of(texts) or self._braces.shared) if beside else None
        if found is not None:
            node, template = found
            what = (
                f"{quoted(template)} is a template beside {beside}; multiturn takes conversations,"
                " not templates: write the text itself, or templates: literal in the suite if the"
                f" braces are text; {_ECHO}"
            )
            raise InputError(what, where=node.place(self.name, label))
        for node, text in said:
            if (variable := _EARLIER.search(text) or _environment(text)) is not None:
                what = (
                    f"{quoted(variable[0])} is sent as text; some versions of AgentV fill it in:"
                    " write the text itself, or templates: literal in the suite if it is text"
                )
                self.keys.warn("suite.variable_as_text", node.place(self.name, label), what)

    def case(self, node: Node, label: str) -> tuple[Node, str]:
        """Return a case by our names, and its key of the messages; ``label`` is the case's."""
        self.keys.refuse(node, "case", label=label)
        keys = dict(node.children)
        variable = ""
        if self.variables != Variables() or not _OF_PROMPTFOO.isdisjoint(keys):
            variable = self.variables.take(keys, self.keys, label)
        files, written = keys.pop("input_files", None), ""
        _check_paths(files, self.name, label)
        skips = value_at(members_at(keys, "execution"), "skip_defaults")
        shared = {} if skips is True else self._shared
        for key in words.INPUT_KEYS:
            if key in keys:
                written = variable if key == "input" and variable else key
                rewriting.take_tools(keys, key, self.keys, label)
                keys[key] = self._messages(keys[key], files, shared.get("input_files"), label)
        if files is not None and files.value and not written:
            raise rewriting.needs_text(files, self.name, label)
        keys = self._renamed(keys, _WITH_INPUT if written else words.CASE_NAMES, label)
        self.check_texts(keys, label, has_vars="vars" in node.children)
        messages, key = keys.get("input_messages"), written or "input_messages"
        if messages is not None and not written and value_at(shared, "input_files"):
            self._warn_of_files(messages, label)
        if messages is not None and isinstance(messages.children, list):
            rewriter = Rewriter(self.keys, self.repeats, self.read_as, label)
            before = shared["input"].children if "input" in shared else None
            for at, message in enumerate(before or ()):
                rewriter.add(message, f"the suite's input[{at}]")
            for at, message in enumerate(messages.children):
                rewriter.add(message, f"{key}[{at}]")
            keys["input_messages"] = structs.replace(messages, children=rewriter.messages)
        return with_keys(node, keys), key

    def _messages(
        self, given: Node, files: Node | None, shared_files: Node | None, label: str
    ) -> Node:
        """Return the messages of an input, with the case's files before it, or the suite's."""
        if files is not None and files.value is not None:
            return rewriting.message_nodes(given, files, self.keys, label)
        messages = rewriting.message_nodes(given, None, self.keys, label)
        if shared_files is None or not shared_files.value:
            return messages
        if isinstance(given.scalar, str) and messages.children[0].children["content"] is given:
            return rewriting.message_nodes(given, shared_files, self.keys, label)
        self._warn_of_files(given, label)
        return messages

    def _warn_of_files(self, messages: Node, label: str) -> None:
        what = (
            "the suite's input_files are not attached, as the input is not a text;"
            " attach files in the messages, as {type: file, value: PATH}"
        )
        self.keys.warn("suite.files_left_out", messages.key_place(self.name, label), what)

    def _renamed(
        self, written: Mapping[str, Node], names: Mapping[str, str], label: str
    ) -> dict[str, Node]:
        """Return the keys of a mapping by our names, and an expected answer as messages."""
        keys: dict[str, Node] = {}
        for key, child in written.items():
            name = names.get(key, key)
            if key in names:
                self.read_as[key] = name
                # A text or a mapping that is an expected answer is one message.
                if name == "expected_messages" and not isinstance(child.children, list):
                    is_message = "role" in child.members
                    message = child if is_message else message_node("assistant", child)
                    child = list_of([message], child.mark)
            if name in keys:
                other = next(each for each in written if names.get(each, each) == name)
                raise self.keys.both(other, key, child, label)
            keys[name] = child
        return keys


def _check_paths(files: Node | None, suite: str, label: str) -> None:
    if files is not None and not isinstance(files.value, list | None):
        raise InputError("input_files must be a list of paths", where=files.place(suite, label))
