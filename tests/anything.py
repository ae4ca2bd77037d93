"""What holds of any input: it gives a result, or a MultiturnError with a place.

Each function takes bytes, and raises what is neither. Hypothesis and make fuzz look for such bytes.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, suppress
from copy import deepcopy
from functools import cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import msgspec

from bodies import BODIES, TEXTS, chat_body, in_telemetry
from multiturn import MultiturnError, ProviderError, load_pipeline, load_suite, load_target
from multiturn.engine.batches import BatchState
from multiturn.engine.converting import convert_cases
from multiturn.engine.project import find_defaults
from multiturn.engine.selection import Selection
from multiturn.logs import Notice, warnings_to
from multiturn.model.case import CASES_KEYS
from multiturn.model.settings import SETTINGS
from multiturn.providers.results import StoredResults
from multiturn.report.comparison import compare
from multiturn.report.html import to_html
from multiturn.report.markdown import to_markdown
from multiturn.report.sides import ReportSide, side_items
from multiturn.snapshots.lists import PROMOTED, lock_text, read_lock
from multiturn.suites.guideline_patterns import guideline_matcher
from multiturn.suites.keys import IRRELEVANT
from multiturn.traces.suite import Attached, Imported, imported, suite_text
from multiturn.traces.telemetry import INPUT
from vendors import PROVIDERS

_temporary = TemporaryDirectory()
_folder = Path(_temporary.name)
_pipeline = load_pipeline()
_REFUSED = MultiturnError("nothing is imported here")


def suites(data: bytes) -> None:
    """Load a suite, YAML or JSON Lines by its first byte, and convert its cases."""
    path = _written("s.jsonl" if data[:1] == b"{" else "s.yaml", data)
    errors: list[MultiturnError] = []
    for case in load_suite(path, on_error=errors.append):
        try:
            _pipeline.request(case)
        except MultiturnError as error:
            errors.append(error)
    for each in errors:
        _check_place(each, path)


def dialects(data: bytes) -> None:
    """Load a suite with keys of any tool, chosen by the bytes; no text of it is lost unsaid.

    Each text is in a case or its request, or below a key that does not concern the prompt, or that
    a warning names, or is a variable that no prompt uses; or its case is an error.
    """
    suite = _Chosen(iter(data)).suite()
    path = _written("s.yaml", msgspec.json.encode(suite))
    errors: list[MultiturnError] = []
    warnings: list[Notice] = []
    with warnings_to(warnings.append):
        loaded = list(load_suite(path, on_error=errors.append))
    said = " ".join(notice.why for notice in warnings)
    there = "".join(map(_as_json, loaded))
    for case in loaded:
        try:
            there += _as_json(_pipeline.request(case))
        except MultiturnError as error:
            errors.append(error)
    for each in errors:
        _check_place(each, path)
    for text, keys in () if errors else _texts(suite):
        is_variable = any(above == "vars" and key != "input" for above, key in pairwise(keys))
        is_said = any(key in _IRRELEVANT or key in said for key in keys)
        is_default = keys[0] in ("execution", "metadata") or "tools" in keys  # a case's own wins
        if text not in there and not (is_variable or is_said or is_default):
            raise AssertionError(f"{text} is lost, below {keys} of {path.read_text()}")


def _as_json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


_IRRELEVANT = frozenset().union(*IRRELEVANT.values())
_CASE_KEYS = (
    *("id", "input_messages", "input", "messages", "input", "metadata", "guidelines", "execution"),
    *("outcome", "criteria", "expected_output", "expected_messages", "conversation_id", "ideal"),
    *("vars", "target", "description", "assert", "unheard_of", "choices", "options", "tools"),
)
_SUITE_KEYS = (
    *("input", "metadata", "guidelines", "execution", "prompts", "defaultTest", "description"),
    *("vars", "unheard_of", "system", "tracing", "options", "tools"),
)
_INNER_KEYS = ("role", "content", "type", "text", "value", "input", "unheard_of", "weight", "vars")

_CALL_KEYS = ("unheard_of", "cache_control", "index", "function", "name", "is_error", "error")


def _texts(value: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each text of a suite that stands nowhere else in it, with the keys above it."""
    if isinstance(value, str) and value.startswith(("[{", '{"text.')):
        value = json.loads(value)
    if isinstance(value, str) and value.startswith("text."):
        yield value, keys
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, keys)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*keys, key))


