"""Warnings of characters that nobody sees, in all that reaches a prompt."""

import json
import os
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from msgspec import to_builtins

from multiturn.documents.input import read_small
from multiturn.errors import MultiturnError, Place
from multiturn.explaining.spans import suite_key
from multiturn.files.paths import is_below
from multiturn.hidden import MOST_HIDDEN, hidden_in
from multiturn.logs import Notice, warn
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.model.turns import Part
from multiturn.text import first_of, number_of

_LARGEST_SUITE = 1_000_000  # bytes: in a larger one, the place is where a text begins


def warn_of_hidden(conversion: Conversion) -> None:
    """Warn of each text of a prompt with hidden characters that are not allowed, once in a run."""
    case = conversion.case
    for part in _sent(conversion) if case.hidden_characters is None else ():
        if part.text.isascii() or not (found := hidden_in(part.text)):
            continue
        from multiturn.engine.project import find_defaults

        is_file = part.kind == "text" and part.resolved_path is not None and part.stage is None
        where, root = _place_in_suite(part, found[0], case), ""
        if is_file:
            before = part.text[: found[0]].split("\n")
            where = Place(part.resolved_path or "", len(before), len(before[-1]) + 1)
            root = case.files.root if case.files is not None else ""
        path = os.path.realpath(os.path.join(root, where.file))
        allowed = find_defaults()[0].allow_hidden_characters
        if any(is_below(path, os.path.realpath(each)) for each in allowed):
            continue
        names = Counter(unicodedata.name(part.text[at], "UNASSIGNED") for at in found)
        words = first_of([f"{name} ({count})" for name, count in names.most_common()])
        what = f"{number_of(len(found), 'hidden character')}{'+' * (len(found) == MOST_HIDDEN)}"
        key = "allow_hidden_characters of multiturn.toml" if is_file else "hidden_characters: allow"
        why = f"{what}: {words}; remove what is not meant, and say what is by {key}"
        case_id = None if is_file or part.message is None else case.id
        notice = Notice("text.hidden_characters", where, why, case_id=case_id)
        (warn if case.files is None else case.files.warn_once)(notice)


def _sent(conversion: Conversion) -> Iterator[Part]:
    """Yield each text of a prompt, of its tools and of its settings."""
    for turn in conversion.sent:
        yield from turn.parts
        if turn.is_more:
            yield from (*turn.thoughts, *turn.calls_shown)
    others = {f"tools[{at}]": tool for at, tool in enumerate(conversion.tools)}
    settings = (conversion.settings or conversion.case.settings).said()
    for key, value in {**others, **{f"execution.{key}": settings[key] for key in settings}}.items():
        text, line = json.dumps(to_builtins(value), ensure_ascii=False), getattr(value, "line", 0)
        yield Part("description", text, line=line, key=key)


def _place_in_suite(part: Part, at: int, case: Case) -> Place:
    """Return where a suite has a character; if it is an escape there, where its text begins."""
    place, key = case.place_of(part.message, part.content, part.key), suite_key(part, case)
    place = place if place.line else case.where(part.line)  # of a call, a thought or a tool
    label = key if key and part.message is None else case.where(key=key).label
    near = part.text[max(at - 4, 0) : at + 1].split("\n")[-1]
    start, most = max(place.column - 1, 0), at + 100 * (part.text.count("\n", 0, at) + 1)
    with suppress(MultiturnError, ValueError, IndexError):
        if os.path.isfile(place.file):  # and no pipe, which is read once
            suite = read_small(place.file, place.file, "suite", _LARGEST_SUITE).decode("utf-8-sig")
            rest = suite.split("\n", place.line - 1)[place.line - 1]
            before = rest[: rest.index(near, start, start + most) + len(near)].split("\n")
            return Place(place.file, place.line + len(before) - 1, len(before[-1]), label)
    return place._replace(label=label)