class _Chosen:
    """Makes a suite as some bytes choose."""

    def __init__(self, choices: Iterator[int]) -> None:
        self._count = 0
        self._choices = choices

    def suite(self) -> dict[str, Any]:
        """Return a suite."""
        head = self._mapping(_SUITE_KEYS)
        cases = [self._mapping(_CASE_KEYS) for _ in range(1 + self._choice(2))]
        for number, case in enumerate(cases):
            case.setdefault("id", f"c{number}")
        if "prompts" in head:
            head["prompts"] = ["{{ input }}"]
        return {**head, CASES_KEYS[self._choice(len(CASES_KEYS))]: cases}

    def _choice(self, count: int) -> int:
        return next(self._choices, 0) % count

    def _mapping(self, names: tuple[str, ...], level: int = 0) -> dict[str, Any]:
        found = {}
        for _ in range(self._choice(5)):
            key = names[self._choice(len(names))]
            found[key] = [self._tool(level)] if key == "tools" else self._value(level + 1)
        return found

    def _value(self, level: int) -> Any:
        match self._choice(8 if level < 5 else 3):
            case 0 | 1 | 2:
                return self._text()
            case 3:
                return [self._value(level + 1) for _ in range(self._choice(3))]
            case 4:
                return self._messages(level, 1, 2)
            case 5:
                return json.dumps(self._messages(level, 1, 1))
            case _:
                return self._mapping(_INNER_KEYS, level)

    def _message(self, level: int) -> dict[str, Any]:
        role = ("user", "assistant", "developer", "system")[self._choice(4)]
        part = {"type": "text", "text": self._text()}
        content = [self._text(), [part], self._value(level + 1)][self._choice(3)]
        return {"role": role, "content": content, **self._mapping(_INNER_KEYS[6:], level)}

    def _messages(self, level: int, least: int, most: int) -> list[dict[str, Any]]:
        """Return messages, among which there may be calls and their results."""
        if self._choice(3) == 0:
            return self._called(level)
        return [self._message(level) for _ in range(least + self._choice(most))]

    def _called(self, level: int) -> list[dict[str, Any]]:
        name, given = self._text(), {self._text(): self._value(level + 1), "n": self._text()}
        function = {"name": self._text(), "arguments": json.dumps(given)}
        calls: tuple[dict[str, Any], ...] = (
            {"id": name, "name": self._text(), "arguments": given},
            {"id": name, "type": "function", "function": function},
            {"id": name, "function": self._text(), "arguments": given},
            {"type": "tool_use", "id": name, "name": self._text(), "input": given},
        )
        call = {**calls[self._choice(4)], **self._mapping(_CALL_KEYS, level)}
        thinking = (
            {"type": "thinking", "thinking": self._text(), "signature": self._text()},
            {"type": "reasoning", "reasoning": self._text(), "redacted": bool(self._choice(2))},
            {"type": "redacted_thinking", "data": self._text()},
            {"type": "text", "text": self._text()},
        )
        said = [{**thinking[self._choice(4)], **self._mapping(_CALL_KEYS, level)}, self._text()]
        if call.get("type") == "tool_use":
            result = {"type": "tool_result", "tool_use_id": name, "content": self._value(level + 1)}
            content = [result, self._value(level + 1)][: 1 + self._choice(2)]
            answer = {"role": "user", "content": content}
            return [{"role": "assistant", "content": [*said, call]}, answer]
        assistant = {"role": "assistant", "content": said, "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": name, "content": self._value(level + 1)}
        return [assistant, {**result, **self._mapping(_CALL_KEYS, level)}]

    def _tool(self, level: int) -> dict[str, Any]:
        keys = ("parameters", "input_schema")
        schema = {"type": "object", "properties": {self._text(): {"description": self._text()}}}
        tool = {"name": self._text(), keys[self._choice(2)]: schema}
        written = [tool, {"type": "function", "function": tool}][self._choice(2)]
        return {**written, **self._mapping(_CALL_KEYS, level)}

    def _text(self) -> str:
        self._count += 1
        return f"text.{self._count}."


def tables(data: bytes) -> None:
    """Convert the cases of a CSV file; if it begins with a letter, its columns are variables."""
    prompts = "prompts: ['{{ a }}']\n" if data[:1].isalpha() else ""
    _written("t.yaml", f"{prompts}tests: t.csv\n".encode())
    _written("t.csv", data)
    errors: list[MultiturnError] = []
    with chdir(_folder):
        for case in load_suite("t.yaml", on_error=errors.append):
            try:
                _pipeline.request(case)
            except MultiturnError as error:
                errors.append(error)
    for each in errors:
        _check_place(each, Path("t.csv" if str(each).startswith("t.csv") else "t.yaml"))


def settings(data: bytes) -> None:
    """Send the settings that some bytes choose to each vendor; no text of theirs is lost unsaid."""
    choices = iter(data)
    given = {SETTINGS[at % len(SETTINGS)]: _setting(choices) for at in choices}
    case = {"id": "a", "input": "Hi", "tools": [_TOOL], "execution": given}
    path = _written("s.yaml", msgspec.json.encode({"tests": [case]}))
    errors: list[MultiturnError] = []
    doubts: list[Notice] = []
    for loaded in load_suite(path, on_error=errors.append):
        request = _pipeline.request(loaded)
        for name, connect in PROVIDERS.items():
            with suppress(ProviderError), warnings_to(doubts.append):
                wire = connect().wire(request)
                there = json.dumps(json.loads(wire.body))
                said = " ".join([*wire.repairs, *(doubt.why for doubt in doubts)])
                for text, keys in _texts(given) if name != "echo" else ():
                    if text not in there and not all(key in said for key in keys):
                        raise AssertionError(f"{text} is lost, below {keys} of {given}: {there}")
    for each in errors:
        _check_place(each, path)


_TOOL = {"name": "text.0.", "parameters": {"type": "object"}}
_SETTING: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 0.5, 1e308, 10**25, "", "text.1.", "low", "none", "required"),
    *("json", "high", "flex", "auto", [], ["text.2."], {}, {"name": "text.0."}, {"text.3.": 1}),
    {"schema": {"type": "object", "description": "text.4."}, "name": "text_5"},
    {"schema": {"text.6.": []}, "strict": True, "description": "text.7."},
    *({"metadata": {"a": "text.8."}}, {"messages": [{"role": "user", "content": "text.9."}]}),
    *({"thinking": {"type": "enabled"}}, {"generationConfig": {"a": ["text.10."]}}, [None]),
)


def _setting(choices: Iterator[int]) -> Any:
    return _SETTING[next(choices, 0) % len(_SETTING)]


def pipelines(data: bytes) -> None:
    """Load a pipeline; an import path is refused, because any module that is there could run."""
    path = _written("pipeline.yaml", data)
    with _error_at(path), patch("multiturn.pipelines.registry.import_path", side_effect=_REFUSED):
        load_pipeline(path)


def targets(data: bytes) -> None:
    """Load a target."""
    path = _written("targets.yaml", data)
    with _error_at(path):
        load_target("t", file=str(path))


def patterns(data: bytes) -> None:
    """Match a path, the last line, against the other lines."""
    *lines, path = data.decode("utf-8", "surrogateescape").split("\n")
    try:
        guideline_matcher(tuple(lines))(path)
    except MultiturnError as error:
        if not error.what:
            raise AssertionError("an error without words") from error


def defaults(data: bytes) -> None:
    """Find the defaults of a project: in pyproject.toml, if it begins with a bracket."""
    path = _folder / "project" / ("pyproject.toml" if data[:1] == b"[" else "multiturn.toml")
    (path.parent / ".git").mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    with chdir(path.parent), _error_at(Path(path.name)):
        found, _ = find_defaults()
        for name in (*found.suites, found.root, found.snapshots, found.pipeline):
            os.path.realpath(name or ".")  # what can be a path
    path.unlink()


def states(data: bytes) -> None:
    """Read the state of batches, as --resume does."""
    path = _written("out.jsonl.batch", data)
    with _error_at(path):
        state = BatchState(str(path.with_suffix("")))
        _ = state.waiting
        for part in state.under_way:
            list(state.asked(part))


def results(data: bytes) -> None:
    """Read a file of results, as --resume does."""
    path = _written("results.jsonl", data)
    with _error_at(path):
        StoredResults(str(path))


def locks(data: bytes) -> None:
    """Read a lock of promoted files; what is read is written again, and reads back the same."""
    path = _folder / "promoted.lock"
    with _error_at(path):
        lock = read_lock(PROMOTED, data.decode("utf-8", "replace"), str(path))
        filled = {suite: entries for suite, entries in lock.items() if entries}
        if read_lock(PROMOTED, lock_text(PROMOTED, lock), "again") != filled:
            raise AssertionError("a lock does not read back the same")


@cache
def _markup() -> int:
    return to_html(compare(ReportSide([], BytesIO()))).count(b"<")


def reports(data: bytes) -> None:
    """Compare the suites before and after a NUL; no text of theirs becomes markup."""
    before, _, after = data.partition(b"\0")
    sides = []
    for suite in (before, after):
        path = str(_written("r.yaml", suite))
        selection = Selection((path,), frozenset({path}))
        found = convert_cases(selection, _pipeline)
        sides.append(ReportSide(side_items(found, selection, _pipeline, lambda _: None), BytesIO()))
    report = compare(sides[1], sides[0], "HEAD", _pipeline)
    if to_html(report).count(b"<") != _markup():
        raise AssertionError("text became markup")
    to_markdown(report)


def traces(data: bytes) -> None:
    """Import a file as request bodies, and as results; what it becomes is a suite that loads.

    Bytes that are no JSON choose a body, and what is changed in it: no text of it is lost unsaid.
    """
    body = None if data[:1] in (b"{", b"[") else _mutated(iter(data))
    path = _written("t.jsonl", data if body is None else json.dumps(body).encode())
    if body is not None:
        _check_kept(body, [*imported([str(path)], Attached(None, ""))])
    for found in (
        imported([str(path)], Attached(None, "")),
        imported([str(path)], Attached(None, ""), answers=True),
    ):
        cases = []
        for each in found:
            if isinstance(each, MultiturnError):
                _check_place(each, path)
            elif isinstance(each, Imported):
                cases.append(each)
        if cases and cases[0].target:
            suite = _written("t.yaml", suite_text(cases).encode())
            loaded = [case.id for case in load_suite(suite)]
            if loaded != [each.case["id"] for each in cases]:
                raise AssertionError(f"other cases: {loaded}")


_KINDS_OF_BODIES: tuple[Callable[[int], Any], ...] = (
    *BODIES.values(),
    lambda number: in_telemetry(chat_body(number, has_media=False)),
)
_JUNK: tuple[Any, ...] = (
    None,
    [],
    {},
    0,
    "x",
    True,
    [None],
    {"a": 1},
    10**25,
    -1.5,
    "",
    [[]],
    {"type": "text"},
)
_KEYS_OF_BODIES = (
    *("type", "content", "role", "id", "parts", "text", "name", "arguments", "input", "thinking"),
    *("system", "tools", "refusal", "messages", "function", "source", "tool_calls", "summary"),
)


def _check_kept(body: Any, found: list[Any]) -> None:
    """Check that each text of a body is in its case, or below a key that is said."""
    cases = [each.case for each in found if isinstance(each, Imported)]
    said = [_unnumbered(each.why.split(" ")[0]) for each in found if isinstance(each, Notice)]
    there = "".join(map(_as_json, cases))
    if INPUT in body:  # a span has all kinds of attributes
        body = {key: child for key, child in body.items() if key.startswith("gen_ai.")}
    for text, keys in _texts(body) if cases else ():
        path = _unnumbered(".".join(keys))
        if text not in there and not any(path.startswith(k) or k.startswith(path) for k in said):
            raise AssertionError(f"{text} is lost, below {path}; said are {said} of {body}")


def _unnumbered(path: str) -> str:
    """Return a path without indices, and with keys in one spelling."""
    return re.sub(r"\[\d+\]", "", path).replace("_", "").lower()


def _mutated(choices: Iterator[int]) -> Any:
    """Return a request body in which a few values are others, and each text is another one."""
    body = _KINDS_OF_BODIES[next(choices, 0) % len(_KINDS_OF_BODIES)](next(choices, 0))
    for choice in choices:
        places = [*_places(body)]
        inside, step = places[(next(choices, 0) * 256 + next(choices, 0)) % len(places)]
        if choice % 4 == 0:
            del inside[step]
        elif choice % 4 == 1 and isinstance(inside, dict):
            inside[_KEYS_OF_BODIES[choice % len(_KEYS_OF_BODIES)]] = inside.pop(step)
        else:
            inside[step] = deepcopy(_JUNK[choice // 4 % len(_JUNK)])
        if not body:
            break
    return _marked(body, iter(range(10_000)))


def _marked(value: Any, numbers: Iterator[int]) -> Any:
    if isinstance(value, dict):
        return {key: _marked(child, numbers) for key, child in value.items()}
    if isinstance(value, list):
        return [_marked(child, numbers) for child in value]
    return f"text.{next(numbers)}." if isinstance(value, str) and value in TEXTS else value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each mapping or list in a value, with each key or index in it."""
    steps = list(value) if isinstance(value, dict) else range(len(value))
    for step in steps if isinstance(value, dict | list) else ():
        yield value, step
        if isinstance(value[step], dict | list):
            yield from _places(value[step])


KINDS: dict[str, Callable[[bytes], None]] = {
    function.__name__: function
    for function in (
        *(
            suites,
            dialects,
            tables,
            settings,
            pipelines,
            targets,
            patterns,
            defaults,
            states,
            results,
            locks,
            reports,
            traces,
        ),
    )
}


def _written(name: str, data: bytes) -> Path:
    path = _folder / name
    path.write_bytes(data)
    return path


@contextmanager
def _error_at(path: Path) -> Iterator[None]:
    try:
        yield
    except MultiturnError as error:
        _check_place(error, path)


def _check_place(error: MultiturnError, path: Path) -> None:
    if not str(error).startswith(str(path)):
        raise AssertionError(f"an error without a place: {str(error)!r}") from error
